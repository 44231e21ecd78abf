"""The writer of one shard: the demo's writer, which continues after its server was killed or replaced."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pymysql

from canal_group.programs.demo.tables import schema_name
from canal_group.programs.demo.written import Change
from chaos.commits import Commit, Commits
from chaos.journal import now_us
from chaos.moves import Move, Moves
from chaos.sources import Source
from playground.load import writer as demo
from playground.load.workload import NOW_US, Statement, Transaction, Workload

#: rows of the large transaction on the first shard
BIG_ROWS = 1_500
#: the table that nobody keeps, and how many transactions of it end a shard's binlog
UNKEPT_TABLE, UNKEPT_LAST = "unkept.events", 16
_UNKEPT = Transaction(
    (Statement(f"INSERT INTO {UNKEPT_TABLE} VALUES (%s)", (NOW_US,), Change(UNKEPT_TABLE, "INSERT", 1)),)
)
#: pause before an unavailable server is asked again, seconds
_AGAIN_S = 0.2


class Writer(demo.Writer):
    """Runs a workload at an even rate, through any restart of its server and any failover.

    It knows every commit: if a connection breaks in the middle of a transaction, the number of the server's
    last GTID tells whether it was committed, because there is no other writer.

    Args:
        source: a prepared shard.
        workload: the transactions.
        record: records the commits.
        moves: the orders that move between the shards.
        rate: transactions a second.
        seconds: how long it may write.
    """

    record: Commits

    def __init__(
        self,
        source: Source,
        workload: Workload,
        record: Commits,
        moves: Moves,
        *,
        rate: float,
        seconds: float,
    ) -> None:
        super().__init__(source.server, source.index, workload, record, gentle_rate=rate, seconds=seconds)
        self._source, self._moves = source, moves
        self._abandoned = threading.Event()
        #: the transaction that began and is not known to be committed; since when
        self._in_hand: Transaction | None = None
        self._begun_us = 0
        #: while it is set, only the table is written that nobody keeps
        self.busy = threading.Event()
        #: a holder of this lock keeps the writer from its source
        self.gate = threading.Lock()
        #: when it committed its last transaction, microseconds since 1970; 0: it has not finished
        self.ended_us = 0

    def run(self) -> None:
        """Write until the end of the workload or of the time."""
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
        self.ended_us = now_us()

    def abandon(self) -> None:
        """End, even while the server is unavailable."""
        self.stop()
        self._abandoned.set()

    def _paced(self, deadline_s: float) -> Iterator[Transaction]:
        """Yield the workload's transactions, each at its time, moves, and those of which nothing is kept.

        The latter come last, so the streams are drained only when positions have passed them without a row.
        """
        for transaction in super()._paced(deadline_s):
            while self.busy.is_set() and not self._stop_asked.wait(1 / self._gentle_rate):
                yield _UNKEPT
            yield transaction
            if move := self._moves.next(self._shard):
                yield move
        for _ in range(UNKEPT_LAST):
            self._stop_asked.wait(1 / self._gentle_rate)
            yield _UNKEPT

    def _write(self, pending: Iterator[Transaction]) -> None:
        """Commit the current transaction and those that follow, over one connection."""
        with self.gate:
            server = self._source.server
            prefix, _ = server.last_gtid()
            doubted = self._was_committed()
            # A transaction that was not committed is sent again.
            self._begun_us = self._begun_us if doubted else 0
            connection = server.connect(schema_name(self._shard))
        with contextlib.closing(connection):
            if doubted:
                self._committed(prefix)
                self._in_hand = next(pending, None)
            while self._in_hand is not None:
                with self.gate:
                    if self._source.server is not server:
                        return
                    self._begun_us = self._begun_us or now_us()
                    demo._run(connection, self._in_hand)
                    self._committed(self._prefix(prefix))
                self._in_hand = next(pending, None)

    def _committed(self, prefix: str) -> None:
        assert self._in_hand is not None
        number = self.record.first + len(self.record.transactions)
        server = self._source.server.server_id
        kept = self._in_hand is not _UNKEPT
        commit = Commit(f"{prefix}{number}", server, self._begun_us, now_us(), kept)
        self.record.commit(self._in_hand.changes if kept else (), commit)
        if isinstance(self._in_hand, Move):
            self._moves.committed(self._shard, self._in_hand)
        self._begun_us = 0

    def _prefix(self, last: str) -> str:
        """Return the prefix of the server's next GTID; its last GTID may be of the previous server."""
        if ":" in last:
            return last
        domain, *_ = last.split("-")
        return f"{domain}-{self._source.server.server_id}-"

    def _was_committed(self) -> bool:
        """Return whether the current transaction is already the server's last one.

        Raises:
            RuntimeError: the server has other transactions than ours.
        """
        _, last = self._source.server.last_gtid()
        known = self.record.first + len(self.record.transactions) - 1
        if last not in {known, known + 1}:
            raise RuntimeError(f"{self.name}: transaction {last} is the last one, and {known} is known.")
        return bool(last == known + 1)


def workload_of(shard: int, shards: int, seed: int, *, rate: float, seconds: float) -> Workload:
    """Return the workload of a shard's writer for a number of seconds, at a constant rate."""
    transactions = int(rate * seconds)
    return Workload(
        shard=shard,
        shards=shards,
        seed=seed,
        transactions=transactions,
        gentle=transactions,
        big_rows=BIG_ROWS if shard == 0 else 0,
    )
