"""Handmade binlogs: events of servers that are too old to run, and events that no server writes."""

from __future__ import annotations

import struct
import zlib

from canal_group.binlog.formats.event_types import EventType

MAGIC = b"\xfebin"
#: sizes of the fixed parts of MySQL 5.1's event types, from type 1 on (START_V3 to INCIDENT)
SIZES_5_1 = bytes(
    [56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 84, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2],
)


class File:
    """A binlog file that grows event by event.

    Args:
        version: the server's version; from 5.6.1 on, format descriptions end in a checksum algorithm.
        sizes: of the fixed parts, from type 1 on.
        checksum: None: the server does not support checksums; otherwise whether it writes them.
        flags: of the format description.
    """

    def __init__(self, version, sizes=SIZES_5_1, checksum=None, flags=0):
        self.data = MAGIC
        self.checksum = False
        body = struct.pack("<H50sIB", 4, version.encode(), 0, 19) + sizes
        if checksum is not None:
            body += bytes([1 if checksum else 0])
        self.checksum = checksum is True
        if checksum is False:
            body += bytes(4)
        self.add(EventType.FORMAT_DESCRIPTION, body, flags=flags)

    def add(self, kind, body, *, timestamp=1_300_000_000, flags=0, log_pos=None, server_id=1):
        """Append an event; `log_pos` is the end of the event unless it is given."""
        size = 19 + len(body) + 4 * self.checksum
        end = len(self.data) + size if log_pos is None else log_pos
        event = struct.pack("<IBIIIH", timestamp, kind, server_id, size, end, flags & ~1) + body
        crc = struct.pack("<I", zlib.crc32(event)) if self.checksum else b""
        self.data += event[:17] + struct.pack("<H", flags) + event[19:] + crc
        return self

    def query(self, sql, schema="app", **options):
        body = struct.pack("<IIBHH", 1, 0, len(schema), 0, 0) + schema.encode() + b"\0" + sql.encode()
        return self.add(EventType.QUERY, body, **options)

    def table_map(self, columns, number=7, id_size=6, table="t", tail=b""):
        """Append a table map; `columns` are (type, metadata bytes)."""
        body = number.to_bytes(id_size, "little") + b"\1\0" + b"\3app\0"
        body += bytes([len(table)]) + table.encode() + b"\0" + bytes([len(columns)])
        meta = b"".join(each for _, each in columns)
        body += bytes(kind for kind, _ in columns) + bytes([len(meta)]) + meta
        return self.add(EventType.TABLE_MAP, body + bytes((len(columns) + 7) // 8) + tail)

    def insert(self, columns, rows, number=7, id_size=6, kind=EventType.WRITE_ROWS_V1):
        """Append rows in their stored form; each gets a null bitmap without nulls."""
        bitmap = (len(columns) + 7) // 8
        body = number.to_bytes(id_size, "little") + b"\1\0" + bytes([len(columns)]) + b"\xff" * bitmap
        return self.add(kind, body + b"".join(bytes(bitmap) + row for row in rows))

    def xid(self):
        return self.add(EventType.XID, bytes(8))

    def write(self, path):
        path.write_bytes(self.data)
        return path


def events_of(data):
    """Return the events of a file's bytes."""
    events, at = [], len(MAGIC)
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 9)
        events.append(data[at : at + size])
        at += size
    return events
