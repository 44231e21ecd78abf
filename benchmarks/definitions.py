"""Definitions: what following the tables of a source costs, by how many tables it has.

For each number of tables one process reads a server with its vendor's default row metadata, as a shard does:

- `first_row_s`: from the start of a reader that knows nothing to the first row that arrives;
  `first_start_ms_per_table`: until all tables are read;
- `ddl_ms`, `ddl_chars`: what a shard takes to apply one ALTER TABLE and to make the text of it that is
  stored, and how long that is; `stored_chars`: what is stored altogether;
- `restart_s`: from a reader that has what was stored to the first row;
- `rss_mib`: memory of a process that has restarted, and `rss_idle_mib` of one that knows no table.

`ddl_ratio` is the price of an ALTER with the most tables, as a multiple of that with the fewest.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks._load import await_until, cpus, servers
from benchmarks._many_tables import make_tables
from benchmarks._readers import address_at, definitions_of, reader_at
from canal_group.binlog.formats.events import Query
from canal_group.binlog.server.definitions.source_definitions import SourceDefinitions
from canal_group.binlog.server.source import SourceAddress, connect, server_facts
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.merge.errors import RetryableError
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.position import Position
from playground.database.engine import Engine
from playground.database.server_process import DatabaseServer

#: tables of a server, at size 1; the last one is multiplied by the size, and is at least twice the first
TABLES = (1_000, 10_000)
_SERVER_ID = 4_000_003
_WAIT_S = 600.0
_ALTERS = 20


def measure(size: float, engine: Engine = Engine.MARIADB) -> dict[str, Any]:
    """Return the prices, by number of tables."""
    counts = (TABLES[0], max(2 * TABLES[0], int(TABLES[1] * size)))
    costs: dict[str, Any] = {}
    with servers(engine, 1) as (server,):
        server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
        made = 0
        for count in counts:
            make_tables(server, made, count)
            made = count
            costs[f"{count:,} tables"] = _apart(server, count)
    fewest, most = costs.values()
    return {**costs, "ddl_ratio": round(most["ddl_ms"] / fewest["ddl_ms"], 2), "cpus": cpus()}


def _apart(server: DatabaseServer, count: int) -> dict[str, Any]:
    """Measure in processes of their own, which know nothing of others' tables."""
    # It writes rows, too.
    where = server.address("root")
    address = replace(address_at(server, "s1", _SERVER_ID), user="root", password=where.password)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        first, stored = pool.apply(_first, (address, count))
    with context.Pool(1) as pool:
        again = pool.apply(_again, (address, stored))
    return {**first, **again}


def _first(address: SourceAddress, count: int) -> tuple[dict[str, Any], str]:
    begin_s = time.monotonic()
    with _reading(address, "") as (definitions, listener):
        listener.await_row(address)
        first_s = time.monotonic() - begin_s
        await_until(
            lambda: not (definitions.describe() or {"unread": 1})["unread"], "tables are unread", _WAIT_S
        )
        all_s = time.monotonic() - begin_s
    stored = definitions.news()
    assert stored is not None, "a history has begun"
    assert stored.whole, "nothing was stored before"
    ddl = [_altered(address, definitions, number) for number in range(_ALTERS)]
    return {
        "first_row_s": round(first_s, 3),
        "first_start_ms_per_table": round(all_s / count * 1e3, 3),
        "ddl_ms": round(statistics.median(took_s for took_s, _ in ddl) * 1e3, 2),
        "ddl_chars": ddl[-1][1],
        "stored_chars": len(stored.text),
    }, stored.text


def _altered(address: SourceAddress, definitions: SourceDefinitions, number: int) -> tuple[float, int]:
    """Return processor time of applying an ALTER and of what is stored of it, and its length."""
    with contextlib.closing(connect(address)) as connection:
        facts = server_facts(address, connection)
        position = latest_position(address, connection, facts)
    lookup = definitions.lookup(address, facts, position)
    lookup.follow(_At(position))
    definitions.news()
    sql = f"ALTER TABLE many.t{number} ADD COLUMN j{number} INT"
    begin_s = time.thread_time()
    lookup.redefine(Query("many", sql), position.file, position.offset + number + 1)
    news = definitions.news()
    took_s = time.thread_time() - begin_s
    assert news is not None, "there is something to store"
    return took_s, len(news.text)


class _At:
    """A stream that is at a position."""

    def __init__(self, position: Position) -> None:
        self.reading_at = position.file, position.offset, position.offset
        self.created = {position.file: position.created_s}

    def ahead(self) -> None:
        """Return None: it sends nothing."""


def _again(address: SourceAddress, stored: str) -> dict[str, Any]:
    idle_mib = _rss_mib()
    begin_s = time.monotonic()
    with _reading(address, stored) as (_, listener):
        listener.await_row(address)
        took_s = time.monotonic() - begin_s
        rss_mib = _rss_mib()
    return {"restart_s": round(took_s, 3), "rss_mib": rss_mib, "rss_idle_mib": idle_mib}


class _Listener:
    """Waits for a row."""

    def __init__(self) -> None:
        self._connected, self._row = threading.Event(), threading.Event()

    def opened(self, position: Position) -> None:
        """Do nothing."""

    def reached(self, position: Position) -> None:
        """Is told where the stream is, which does not matter here."""

    def caught_up(self, frontier_us: int) -> None:
        """Do nothing."""

    def chunk_read(self, chunk: Chunk) -> None:
        """Note a row."""
        if chunk.tables:
            self._row.set()

    def connected(self, skew_us: int, server_version: str) -> None:  # noqa: ARG002 - the port's signature
        """Set the event: the source streams."""
        self._connected.set()

    def disconnected(self, error: RetryableError, retry_after_s: float) -> None:  # noqa: ARG002 - as above
        """Raise the error: nothing is to fail here."""
        raise error

    def await_row(self, address: SourceAddress) -> None:
        """Write a row once the source streams, and wait for it."""
        assert self._connected.wait(_WAIT_S), "the source streams"
        with contextlib.closing(connect(address)) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO many.t0 (id) SELECT COUNT(*) FROM many.t0")
        assert self._row.wait(_WAIT_S), "the row comes"


@contextlib.contextmanager
def _reading(address: SourceAddress, stored: str) -> Iterator[tuple[SourceDefinitions, _Listener]]:
    definitions, listener = definitions_of(address.name), _Listener()
    definitions.restore(stored)
    reader = reader_at(address, listener, definitions)
    thread = threading.Thread(target=reader.run, args=(None,))
    thread.start()
    try:
        yield definitions, listener
    finally:
        reader.stop()
        thread.join()


def _rss_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20
