"""Dump requests: how a replica asks a source for its binlog, from an offset or after a set of GTIDs.

    COM_BINLOG_DUMP        a file and an offset, or on MariaDB what `@slave_connect_state` says
    COM_BINLOG_DUMP_GTID   on MySQL: everything that is not in a set of GTIDs

Layouts: "COM_BINLOG_DUMP_GTID" in MySQL's client/server protocol, "Replication protocol" in MariaDB's
knowledge base.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from pymysql.constants import COMMAND

from canal_group.binlog.formats.events import MAGIC
from canal_group.binlog.formats.gtid_sets import encode_gtid_set
from canal_group.binlog.schema.sql import plain_text
from canal_group.merge.errors import SourceUnfit
from canal_group.merge.values.gtids.gtid import GtidSet, MariaDbGtidSet, MySqlGtidSet

#: flag: the request's set of GTIDs is used, not its file and offset
_THROUGH_GTID = 0x04
#: flag of MariaDB: annotations are sent, too; MySQL has no such flag, and is not asked so
_ANNOTATIONS = 0x02
#: a request has an offset of 32 bits
OFFSET_MAX = (1 << 32) - 1
_TAGS_SINCE = (8, 3)
_SESSION_TIMEOUT_S = 7200


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """A request for a dump."""

    #: number of the command
    command: int
    payload: bytes
    #: session variables to set before the request
    session: tuple[str, ...] = ()


def dump_from(file: str, offset: int, server_id: int, *, annotations: bool = False) -> DumpRequest:
    """Return the request for everything from an offset of a file on; the source waits for more at the end.

    Args:
        file: name of the file.
        offset: where an event begins.
        server_id: id of the replica.
        annotations: whether MariaDB also sends the text of statements, which an archive needs to have all
            bytes of a file. Other servers have no such events.
    """
    flags = _ANNOTATIONS if annotations else 0
    head = struct.pack("<IHI", offset, flags, server_id)
    return DumpRequest(COMMAND.COM_BINLOG_DUMP, head + file.encode())


def dump_after(gtids: GtidSet, server_id: int) -> DumpRequest:
    """Return the request for every transaction that is not in `gtids`."""
    if isinstance(gtids, MariaDbGtidSet):
        # Strict: a GTID that the source lacks, while it has later ones, is an error instead of a guess.
        session = (
            f"@slave_connect_state = {plain_text(str(gtids))}",
            "@slave_gtid_strict_mode = 1",
            "@slave_gtid_ignore_duplicates = 0",
        )
        return replace(dump_from("", len(MAGIC), server_id), session=session)
    encoded = encode_gtid_set(gtids)
    head = struct.pack("<HIIQI", _THROUGH_GTID, server_id, 0, len(MAGIC), len(encoded))
    return DumpRequest(COMMAND.COM_BINLOG_DUMP_GTID, head + encoded)


def require_readable(gtids: GtidSet, version: tuple[int, ...], shard: str) -> None:
    """Return if a MySQL server of this version can read the set.

    Raises:
        SourceUnfit: it holds tags, which the server does not know.
    """
    tagged = isinstance(gtids, MySqlGtidSet) and any(tag for (_, tag), _ in gtids.runs)
    if tagged and version < _TAGS_SINCE:
        raise SourceUnfit(
            f"The position of shard {shard} holds tagged GTIDs, which its source, MySQL "
            f"{'.'.join(map(str, version))}, does not know.",
            hint="Continue on a server of MySQL 8.3 or later.",
            shard=shard,
        )


def session(heartbeat_ms: int, *, checksums: bool = False) -> tuple[str, ...]:
    """Return the assignments that every session makes before it requests a dump.

    Args:
        heartbeat_ms: interval of heartbeats while the source has nothing to send.
        checksums: whether events have their checksums whatever the source's setting is now, as an archive
            needs them; else as that is.
    """
    checksum = "'CRC32'" if checksums else "@@global.binlog_checksum"
    heartbeat_ns = heartbeat_ms * 1_000_000
    return (
        f"@master_binlog_checksum = {checksum}",
        f"@source_binlog_checksum = {checksum}",
        "@mariadb_slave_capability = 4",  # MariaDB: send GTID events unchanged, replace nothing by fillers
        f"@master_heartbeat_period = {heartbeat_ns}",
        f"@source_heartbeat_period = {heartbeat_ns}",
        # The server must not disconnect a consumer that is slow for an hour: it waits until we read.
        f"SESSION net_write_timeout = {_SESSION_TIMEOUT_S}",
        f"SESSION net_read_timeout = {_SESSION_TIMEOUT_S}",
        f"SESSION wait_timeout = {_SESSION_TIMEOUT_S}",
    )
