"""How fast rows events become rows: this project's decoder beside mysql-replication, on the same bytes.

Both are given whole events in memory, header and checksum included, of a table of 11 columns: integers,
text, DECIMAL, DOUBLE, ENUM, dates and times, some of them null. Ours runs as it does behind a socket, from
the event's header over the checksum, which it verifies, to closed chunks of Arrow rows; mysql-replication
parses the event and reads its rows into dicts, and verifies nothing.

    bulk            100 rows an event, one event after the other
    small           1 row an event, likewise
    transactions    1 row a transaction: its BEGIN, table map, rows and commit are events as well

Speed is rows per second of the thread's own processor time. A ratio is the median of rounds in which both
run one after the other.
"""

from __future__ import annotations

import random
import statistics
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from pymysql.protocol import MysqlPacket
from pymysqlreplication.event import QueryEvent, XidEvent
from pymysqlreplication.packet import BinLogPacketWrapper
from pymysqlreplication.row_event import TableMapEvent, WriteRowsEvent

from actors.parse.binlog_decoder import BinlogDecoder
from actors.parse.chunk_builder import ChunkBuilder
from actors.parse.event_types import EventType
from merge.chunk import TableName
from merge.position import Position

_ROUNDS = 5
_ROWS_AN_EVENT = {"bulk": 100, "small": 1, "transactions": 1}
_OUR_ROWS = {"bulk": 400_000, "small": 200_000, "transactions": 20_000}
_THEIR_ROWS = {"bulk": 2_000, "small": 1_500, "transactions": 1_000}

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
    """Return bytes with their length, below 251, before them."""
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


def format_description() -> bytes:
    """Return the body of a FORMAT_DESCRIPTION event."""
    sizes = bytearray(42)
    sizes[EventType.TABLE_MAP - 1] = 8
    for each in (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS):
        sizes[each - 1] = 10
    return struct.pack("<H50sIB", 4, _VERSION, 0, 19) + bytes(sizes) + b"\x01"


class File:
    """Binlog events one after the other, as they stand in a file."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.end = 4

    def add(self, event_type: int, body: bytes) -> None:
        """Append an event with header and checksum."""
        size = 19 + len(body) + 4
        self.end += size
        event = struct.pack("<IBIIIH", 1_700_000_000, event_type, 1, size, self.end, 0) + body
        self.events.append(event + struct.pack("<I", zlib.crc32(event)))


def events_of(rows: int, rows_an_event: int, rows_a_transaction: int) -> list[bytes]:
    """Return a file's events: its description, and transactions of one table."""
    file, chance = File(), random.Random(7)
    file.add(EventType.FORMAT_DESCRIPTION, format_description())
    for begin in range(0, rows, rows_a_transaction):
        file.add(EventType.QUERY, struct.pack("<IIBHH", 1, 0, 4, 0, 0) + b"shop\0BEGIN")
        file.add(EventType.TABLE_MAP, table_map())
        for first in range(begin, min(begin + rows_a_transaction, rows), rows_an_event):
            file.add(EventType.WRITE_ROWS, rows_body(first, rows_an_event, chance))
        file.add(EventType.XID, struct.pack("<Q", 1))
    return file.events


def run_ours(events: Sequence[bytes]) -> int:
    """Return how many rows the decoder's chunks have."""
    builder = ChunkBuilder()
    position = Position("mysql-bin.000001", 4)
    decoder = BinlogDecoder("s1", position, TableName, builder, checksum=1)
    rows = 0
    for event in events:
        decoder.feed(event)
        while decoder.go_on():
            pass
        if builder.full:
            chunk = builder.close(decoder.offset)
            rows += sum(table.rows.num_rows for table in chunk.tables) if chunk else 0
    chunk = builder.close(decoder.offset)
    return rows + (sum(table.rows.num_rows for table in chunk.tables) if chunk else 0)


class _Control:
    """Stands for mysql-replication's second connection: asked for two facts only."""

    charset = "utf8mb4"

    @staticmethod
    def _get_dbms() -> str:
        return "mysql"


def run_theirs(events: Sequence[bytes]) -> int:
    """Return how many rows mysql-replication reads."""
    tables: dict[int, object] = {}
    allowed = {TableMapEvent, WriteRowsEvent, QueryEvent, XidEvent}
    nothing = None, None, None, None
    rows = 0
    for event in events[1:]:
        packet = MysqlPacket(b"\0" + event, "utf-8")
        wrapper = BinLogPacketWrapper(
            packet, tables, _Control, (9, 7, 4), True, allowed, *nothing, False, False, False, False, True
        )
        parsed = wrapper.event
        if isinstance(parsed, TableMapEvent):
            tables[parsed.table_id] = parsed.get_table()
        elif isinstance(parsed, WriteRowsEvent):
            rows += len(parsed.rows)
    return rows


def rows_per_s(run: Callable[[Sequence[bytes]], int], events: Sequence[bytes], rows: int) -> float:
    """Return a decoder's speed over events that hold so many rows."""
    begin = time.thread_time()
    found = run(events)
    elapsed_s = time.thread_time() - begin
    assert found == rows, f"{found} rows of {rows}"
    return rows / elapsed_s


def measure(size: float) -> dict[str, Any]:
    """Return speed and ratio for large and for small events."""
    return {name: _measured(name, size) for name in _ROWS_AN_EVENT}


def _measured(name: str, size: float) -> dict[str, float]:
    an_event = _ROWS_AN_EVENT[name]
    ours, theirs = (
        max(an_event, int(rows[name] * size)) // an_event * an_event for rows in (_OUR_ROWS, _THEIR_ROWS)
    )
    our_events, their_events = (
        events_of(rows, an_event, 1 if name == "transactions" else rows) for rows in (ours, theirs)
    )
    run_ours(their_events)  # both are warm then
    run_theirs(their_events)
    rounds = [
        (rows_per_s(run_ours, our_events, ours), rows_per_s(run_theirs, their_events, theirs))
        for _ in range(_ROUNDS)
    ]
    return {
        "rows_per_s": round(statistics.median(mine for mine, _ in rounds)),
        "ratio_to_mysql_replication": round(statistics.median(mine / other for mine, other in rounds), 1),
        "mysql_replication_rows_per_s": round(statistics.median(other for _, other in rounds)),
    }
