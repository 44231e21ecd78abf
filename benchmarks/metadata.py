"""Metadata: what it costs to read a server with its vendor's default row metadata.

Two servers get the same transactions as in the benchmark `parse`, one with `binlog_row_metadata=FULL` and one
with the default. Both are read from the start of the binlog, by the stream that a shard has, with the
definitions of their tables. Speed is rows per second of the thread's own processor time.

`ratio_to_full` is with a schema history that covers the start, as after a restart. `first_ratio_to_full` is
without: then the whole binlog is looked through for statements first. Each is the median of rounds in which
both servers are read one after the other.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import replace
from typing import Any

from benchmarks._load import binlogs, cpus, fill, servers
from benchmarks._readers import LIMITS, address_at, definitions_of
from benchmarks.parse import TRANSACTIONS, rows_of
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.server.binlog_stream import stream_of
from canal_group.binlog.server.clock import SourceClock
from canal_group.binlog.server.definitions.source_definitions import SourceDefinitions
from canal_group.binlog.server.low_watermarks import CaughtUp
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import Position
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

_ROUNDS = 7
_SERVER_ID = 4_000_002


def measure(size: float, engine: Engine = Engine.MARIADB) -> dict[str, Any]:
    """Return the speed with default metadata as a ratio to that with FULL."""
    measured: dict[str, Any] = {}
    with servers(engine, 2) as made:
        made[0].execute("SET GLOBAL binlog_row_metadata = 'FULL'")
        made[1].execute("SET GLOBAL binlog_row_metadata = DEFAULT")
        for name, times in TRANSACTIONS.items():
            # Connections that were opened before keep the metadata; `fill` opens its own.
            rows = fill(made, name, max(1, int(times * size))).rows // len(made)
            first, again = _ratios(made, rows, known=False), _ratios(made, rows, known=True)
            measured[name] = {"first_ratio_to_full": first, "ratio_to_full": again}
    return {**measured, "cpus": cpus()}


def _ratios(made: list[DatabaseServer], rows: int, *, known: bool) -> float:
    """Return the speed of the second server's rows, as a part of that of the first one's."""
    definitions = [definitions_of("s1") for _ in made] if known else [None, None]
    rounds = []
    for _ in range(_ROUNDS + known):
        full, default = (_rows_per_s(*each, rows) for each in zip(made, definitions, strict=True))
        rounds.append(default / full)
    return round(statistics.median(rounds[known:]), 3)


def _rows_per_s(server: DatabaseServer, definitions: SourceDefinitions | None, rows: int) -> float:
    address = address_at(server, "s1", _SERVER_ID)
    begin_s, remaining = time.thread_time(), rows
    with contextlib.closing(connect(address)) as connection:
        facts = server_facts(address, connection)
    start = Position(binlogs(server)[0][0], 4)
    start = replace(start, server=facts.identity)
    lookup = (definitions or definitions_of("s1")).lookup(address, facts, start)
    decoding = Decoding(TableName, LIMITS, lookup=lookup)
    stream = stream_of(address, FromOffset(start), decoding, lambda: SourceClock(0, 0))
    lookup.follow(stream)
    with contextlib.closing(stream):
        for item in stream:
            if not isinstance(item, CaughtUp):
                remaining -= rows_of(item)
            if remaining <= 0:
                break
    assert remaining == 0, f"{-remaining} rows too many"
    return rows / (time.thread_time() - begin_s)
