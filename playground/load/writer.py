"""Writers: run a workload against a shard, and remember what was done.

What a writer remembers is what the consumer must see. Nothing is written to the sources for it: a source
numbers its transactions, the writer is its only client, so the n-th transaction it commits has the n-th GTID.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pymysql

from canal_group.programs.demo.tables import TABLES, schema_name
from canal_group.programs.demo.written import Record
from playground.database.server_process import CANAL_USER, DatabaseServer
from playground.load.workload import NOW_US, Statement, Transaction, Workload


def prepare(
    server: DatabaseServer, shard: int, name: str, fill: Iterable[Transaction] | None = None
) -> Record:
    """Make a shard's schema and its tables, and return the record that begins after that.

    Args:
        server: the shard.
        shard: shard_index.
        name: of the shard.
        fill: makes the rows that its tables have already, and that the instance's account may select; None:
            they are empty.
    """
    schema = schema_name(shard)
    server.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    server.execute(*(table.create(shard) for table in TABLES), database=schema)
    if fill is not None:
        server.execute(f"GRANT SELECT ON {schema}.* TO {CANAL_USER}@127.0.0.1")
        fill_tables(server, schema, fill)
    source, number = server.last_gtid()
    return Record(name, source, number + 1)


def fill_tables(server: DatabaseServer, schema: str, fill: Iterable[Transaction]) -> None:
    """Run transactions that nobody remembers."""
    with contextlib.closing(server.connect(schema)) as connection:
        for transaction in fill:
            _run(connection, transaction)


class Writer(threading.Thread):
    """Runs one shard's workload on a thread of its own, with its own connection.

    Out of time, it leaves the small transactions away and still adds the column and runs the large one.

    Args:
        server: a prepared shard.
        shard: shard_index.
        workload: what to do.
        record: where it is remembered.
        gentle_rate: transactions a second in the slow beginning.
        seconds: how long it may write.
    """

    def __init__(
        self,
        server: DatabaseServer,
        shard: int,
        workload: Workload,
        record: Record,
        *,
        gentle_rate: float,
        seconds: float,
    ) -> None:
        super().__init__(name=f"writer-{shard}", daemon=True)
        self.record = record
        #: when the slow beginning ended, microseconds since 1970 UTC; 0: it did not yet
        self.gentle_until_us = 0
        #: why it ended early; None: it did not
        self.error: Exception | None = None
        self._server, self._shard, self._workload = server, shard, workload
        self._gentle_rate, self._seconds = gentle_rate, seconds
        self._stop_asked = threading.Event()

    @property
    def done(self) -> bool:
        """Whether it was started and has ended."""
        return self.ident is not None and not self.is_alive()

    def stop(self) -> None:
        """End after the transaction in hand."""
        self._stop_asked.set()

    def run(self) -> None:
        """Write until the workload, or the time, is over."""
        try:
            with contextlib.closing(self._server.connect(schema_name(self._shard))) as connection:
                for transaction in self._paced(time.monotonic() + self._seconds):
                    _run(connection, transaction)
                    self.record.add(transaction.changes)
        except (pymysql.Error, RuntimeError) as error:
            self.error = error
        finally:
            self._leave_gentle()

    def _paced(self, deadline_s: float) -> Iterator[Transaction]:
        """Yield the workload's transactions, each at its time."""
        next_s, late = time.monotonic(), False
        for transaction in self._workload:
            if transaction.gentle and not late:
                next_s += 1 / self._gentle_rate
                self._stop_asked.wait(max(0.0, next_s - time.monotonic()))
            else:
                self._leave_gentle()
            if self._stop_asked.is_set():
                return
            late = late or time.monotonic() > deadline_s
            if late and transaction.small:
                continue
            yield transaction

    def _leave_gentle(self) -> None:
        if not self.gentle_until_us:
            self.gentle_until_us = time.time_ns() // 1000


def _run(connection: pymysql.Connection[Any], transaction: Transaction) -> None:
    """Run a transaction; a statement on its own is one without BEGIN and COMMIT.

    Raises:
        RuntimeError: a statement changed other rows than it announced.
    """
    together = len(transaction.statements) > 1
    with connection.cursor() as cursor:
        if together:
            connection.begin()
        for statement in transaction.statements:
            affected = cursor.execute(statement.sql, _arguments(statement.arguments))
            _check(statement, affected)
        if together:
            connection.commit()


def _arguments(arguments: Iterable[Any]) -> tuple[Any, ...]:
    now_us = time.time_ns() // 1000
    return tuple(now_us if value is NOW_US else value for value in arguments)


def _check(statement: Statement, affected: int) -> None:
    change = statement.change
    if change.op in ("INSERT", "UPDATE", "DELETE") and affected != change.rows:
        raise RuntimeError(
            f"A statement changed {affected} rows instead of {change.rows}: {statement.sql[:200]}"
        )
