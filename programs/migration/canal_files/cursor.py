"""Cursor: where a client of canal was, as canal stores it, as the start of a shard.

canal's meta.dat has the cursors of an instance's clients; a node `{client id}/cursor` in ZooKeeper has one.
Both are JSON:

    {"destination": "d", "clientDatas": [{"clientIdentity": {"clientId": 1001, ...}, "cursor": CURSOR}]}
    CURSOR: {"identity": {"sourceAddress": {"address": "host", "port": 3306}, ...},
             "postion": {"journalName": "f.000001", "position": 4, "timestamp": ms, "gtid": "", ...}}

The position is where the last acknowledged entry *begins*: the end of a transaction, its begin, or a DDL
statement. A stream cannot begin inside a transaction, so the start is the transaction that holds the offset.
With GTIDs the set includes the transaction, and the start is after it. Offsets 0 and 4 are a file's begin.

canal writes the *name* of the source's host, as a reverse lookup of its address says it.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canal_group.conf.sentence import config_error
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.position import file_order
from canal_group.merge.values.start import parse_shard_start
from canal_group.programs.migration.canal_files.properties import FILE_BYTES_MAX

_MS = 1_000
#: where the first event of a file begins
_FIRST_OFFSET = 4
#: name of a file with the data of a node, without its suffix: instance, or instance and client id
_NODE = re.compile(r"(?P<destination>.+?)(?:\.(?P<client>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class CanalCursor:
    """A client's cursor."""

    #: file that the cursor was read from
    source: str
    #: canal's name of the instance; empty: the file does not say it
    destination: str
    #: empty: the file does not say it
    client_id: str
    host: str
    port: int
    file: str
    offset: int
    #: time of the entry, milliseconds since 1970; 0: not known
    time_ms: int
    gtids: str

    @property
    def start(self) -> str:
        """The start of its shard, on the server that the cursor is of."""
        if self.gtids:
            return self.gtids
        at_begin = self.offset in (0, _FIRST_OFFSET)
        return f"{self.file}:{_FIRST_OFFSET}" if at_begin else f"{self.file}:~{self.offset}"

    def start_elsewhere(self, fallback_s: float) -> str:
        """Return the start on another server of the shard: by GTIDs, or `fallback_s` before its time."""
        return self.gtids or time_text(self.time_ms - int(fallback_s * _MS))

    def is_before(self, other: CanalCursor) -> bool:
        """Return whether its position is older; positions of two servers compare by time, as in canal."""
        same = (self.host, self.port) == (other.host, other.port)
        if same and file_order(self.file)[0] == file_order(other.file)[0]:
            return (file_order(self.file), self.offset) < (file_order(other.file), other.offset)
        return self.time_ms < other.time_ms


def time_text(time_ms: int) -> str:
    """Return a time as settings have it, in UTC."""
    moment = dt.datetime.fromtimestamp(max(0, time_ms) // _MS, dt.UTC)
    return moment.replace(microsecond=max(0, time_ms) % _MS * _MS).isoformat()


def read_cursors(file: Path) -> list[CanalCursor]:
    """Return the cursors in a file of canal's, or in the data of a cursor's node.

    Raises:
        ConfigError: it cannot be read, or holds no cursor.
    """
    source = str(file)
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise config_error(source, "", "be readable", f"is not ({error.strerror})") from None
    expected = "hold canal's cursors: a meta.dat, or the data of a `cursor` node"
    if len(content) > FILE_BYTES_MAX:
        raise config_error(source, "", expected, f"has more than {FILE_BYTES_MAX} bytes")
    try:
        value = json.loads(content)
        listed = value.get("clientDatas", [{"cursor": value}])
        # The data of a node does not say whose it is: the file's name may.
        node = _NODE.fullmatch(file.stem)
        assert node is not None, file
        destination, client = str(value.get("destination") or node["destination"]), node["client"] or ""
        cursors = [_cursor(source, destination, client, each) for each in listed if each.get("cursor")]
    except (AttributeError, CanalGroupError, KeyError, RecursionError, TypeError, ValueError) as error:
        why = (
            error.message.rstrip(".")
            if isinstance(error, CanalGroupError)
            else f"{type(error).__name__}: {error}"
        )
        raise config_error(source, "", expected, f"does not ({why})") from None
    if not cursors:
        raise config_error(source, "", expected, "has none")
    return cursors


def _cursor(source: str, destination: str, client_id: str, data: Mapping[str, Any]) -> CanalCursor:
    cursor, client = data["cursor"], data.get("clientIdentity") or {}
    # The first spelling is canal's.
    position = cursor["postion"] if "postion" in cursor else cursor["position"]
    address = (cursor.get("identity") or {}).get("sourceAddress") or {}
    gtids = str(position.get("gtid") or "").replace("\n", "")
    parsed = CanalCursor(
        source,
        str(client.get("destination") or destination),
        str(client.get("clientId") or client_id),
        str(address.get("address") or ""),
        int(address.get("port") or 0),
        str(position.get("journalName") or ""),
        int(position.get("position") or 0),
        int(position.get("timestamp") or 0),
        gtids,
    )
    parse_shard_start(parsed.start, (1 << 62))
    if not gtids:
        file_order(parsed.file)
    return parsed
