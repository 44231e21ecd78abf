"""Latest: the end of a source's binlog, with the GTIDs of everything before it.

A stream may go on there by file and offset, on another server by GTID, and a page of a snapshot may have seen
everything before it: so the two must be of one moment. MariaDB answers for the GTIDs at an offset. MySQL does
not: a transaction is written first, and its GTID is in `gtid_executed` once it is committed, which may wait
for a replica. Until then `gtid_owned` has it, so that

- if nothing is owned, everything that was written before is executed;
- if the binlog ends where it did before that was asked, nothing else is.

If this does not come about, because others write, a dump tells what is before the end and was not executed.
Its server skips what it need not send.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pymysql

from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import MAGIC, parse_header
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.formats.gtid_events import parse_start
from canal_group.binlog.server.dump.archived import is_before
from canal_group.binlog.server.dump.dump_request import DumpRequest, dump_after, dump_from
from canal_group.binlog.server.source import ServerFacts, SourceAddress, query_one
from canal_group.binlog.server.starts.binary_logs import log_end, rotate_sent
from canal_group.binlog.server.starts.logged import BEGINS, body_of, connection_to, next_event
from canal_group.binlog.server.starts.server_log import ServerLog
from canal_group.binlog.server.starts.start import executed_gtids, gtids_at
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.position import Position

#: how often a source is asked whether everything that is written is executed, before what is not is read
_TRIES: Final = 3
#: longest wait until a source sends all bytes of its binlog, seconds: a source sends bytes once they are on
#: its disk
_SYNC_S: Final = 10.0
_WRAP: Final = 1 << 32


def latest_position(
    address: SourceAddress, connection: pymysql.Connection[Any], facts: ServerFacts
) -> Position:
    """Return the end of a source's binlog, with the GTID set of everything before it.

    Raises:
        SourceUnfit: the source has no binlog, or refuses.
        SourceUnavailable: it does not answer, or does not send what it has written.
    """
    if facts.mariadb:
        end = log_end(address, connection, facts)
        return replace(end, gtid_set=gtids_at(address, connection, end.file, end.offset))
    # Ask for the GTIDs first and for the end of the log second: executed transactions are in the log by then.
    executed = executed_gtids(address, connection, facts)
    end = log_end(address, connection, facts)
    if facts.variables.get("gtid_mode", "OFF").upper() == "OFF":  # none is on its way
        return replace(end, gtid_set=executed)
    for _ in range(_TRIES):
        owned = query_one(address, connection, "SELECT @@global.gtid_owned AS gtids")["gtids"]
        executed = executed_gtids(address, connection, facts)
        before, end = end, log_end(address, connection, facts)
        if end == before and not owned:
            return replace(end, gtid_set=executed)
    scanner = address.scanner("latest")
    if facts.gtids:
        known, request = executed, dump_after(executed, scanner.server_id)
    else:  # some transactions have none, and a server that has such a setting does not send by GTID
        known = ServerLog(address, connection, facts).gtids_before(end.file)
        request = dump_from(end.file, len(MAGIC), scanner.server_id)
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for source, number in _written(scanner, request, end):
        numbers[source].append(number)
    for source in numbers:
        known = known.add(source, numbers[source])
    return replace(end, gtid_set=known)


def _written(address: SourceAddress, request: DumpRequest, end: Position) -> Iterator[tuple[str, int]]:
    """Yield the GTIDs of a dump's transactions that begin before a position of the server.

    Args:
        address: the server, under a server id that no other connection uses.
        request: of the dump, which begins before the position.
        end: the position.
    """
    last = end.file, end.offset
    with connection_to(address, end.server) as dump:
        checksum = dump.register()
        packets = dump.request(request)
        file, offset, moved_s = "", 0, time.monotonic()
        while not file or is_before((file, offset), last):
            if time.monotonic() - moved_s > _SYNC_S:
                raise SourceUnavailable(
                    f"{address.title} wrote its binlog up to {end}, and sends it up to {offset} only: its "
                    "disk does not answer, or its logs were reset.",
                    shard=address.name,
                    file=file,
                    offset=offset,
                )
            event = next_event(address, packets)
            header = parse_header(event)
            if header.event_type == EventType.FORMAT_DESCRIPTION:
                checksum = parse_format_description(event).checksum
            if header.event_type == EventType.ROTATE:
                offset, file = rotate_sent(address, body_of(event, checksum), file, offset)
                continue
            if header.log_pos and (gap := (header.log_pos - offset) % _WRAP):  # it has 32 bits
                offset, moved_s = offset + gap, time.monotonic()
            if header.event_type in BEGINS and is_before((file, offset - header.size), last):
                start = parse_start(header.event_type, body_of(event, checksum), header.server_id)
                if start.number:
                    yield start.source, start.number
