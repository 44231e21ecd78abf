"""The writer of one shard: the demo's, which goes on when its server was killed under it, or replaced."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pymysql

from canal_group.demo.load import writer as demo
from canal_group.demo.load.tables import schema_name
from canal_group.demo.load.workload import Transaction, Workload
from chaos.commits import Commit, Commits
from chaos.journal import now_us
from chaos.sources import Source

#: rows of the large transaction, which the first shard has
BIG_ROWS = 1_500
#: pause before a server that is away is asked again, seconds
_AGAIN_S = 0.2


class Writer(demo.Writer):
    """Runs a workload at an even rate, through any restart of its server and any failover.

    Nothing is committed that it does not know of: where a connection breaks in the middle of a transaction,
    the number of the server's last GTID tells whether it was committed, because nobody else writes.

    Args:
        source: a prepared shard.
        workload: what to do.
        record: where it is remembered.
        rate: transactions a second.
        seconds: how long it may write.
    """

    record: Commits

    def __init__(
        self, source: Source, workload: Workload, record: Commits, *, rate: float, seconds: float
    ) -> None:
        super().__init__(source.server, source.index, workload, record, gentle_rate=rate, seconds=seconds)
        self._source = source
        self._abandoned = threading.Event()
        #: begun, and not known to be committed; since when
        self._in_hand: Transaction | None = None
        self._begun_us = 0
        #: who holds it keeps the writer from its source
        self.gate = threading.Lock()
        #: when it had committed its last transaction, microseconds since 1970; 0: it has not
        self.ended_us = 0

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
        self.ended_us = now_us()

    def abandon(self) -> None:
        """End, also while the server is away."""
        self.stop()
        self._abandoned.set()

    def _write(self, pending: Iterator[Transaction]) -> None:
        """Commit what is in hand and what follows, over one connection."""
        with self.gate:
            server = self._source.server
            prefix, _ = server.last_gtid()
            doubted = self._was_committed()
            # What was not committed is sent anew.
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
        commit = Commit(f"{prefix}{number}", server, self._begun_us, now_us())
        self.record.commit(self._in_hand.changes, commit)
        self._begun_us = 0

    def _prefix(self, last: str) -> str:
        """Return what the server's next GTID begins with; its last one may be of the server before."""
        if ":" in last:
            return last
        domain, *_ = last.split("-")
        return f"{domain}-{self._source.server.server_id}-"

    def _was_committed(self) -> bool:
        """Return whether the transaction in hand is the server's last one already.

        Raises:
            RuntimeError: the server has other transactions than ours.
        """
        _, last = self._source.server.last_gtid()
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
