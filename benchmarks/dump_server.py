"""Dump server: what many readers cost one source, each with a dump of its own, and all from one dump server.

A MariaDB server is written to while readers follow it: each is what a shard of one destination has. For each
way the server's processor time and the bytes that it sent are measured, less those of writing with no reader.
`ratio` is the dump server's part of what dumps of their own cost.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks._load import BULK_ROWS, cpu_s, cpus, fill, servers
from benchmarks._readers import address_at, reader_at
from canal_group.binlog.server.reader import SourceReader
from canal_group.merge.errors import RetryableError
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.position import Position
from playground.database.server_process import DatabaseServer

#: destinations on the source, and how many transactions they read together at size 1
READERS = (16, 256)
_READ = 64_000
#: a server's default is 151: each reader has a connection for queries, too
_CONNECTIONS_MAX = 1_000
_WINDOW_BYTES = 64 << 20
_SERVER_ID = 4_100_000
_WAIT_S = 120.0
_LOOK_EVERY_S = 0.1


def measure(size: float) -> dict[str, Any]:
    """Return a source's costs of its readers, with a dump server and without."""
    with servers(count=1, options=[f"--max-connections={_CONNECTIONS_MAX}"]) as (server,):
        costs = {f"{readers}_readers": _compared(server, readers, size) for readers in READERS}
    return {**costs, "cpus": cpus()}


def _compared(server: DatabaseServer, readers: int, size: float) -> dict[str, Any]:
    transactions = max(10, int(_READ * size) // readers)
    idle = _spent(server, transactions, 0, dump_server=False)
    own = _spent(server, transactions, readers, dump_server=False).less(idle)
    shared = _spent(server, transactions, readers, dump_server=True).less(idle)
    return {
        "rows": transactions * BULK_ROWS,
        "own": own.describe(),
        "dump_server": shared.describe(),
        "ratio": {"cpu": round(shared.cpu_s / own.cpu_s, 3), "bytes": round(shared.bytes / own.bytes, 3)},
    }


@dataclass(frozen=True, slots=True)
class _Spent:
    """What the source spent."""

    cpu_s: float
    bytes: int
    dumps: int

    def less(self, other: _Spent) -> _Spent:
        return _Spent(self.cpu_s - other.cpu_s, self.bytes - other.bytes, self.dumps)

    def describe(self) -> dict[str, Any]:
        return {"cpu_s": round(self.cpu_s, 2), "mib": round(self.bytes / 2**20, 1), "dumps": self.dumps}


class _Counter:
    """A listener that counts rows."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rows = 0
        self._connected = False

    def opened(self, position: Position) -> None:
        """Do nothing."""

    def chunk_read(self, chunk: Chunk) -> None:
        """Count the chunk's rows."""
        with self._changed:
            self._rows += int(np.sum(chunk.headers["rows"]))
            self._changed.notify_all()

    def reached(self, position: Position) -> None:
        """Is told where the stream is, which does not matter here."""

    def caught_up(self, frontier_us: int) -> None:
        """Do nothing."""

    def connected(self, skew_us: int, server_version: str) -> None:  # noqa: ARG002 - a listener's method
        """Note it."""
        with self._changed:
            self._connected = True
            self._changed.notify_all()

    def disconnected(self, error: RetryableError, retry_after_s: float) -> None:  # noqa: ARG002 - the same
        """Fail: the figures would be of something else."""
        raise AssertionError(f"the source was lost: {error}")

    def await_connected(self) -> None:
        """Wait until the reader has a stream."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._connected, _WAIT_S), "no stream"

    def await_rows(self, rows: int) -> None:
        """Wait until a number of rows have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._rows >= rows, _WAIT_S), "rows are missing"


def _spent(server: DatabaseServer, transactions: int, readers: int, *, dump_server: bool) -> _Spent:
    """Return the source's costs while it is written to and a number of readers follow."""
    fill([server], "bulk", 1)
    with contextlib.ExitStack() as stack:
        following = [
            stack.enter_context(_reading(server, number, dump_server=dump_server))
            for number in range(readers)
        ]
        counters = [counter for counter, _ in following]
        for counter in counters:
            counter.await_connected()
        # They move over to the dump server one after another.
        while dump_server and not all(reader.shares_dump for _, reader in following):
            time.sleep(_LOOK_EVERY_S)
        dumps = min(readers, 1) if dump_server else readers
        while (before := _now(server)).dumps != dumps:
            time.sleep(_LOOK_EVERY_S)
        fill([server], "bulk", transactions, anew=False)
        for counter in counters:
            counter.await_rows(transactions * BULK_ROWS)
        after = _now(server)
    return _Spent(after.cpu_s - before.cpu_s, after.bytes - before.bytes, after.dumps)


def _now(server: DatabaseServer) -> _Spent:
    ((_, sent),) = server.execute("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")
    dumps = server.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
    assert server.pid is not None
    return _Spent(cpu_s(server.pid), int(sent), len(dumps))


@contextlib.contextmanager
def _reading(
    server: DatabaseServer, number: int, *, dump_server: bool
) -> Iterator[tuple[_Counter, SourceReader]]:
    """Run a reader from the end of the binlog, until it is left."""
    address = address_at(server, f"s{number}", _SERVER_ID + number)
    if dump_server:
        address = replace(address, dump_window_bytes_max=_WINDOW_BYTES)
    counter = _Counter()
    reader = reader_at(address, counter)
    thread = threading.Thread(target=reader.run, args=(None,))
    thread.start()
    try:
        yield counter, reader
    finally:
        reader.stop()
        thread.join()
