"""GTID sets as bytes: in requests for a dump, and at the beginning of a binlog file.

In a binlog file the set is that of everything before the file.

MySQL: a count, then for each source its uuid, the number of its intervals, and the begin and end (exclusive)
of each interval. Sets with tags have a format of their own (MySQL 8.3 and later): the count is enclosed by
two bytes that name the format, and each uuid is followed by its tag. MariaDB: a count, then for each entry
domain, server id and sequence.

Layouts: `Gtid_set::encode` in MySQL's source, `Gtid_list_log_event` in MariaDB's.
"""

from __future__ import annotations

import struct
import uuid

from canal_group.binlog.formats.binlog_file import BinlogFile, buffered
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import CHECKSUM_CRC32, CHECKSUM_SIZE, HEADER_SIZE, MAGIC, parse_header
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.merge.errors import DataError
from canal_group.merge.values.gtids.gtid import NO_GTIDS, GtidSet, MySqlGtidSet

_TAGGED = 1
#: flags above MariaDB's count
_COUNT_BITS = 0x0FFFFFFF
#: PREVIOUS_GTIDS or GTID_LIST is among the first events of a file, after the description and encryption
_EVENTS_MAX = 4


def encode_gtid_set(gtids: GtidSet) -> bytes:
    """Return a set in the form that MySQL reads; without tags, in the form that every version reads."""
    runs = gtids.runs if isinstance(gtids, MySqlGtidSet) else ()
    tagged = any(tag for (_, tag), _ in runs)
    count = _TAGGED << 56 | len(runs) << 8 | _TAGGED if tagged else len(runs)
    parts = [struct.pack("<Q", count)]
    for (source, tag), intervals in runs:
        parts.append(uuid.UUID(source).bytes)
        if tagged:
            # A number in MySQL's variable-length format: one byte up to 63. A tag has at most 32 characters.
            parts.append(bytes([len(tag) << 1]) + tag.encode())
        parts.append(struct.pack(f"<Q{2 * len(intervals)}Q", len(intervals), *sum(intervals, ())))
    return b"".join(parts)


def decode_gtid_set(data: bytes) -> GtidSet:
    """Return the set in bytes that MySQL wrote.

    Raises:
        struct.error, IndexError: the bytes end inside it.
    """
    (count,) = struct.unpack_from("<Q", data)
    tagged = count >> 56 == _TAGGED
    gtids: GtidSet = NO_GTIDS
    at = 8
    for _ in range(count >> 8 & (1 << 48) - 1 if tagged else count):
        source, at = str(uuid.UUID(bytes=data[at : at + 16])), at + 16
        if tagged:
            size = data[at] >> 1
            tag, at = data[at + 1 : at + 1 + size].decode(), at + 1 + size
            source += f":{tag}" if tag else ""
        (intervals,) = struct.unpack_from("<Q", data, at)
        bounds = struct.unpack_from(f"<{2 * intervals}Q", data, at + 8)
        at += 8 + 16 * intervals
        runs = tuple(zip(bounds[::2], bounds[1::2], strict=True))
        name, _, tag = source.partition(":")
        gtids = gtids.union(MySqlGtidSet((((name, tag), runs),)) if runs else NO_GTIDS)
    return gtids


def gtids_before(file: BinlogFile) -> GtidSet:
    """Return the set of everything before a binlog file, as the file says; empty if it does not say.

    Errors are ignored here: the reader of the file's transactions raises them.
    """
    try:
        return _gtids_before(file)
    except (OSError, DataError, struct.error, IndexError, ValueError):
        return NO_GTIDS


def _gtids_before(file: BinlogFile) -> GtidSet:
    checksum = 0
    with buffered(file) as opened:
        opened.seek(len(MAGIC))
        for _ in range(_EVENTS_MAX):
            head = opened.read(HEADER_SIZE)
            (size,) = struct.unpack_from("<I", head, 9)
            event = head + opened.read(max(0, size - HEADER_SIZE))
            kind = parse_header(event).event_type
            if kind == EventType.FORMAT_DESCRIPTION:
                checksum = CHECKSUM_SIZE if parse_format_description(event).checksum == CHECKSUM_CRC32 else 0
            body = event[HEADER_SIZE : len(event) - checksum]
            if kind == EventType.PREVIOUS_GTIDS:
                return decode_gtid_set(body)
            if kind == EventType.MARIADB_GTID_LIST:
                return decode_gtid_list(body)
    return NO_GTIDS


def decode_gtid_list(body: bytes) -> GtidSet:
    """Return the set in a GTID_LIST event of MariaDB; the last entry of a domain is its position.

    Raises:
        struct.error: the bytes end inside it.
    """
    gtids: GtidSet = NO_GTIDS
    count = struct.unpack_from("<I", body)[0] & _COUNT_BITS
    for domain, server, sequence in struct.iter_unpack("<IIQ", body[4 : 4 + 16 * count]):
        gtids = gtids.add(f"{domain}-{server}", [sequence])
    return gtids
