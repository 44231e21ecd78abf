"""Writers: a process that commits one-row transactions at an even pace, and bulk beside them if wanted.

Each shard has a writer of its own, with its own ids, which tell the rows of all writers apart.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any, Self

import numpy as np
import pymysql
from numpy.typing import NDArray
from pymysql.constants import CLIENT

from benchmarks._load import BULK_ROWS, SCHEMA, SHARDS, TABLE
from playground.database.server_process import DatabaseServer, ServerAddress

#: statements that a writer sends a second at most; each has as many transactions as the rate needs
_SENT_MAX = 250
#: distance between the first ids of two writers
_STRIDE = 10**9
#: bulk transactions of one call
_BULK_CALL = 10
_INSERT = (
    f"INSERT INTO {TABLE} VALUES ({{}}, 'c', 1, 1.5, '2024-02-28 12:34:56', 'new', 1.5, 3, 1, "
    "'2024-02-28 12:34:56', 'n')"
)


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: (n,) seconds of `time.monotonic` of the one-row transactions, by shard, in order.

    Transactions that were not written, because the writers were told to end, have 0.
    """

    sent_s: NDArray[np.float64]
    answered_s: NDArray[np.float64]
    bulk_rows: int


class Writers:
    """A process that writes; a context manager, which ends it.

    Args:
        made: the servers.
        count: one-row transactions on each shard.
        rate: of them a second on each shard.
        run: which writers on these servers they are, from 0: each has ids of its own.
        bulk: let the last shard have bulk transactions instead, one after the other, for as long as the
            other shards are written to.
    """

    def __init__(
        self, made: Sequence[DatabaseServer], count: int, rate: float, run: int, *, bulk: bool = False
    ) -> None:
        self.count = count
        #: shards of one-row transactions
        self.shards = len(made) - bulk
        self._first_id = (run * SHARDS + 1) * _STRIDE
        context = multiprocessing.get_context("spawn")
        self._results, theirs = context.Pipe(duplex=False)
        self._over = context.Event()
        addresses = [server.address("root") for server in made]
        steady, bulky = addresses[: self.shards], addresses[self.shards :]
        arguments = (steady, bulky, count, rate, self._first_id, self._over, theirs)
        self._process = context.Process(target=_write, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._written: Written | None = None

    def index_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which transaction of `Written` each id is of; -1: of none."""
        shard, number = (ids - self._first_id) // _STRIDE, ids % _STRIDE
        ours = (shard >= 0) & (shard < self.shards) & (number < self.count)
        return np.where(ours, shard * self.count + number, -1)

    def failed(self) -> str:
        """Return why writing has failed; empty: it has not."""
        return "" if self._process.is_alive() or not self._process.exitcode else "a writer has failed"

    def end(self) -> None:
        """Write nothing more."""
        self._over.set()

    def written(self) -> Written:
        """Wait for the end, and return the times and the rows of bulk."""
        if self._written is None:
            self._written = self._results.recv()
        return self._written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


class _Writer(threading.Thread):
    """Commits rows with its own ids at an even pace, and records the times.

    Args:
        server: that it writes to.
        shard: its index.
        count: transactions.
        rate: transactions a second.
        first_id: of the first shard's writer.
        over: set to end it before.
    """

    def __init__(
        self, server: ServerAddress, shard: int, count: int, rate: float, first_id: int, over: Event
    ) -> None:
        super().__init__(name=f"writer-{shard}", daemon=True)
        self._over = over
        self._first_id, self._count = first_id + shard * _STRIDE, count
        self.sent_s, self.answered_s = np.zeros(count), np.zeros(count)
        self.error: pymysql.Error | None = None
        self._server, self._shard, self._rate = server, shard, rate

    def run(self) -> None:
        """Write everything."""
        pause, together = threading.Event(), math.ceil(self._rate / _SENT_MAX)
        try:
            with (
                contextlib.closing(_connect(self._server)) as connection,
                connection.cursor() as cursor,
            ):
                # Shards do not commit at the same moments.
                begin_s = time.monotonic() + self._shard / SHARDS * together / self._rate
                for index in range(0, self._count, together):
                    if self._over.is_set():
                        break
                    pause.wait(max(0.0, begin_s + index / self._rate - time.monotonic()))
                    self._commit(cursor, range(index, min(index + together, self._count)))
        except pymysql.Error as error:
            self.error = error

    def _commit(self, cursor: Any, indexes: range) -> None:
        self.sent_s[indexes] = time.monotonic()
        cursor.execute(";".join(_INSERT.format(self._first_id + index) for index in indexes))
        for index in indexes:
            self.answered_s[index] = time.monotonic()
            cursor.nextset()


class _BulkWriter(threading.Thread):
    """Commits bulk transactions, one after the other, until it is told to end."""

    def __init__(self, server: ServerAddress) -> None:
        super().__init__(name="bulk", daemon=True)
        self.rows = 0
        self.error: pymysql.Error | None = None
        self.over = threading.Event()
        self._server = server

    def run(self) -> None:
        """Write until it is over."""
        try:
            with (
                contextlib.closing(_connect(self._server)) as connection,
                connection.cursor() as cursor,
            ):
                while not self.over.is_set():
                    cursor.execute("CALL bulk(%s)", (_BULK_CALL,))
                    self.rows += _BULK_CALL * BULK_ROWS
        except pymysql.Error as error:
            self.error = error


def _write(
    steady: list[ServerAddress],
    bulky: list[ServerAddress],
    count: int,
    rate: float,
    first_id: int,
    over: Event,
    results: Connection,
) -> None:
    """Write everything and send what was written; the process fails if a writer does."""
    writers = [_Writer(server, shard, count, rate, first_id, over) for shard, server in enumerate(steady)]
    bulk = [_BulkWriter(server) for server in bulky]
    threads: list[_Writer | _BulkWriter] = [*writers, *bulk]
    for thread in threads:
        thread.start()
    for writer in writers:
        writer.join()
    for each in bulk:
        each.over.set()
        each.join()
    for thread in threads:
        if thread.error is not None:
            raise thread.error
    sent_s = np.concatenate([writer.sent_s for writer in writers])
    answered_s = np.concatenate([writer.answered_s for writer in writers])
    results.send(Written(sent_s, answered_s, sum(each.rows for each in bulk)))


def _connect(server: ServerAddress) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password,
        database=SCHEMA,
        charset="utf8mb4",
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
    )
