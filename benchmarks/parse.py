"""Parse: how fast a binlog becomes Arrow chunks, compared with other binlog readers.

There are two kinds of transactions, of a table of eleven columns of mixed types:

    bulk     of 100 rows (from a server) or many events of 100 rows (in memory)
    small    of one row: its GTID, BEGIN, table map, rows and commit are events as well

`rows_per_s` and `ratio_to_mysql_replication`: from packets in memory. Both readers get the same events with
header and checksum. Ours works as on a socket: it verifies the checksum and builds closed chunks of Arrow
rows. mysql-replication parses the events, reads their rows into dicts, and verifies nothing. Speed is rows
per second of the thread's own processor time.

`ratio_to_raw_dump`: from a live server, over TCP. Ours connects, requests the dump, and builds chunks of all
rows. The other reader is the server's own client, which writes the same bytes to a file without decoding
them. Speed is the binlog's bytes per second of wall-clock time.

Each ratio is the median of rounds in which both run one after the other.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pymysql.protocol import MysqlPacket
from pymysqlreplication.event import GtidEvent, QueryEvent, XidEvent
from pymysqlreplication.packet import BinLogPacketWrapper
from pymysqlreplication.row_event import TableMapEvent, WriteRowsEvent

from benchmarks._events import events_of
from benchmarks._load import Backlog, binlogs, cpus, fill, servers
from benchmarks._readers import LIMITS, address_at
from benchmarks._rivals import raw_dumps
from canal_group.binlog.grammar.binlog_decoder import BinlogDecoder
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.native.packets import PacketBuffer
from canal_group.binlog.server.binlog_stream import stream_of
from canal_group.binlog.server.clock import SourceClock
from canal_group.binlog.server.low_watermarks import CaughtUp
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.values.chunk import Chunk, TableName
from canal_group.merge.values.position import Position
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

_ROUNDS = 5
#: rows of an event, rows of a transaction (0: all), rows that ours and mysql-replication read
IN_MEMORY = {"bulk": (100, 0, 400_000, 2_000), "small": (1, 1, 200_000, 1_000)}
#: transactions on a server
TRANSACTIONS = {"bulk": 20_000, "small": 120_000}
#: the server sends statement texts with rows only on request: its client requests them, ours does not
_OPTIONS = ("--binlog-annotate-row-events=OFF",)
_PACKET_MAX = 0xFFFFFF
_SERVER_ID = 4_000_001
_T = TypeVar("_T")


def measure(size: float, engine: Engine = Engine.MARIADB) -> dict[str, Any]:
    """Return speed and ratios for large and for small transactions."""
    measured = {name: in_memory(name, size) for name in IN_MEMORY}
    # Rows are decoded from memory too, and by others: the events have to name the columns.
    full = "--binlog-row-metadata=FULL"
    with servers(engine, 1, (full, *(_OPTIONS if engine is Engine.MARIADB else ()))) as made:
        for name, times in TRANSACTIONS.items():
            measured[name] |= from_server(made[0], fill(made, name, max(1, int(times * size))))
    return {**measured, "cpus": cpus()}


# ---- in memory -------------------------------------------------------------------------------------------


def in_memory(name: str, size: float) -> dict[str, float]:
    """Return our speed over packets in memory, and mysql-replication's."""
    an_event, a_transaction, *rows = IN_MEMORY[name]
    ours, theirs = (max(an_event, int(each * size)) // an_event * an_event for each in rows)
    our_events, their_events = (events_of(each, an_event, a_transaction or each) for each in (ours, theirs))
    packets = packets_of(our_events)
    run_ours(packets_of(their_events))  # warm up both
    run_theirs(their_events)
    rounds = [
        (rows_per_s(run_ours, packets, ours), rows_per_s(run_theirs, their_events, theirs))
        for _ in range(_ROUNDS)
    ]
    return {
        "rows_per_s": round(statistics.median(mine for mine, _ in rounds)),
        "ratio_to_mysql_replication": round(statistics.median(mine / other for mine, other in rounds), 1),
        "mysql_replication_rows_per_s": round(statistics.median(other for _, other in rounds)),
    }


def packets_of(events: Sequence[bytes]) -> bytes:
    """Return events as a server sends them, each in a packet."""
    assert max(map(len, events)) < _PACKET_MAX
    return b"".join(
        (len(event) + 1).to_bytes(3, "little") + bytes((number % 256, 0)) + event
        for number, event in enumerate(events, start=1)
    )


def run_ours(packets: bytes, checksum: int = 1, process: Callable[[Chunk], Chunk] | None = None) -> int:
    """Return how many rows the decoder's chunks have; `checksum` is 0 where events have none.

    With `process` it is applied to each chunk, as a shard does it.
    """
    builder, arriving, buffer = ChunkBuilder(LIMITS), io.BytesIO(packets), PacketBuffer()
    decoder = BinlogDecoder("s1", Position("mysql-bin.000001", 4), TableName, builder, checksum=checksum)
    rows = 0
    while size := arriving.readinto(buffer):
        buffer.received(size)
        while True:
            decoder.run(buffer)
            packet = buffer.take()
            if packet is None:
                break
            decoder.feed(packet[1:])
            if builder.full:
                rows += rows_of(builder.close(decoder.offset), process)
        buffer.make_room()
    return rows + rows_of(builder.close(decoder.offset), process)


def rows_of(chunk: Chunk | None, process: Callable[[Chunk], Chunk] | None = None) -> int:
    """Return how many rows a chunk has, after processing."""
    if chunk is not None and process is not None:
        chunk = process(chunk)
    return sum(table.rows.num_rows for table in chunk.tables) if chunk else 0


class _Control:
    """Replaces mysql-replication's second connection, which is asked for two facts only."""

    charset = "utf8mb4"

    @staticmethod
    def _get_dbms() -> str:
        return "mysql"


def run_theirs(events: Sequence[bytes]) -> int:
    """Return how many rows mysql-replication reads."""
    tables: dict[int, object] = {}
    allowed = {GtidEvent, TableMapEvent, WriteRowsEvent, QueryEvent, XidEvent}
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


def rows_per_s(run: Callable[[_T], int], events: _T, rows: int) -> float:
    """Return a decoder's speed over events that hold `rows` rows."""
    begin = time.thread_time()
    count = run(events)
    elapsed_s = time.thread_time() - begin
    assert count == rows, f"{count} rows of {rows}"
    return rows / elapsed_s


# ---- from a server ---------------------------------------------------------------------------------------


def from_server(server: DatabaseServer, backlog: Backlog) -> dict[str, Any]:
    """Return our speed over a server's binlog, and that of its client's raw dump."""
    rounds = []
    for _ in range(_ROUNDS):
        raw, raw_by = raw_dumps([server])
        rounds.append((backlog.bytes / streamed_s(server, backlog.rows), raw))
    return {
        "ratio_to_raw_dump": round(statistics.median(ours / raw for ours, raw in rounds), 2),
        "stream_mib_per_s": round(statistics.median(ours for ours, _ in rounds) / (1 << 20), 1),
        "raw_dump_mib_per_s": round(statistics.median(raw for _, raw in rounds) / (1 << 20), 1),
        "raw_dump_by": raw_by,
    }


def streamed_s(server: DatabaseServer, rows: int) -> float:
    """Read a server's binlog from its start until `rows` rows are in chunks; return the seconds."""
    address = address_at(server, "s1", _SERVER_ID)
    start = Position(binlogs(server)[0][0], 4)
    began_s = time.monotonic()
    stream = stream_of(address, FromOffset(start), Decoding(TableName, LIMITS), lambda: SourceClock(0, 0))
    try:
        items = iter(stream)
        while rows > 0:
            item = next(items)
            if not isinstance(item, CaughtUp):
                rows -= rows_of(item)
        took_s = time.monotonic() - began_s
    finally:
        stream.close()
    assert rows == 0, f"{-rows} rows too many"
    return took_s
