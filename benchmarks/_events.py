"""Events: binlog events made in memory, for a table of eleven columns of mixed types, some of them null."""

from __future__ import annotations

import random
import struct
import zlib

from canal_group.binlog.formats.event_types import EventType

_VERSION = b"9.7.4"
_TABLE_ID = 97
#: type byte, metadata, whether it is numeric and unsigned (None: it is not numeric), name
_COLUMNS: tuple[tuple[int, bytes, bool | None, bytes], ...] = (
    (8, b"", True, b"id"),
    (3, b"", False, b"customer"),
    (15, struct.pack("<H", 200), None, b"name"),
    (15, struct.pack("<H", 1020), None, b"address"),
    (246, bytes((12, 2)), False, b"amount"),
    (5, b"\x08", False, b"score"),
    (254, bytes((247, 1)), None, b"state"),
    (1, b"", False, b"flags"),
    (10, b"", None, b"day"),
    (18, b"\x06", None, b"created"),
    (17, b"\x03", None, b"changed"),
)
_UTF8MB4 = 255


def packed(value: bytes) -> bytes:
    """Return bytes prefixed with their length, which is below 251."""
    return bytes([len(value)]) + value


def table_map() -> bytes:
    """Return the body of the table's TABLE_MAP event, with full metadata."""
    meta = b"".join(column[1] for column in _COLUMNS)
    signs = sum(0x80 >> at for at, u in enumerate(c[2] for c in _COLUMNS if c[2] is not None) if u)
    optional = (
        (1, bytes([signs])),
        (2, b"\xfc" + struct.pack("<H", _UTF8MB4)),
        (4, b"".join(packed(column[3]) for column in _COLUMNS)),
        (6, b"\x03" + packed(b"new") + packed(b"paid") + packed(b"sent")),
        (8, b"\x00"),
        (10, b"\xfc" + struct.pack("<H", _UTF8MB4)),
    )
    return (
        _TABLE_ID.to_bytes(6, "little")
        + b"\x01\x00"
        + packed(b"shop")
        + b"\x00"
        + packed(b"orders")
        + b"\x00"
        + packed(bytes(column[0] for column in _COLUMNS))
        + packed(meta)
        + b"\xfe\x07"
        + b"".join(bytes([kind]) + packed(value) for kind, value in optional)
    )


def row(number: int, chance: random.Random) -> bytes:
    """Return the image of a row."""
    nulls = sum(1 << at for at in (1, 3, 10) if chance.random() < 0.1)  # noqa: PLR2004
    name = f"customer {chance.randrange(10**6)}".encode()
    address = f"{number} Straße, {'x' * chance.randrange(40)}".encode()
    cents = chance.randrange(10**8)
    second = chance.randrange(86_400)
    clock = second // 3600 << 12 | second // 60 % 60 << 6 | second % 60
    moment = (1 << 17 | (2026 * 13 + 1 + chance.randrange(12))) << 22 | 1 + chance.randrange(28) << 17 | clock
    values = (
        struct.pack("<Q", number),
        struct.pack("<i", chance.randrange(-(10**6), 10**6)),
        packed(name),
        struct.pack("<H", len(address)) + address,
        struct.pack(">BIB", 0x80, cents // 100, cents % 100),
        struct.pack("<d", chance.random()),
        bytes([1 + chance.randrange(3)]),
        struct.pack("<b", chance.randrange(-128, 128)),
        (2026 << 9 | 3 << 5 | 1 + chance.randrange(28)).to_bytes(3, "little"),
        moment.to_bytes(5, "big") + chance.randrange(10**6).to_bytes(3, "big"),
        struct.pack(">IH", 1_700_000_000 + number, chance.randrange(1000) * 10),
    )
    present = b"".join(value for at, value in enumerate(values) if not nulls >> at & 1)
    return struct.pack("<H", nulls) + present


def rows_body(first: int, count: int, chance: random.Random) -> bytes:
    """Return the body of a WRITE_ROWS event."""
    head = _TABLE_ID.to_bytes(6, "little") + struct.pack("<HH", 1, 2) + bytes([len(_COLUMNS)]) + b"\xff\x07"
    return head + b"".join(row(first + index, chance) for index in range(count))


def format_description(checksums: bool) -> bytes:
    """Return the body of a FORMAT_DESCRIPTION event, which says whether events have checksums."""
    sizes = bytearray(42)
    sizes[EventType.TABLE_MAP - 1] = 8
    for each in (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS):
        sizes[each - 1] = 10
    return struct.pack("<H50sIB", 4, _VERSION, 0, 19) + bytes(sizes) + bytes([checksums])


def gtid(number: int) -> bytes:
    """Return the body of a GTID event, as MySQL writes it since 8.0.14."""
    stamp = (1_700_000_000_000_000 + number).to_bytes(7, "little")
    clock = struct.pack("<Bqq", 2, number - 1, number)
    return (
        b"\x01"
        + bytes(range(16))
        + struct.pack("<q", number)
        + clock
        + stamp
        + b"\xfa"
        + struct.pack("<I", 90704)
    )


class File:
    """Binlog events one after the other, as they stand in a file.

    Args:
        checksums: whether they have any; the description of the file always has one.
    """

    def __init__(self, *, checksums: bool = True) -> None:
        self._checksums = checksums
        self.events: list[bytes] = []
        self.end = 4

    def add(self, event_type: int, body: bytes) -> None:
        """Append an event with its header, and its checksum if it has one."""
        summed = self._checksums or event_type == EventType.FORMAT_DESCRIPTION
        size = 19 + len(body) + (4 if summed else 0)
        self.end += size
        event = struct.pack("<IBIIIH", 1_700_000_000, event_type, 1, size, self.end, 0) + body
        self.events.append(event + (struct.pack("<I", zlib.crc32(event)) if summed else b""))


def events_of(
    rows: int, rows_an_event: int, rows_a_transaction: int, *, checksums: bool = True
) -> list[bytes]:
    """Return a file's events: its description, and transactions of one table, with GTIDs."""
    file, chance = File(checksums=checksums), random.Random(7)
    file.add(EventType.FORMAT_DESCRIPTION, format_description(checksums))
    for number, begin in enumerate(range(0, rows, rows_a_transaction), start=1):
        file.add(EventType.GTID, gtid(number))
        file.add(EventType.QUERY, struct.pack("<IIBHH", 1, 0, 4, 0, 0) + b"shop\0BEGIN")
        file.add(EventType.TABLE_MAP, table_map())
        for first in range(begin, min(begin + rows_a_transaction, rows), rows_an_event):
            file.add(EventType.WRITE_ROWS, rows_body(first, rows_an_event, chance))
        file.add(EventType.XID, struct.pack("<Q", 1))
    return file.events
