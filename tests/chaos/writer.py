"""The writer of one shard: the demo's, which goes on when its server was killed under it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pymysql

from canal_group.demo import writer as demo
from canal_group.demo.server_process import DatabaseServer
from canal_group.demo.tables import schema_name
from canal_group.demo.workload import Transaction, Workload

#: rows of the large transaction, which the first shard has
BIG_ROWS = 1_500
#: pause before a server that is away is asked again, seconds
_AGAIN_S = 0.2


class Writer(demo.Writer):
    """Runs a workload at an even rate, through any restart of its server.

    Nothing is committed that it does not know of: where a connection breaks in the middle of a transaction,
    the number of the server's last GTID tells whether it was committed, because nobody else writes.

    Args:
        server: a prepared shard.
        shard: shard_index.
        workload: what to do.
        record: where it is remembered.
        rate: transactions a second.
        seconds: how long it may write.
    """

    def __init__(
        self,
        server: DatabaseServer,
        shard: int,
        workload: Workload,
        record: demo.Record,
        *,
        rate: float,
        seconds: float,
    ) -> None:
        super().__init__(server, shard, workload, record, gentle_rate=rate, seconds=seconds)
        self._abandoned = threading.Event()
        #: begun, and not known to be committed
        self._in_hand: Transaction | None = None

    def run(self) -> None:
        """Write until the workload, or the time, is over."""
        pending = self._paced(time.monotonic() + self._seconds)
        self._in_hand = next(pending, None)
        while self._in_hand is not None and not self._abandoned.is_set():
            try:
                self._write(pending)
            except pymysql.Error:
                self._abandoned.wait(_AGAIN_S)
            except RuntimeError as error:
                self.error = error
                return

    def abandon(self) -> None:
        """End, also while the server is away."""
        self.stop()
        self._abandoned.set()

    def _write(self, pending: Iterator[Transaction]) -> None:
        """Commit what is in hand and what follows, over one connection."""
        with contextlib.closing(self._server.connect(schema_name(self._shard))) as connection:
            if self._was_committed():
                self._committed(pending)
            while self._in_hand is not None:
                demo._run(connection, self._in_hand)
                self._committed(pending)

    def _committed(self, pending: Iterator[Transaction]) -> None:
        assert self._in_hand is not None
        self.record.add(self._in_hand.changes)
        self._in_hand = next(pending, None)

    def _was_committed(self) -> bool:
        """Return whether the transaction in hand is the server's last one already.

        Raises:
            RuntimeError: the server has other transactions than ours.
        """
        _, last = self._server.last_gtid()
        known = self.record.first + len(self.record.transactions) - 1
        if last not in {known, known + 1}:
            raise RuntimeError(f"{self.name}: transaction {last} is the last one, and {known} is known.")
        return bool(last == known + 1)


def workload_of(shard: int, shards: int, seed: int, *, rate: float, seconds: float) -> Workload:
    """Return what a shard's writer does in so many seconds; all of it at one pace."""
    transactions = int(rate * seconds)
    return Workload(
        shard=shard,
        shards=shards,
        seed=seed,
        transactions=transactions,
        gentle=transactions,
        big_rows=BIG_ROWS if shard == 0 else 0,
    )
