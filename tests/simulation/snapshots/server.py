"""A server of a source: its binlog, and how far each transaction is on its way into it and out of it.

    flushed     it is in the binlog's file, and `written` is after it
    synced      replicas get it, and we do
    committed   SELECT sees it; until then its rows are locked
    executed    the server says so (MySQL)

With semi-synchronous replication a commit waits between the second and the third, for as long as no replica
answers. MySQL may commit in another order than that of the binlog.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from canal_group.merge.snapshot.point import LogOffset
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.gtids.gtid import GtidSet
from canal_group.merge.values.header import HEADER, Flag
from canal_group.merge.values.position import Position
from simulation.loop import MS, Future, Loop
from simulation.snapshots.table import (
    Placed,
    Statement,
    Table,
    Transaction,
    applied,
    statements_of,
    table_rows,
)

#: longest time between two steps of a transaction
STEP_MAX_US = 6 * MS


class Server:
    """One server; see the module.

    Args:
        loop: its time.
        uuid: its identity.
        base: base name of its files.
        begin: the tables before the first transaction, and the GTIDs of what made them.
        shape: bytes of each transaction, and how many a file has.
        ordered: whether it commits in the order of its binlog.
    """

    def __init__(
        self,
        loop: Loop,
        uuid: str,
        base: str,
        begin: tuple[Mapping[str, Table], GtidSet],
        shape: tuple[int, int],
        *,
        ordered: bool,
    ) -> None:
        self._loop, self.uuid, self._base = loop, uuid, base
        self._step, self._a_file = shape
        self._ordered = ordered
        #: in the order of its binlog, which is that of its source
        self.log: list[Transaction] = []
        self.synced = 0
        self.committed: set[int] = set()
        self.executed: GtidSet = begin[1]
        #: what SELECT sees
        self.tables: Mapping[str, Table] = begin[0]
        #: GTIDs of the first n transactions
        self._gtids: list[GtidSet] = [begin[1]]
        #: until when commits wait for a replica
        self.stalled_until_us = 0
        self._sync_us = self._commit_us = 0
        #: whether it is gone for good
        self.lost = False
        #: tables that pages are reading
        self.reads: Counter[str] = Counter()
        #: done when there is something new to send
        self.news = Future()

    # ---- into it -----------------------------------------------------------------------------------------

    def restore(self, transactions: Sequence[Transaction]) -> None:
        """Have transactions from the beginning, as a server has that is made of another one."""
        for each in transactions:
            self._append(each)
        self.synced = len(self.log)
        self.committed.update(range(self.synced))
        self.executed = self._gtids[-1]
        self.tables = self.log[-1].tables if self.log else self.tables

    def flush(self, transaction: Transaction) -> None:
        """Write a transaction; the rest of its way takes its time."""
        self._append(transaction)
        chance = self._loop.chance
        self._sync_us = max(self._sync_us, self._loop.now_us + chance.randrange(STEP_MAX_US))
        self._loop.after(self._sync_us - self._loop.now_us, self._sync)

    def _append(self, transaction: Transaction) -> None:
        self.log.append(transaction)
        source, number = transaction.gtid
        self._gtids.append(self._gtids[-1].add(source, [number]) if number else self._gtids[-1])

    def _sync(self) -> None:
        transaction = self.log[self.synced]
        self.synced += 1
        news, self.news = self.news, Future()
        news.set()
        self._wait(transaction)

    def _wait(self, transaction: Transaction) -> None:
        """Commit it when no replica is waited for."""
        now_us = self._loop.now_us
        if self.stalled_until_us > now_us:
            self._loop.after(self.stalled_until_us - now_us, lambda: self._wait(transaction))
            return
        at_us = now_us + self._loop.chance.randrange(STEP_MAX_US)
        if self._ordered or transaction.statement is not None:
            at_us = self._commit_us = max(at_us, self._commit_us)
        self._loop.after(at_us - now_us, lambda: self._commit(transaction))

    def _commit(self, transaction: Transaction) -> None:
        number = transaction.number
        before = [each for each in self.pending if each.number < number]
        if before and (self._ordered or any(_meet(each, transaction) for each in before)):
            # The one before it was stalled meanwhile, or has rows of it: also a replica keeps their order.
            self._loop.after(MS, lambda: self._commit(transaction))
            return
        for change in _changes(transaction):
            self.tables = applied(self.tables, change, number)
        self.committed.add(number)
        self._loop.after(self._loop.chance.randrange(STEP_MAX_US), lambda: self._execute(transaction))

    def _execute(self, transaction: Transaction) -> None:
        source, number = transaction.gtid
        self.executed = self.executed.add(source, [number]) if number else self.executed

    @property
    def pending(self) -> list[Transaction]:
        """What was written and cannot be seen: its rows are locked."""
        return [each for each in self.log[-40:] if each.number not in self.committed]

    # ---- out of it ---------------------------------------------------------------------------------------

    def offset(self, count: int) -> LogOffset:
        """Return where the first `count` transactions end."""
        file, index = divmod(count - 1, self._a_file) if count else (0, -1)
        return LogOffset(self._file(file), 4 + (index + 1) * self._step)

    def end(self, count: int) -> LogOffset:
        """Return the same; after a file's last transaction the beginning of the next one."""
        if count and count % self._a_file == 0:
            return LogOffset(self._file(count // self._a_file), 4)
        return self.offset(count)

    def _file(self, index: int) -> str:
        return f"{self._base}.{index + 1:06}"

    def count_at(self, file: str, offset: int) -> int:
        """Return how many transactions end at or before an offset at which one begins or ends."""
        base, _, number = file.rpartition(".")
        assert base == self._base, f"{file} is a file of {self.uuid}"
        inside, rest = divmod(offset - 4, self._step)
        assert rest == 0, f"a transaction begins at {file}:{offset}"
        return (int(number) - 1) * self._a_file + inside

    def position(self, count: int, *, rotated: bool = False) -> Position:
        """Return the position after the first `count` transactions."""
        file, offset = self.end(count) if rotated else self.offset(count)
        commit_us = self.log[count - 1].commit_us if count else 0
        gtids = self._gtids[count]
        return Position(file, offset, gtid_set=gtids, commit_us=commit_us, server=self.uuid)

    def count_of(self, gtids: GtidSet) -> int | None:
        """Return how many transactions a GTID set has, if they are the first ones; None: it lacks some."""
        for count in range(len(self._gtids) - 1, -1, -1):
            if gtids.contains(self._gtids[count]):
                return count if self._gtids[count].contains(gtids) else None
        return None

    @property
    def visible_end(self) -> LogOffset:
        """Where a snapshot of now is, if commits are in order: in a new file, if all was committed."""
        count = len(self.committed)
        return self.end(count) if count == len(self.log) else self.offset(count)

    def chunk(self, first: tuple[int, int], count: int, limit: int) -> tuple[Chunk, tuple[int, int]]:
        """Return some headers as a chunk, and which one is next.

        Args:
            first: transaction and fragment of the first one.
            count: of headers.
            limit: number of the first transaction that may not be read.
        """
        number, part = first
        headers: list[tuple[int, ...]] = []
        changes: dict[tuple[str, int], list[Placed]] = {}
        kinds: dict[tuple[str, int], Table] = {}
        statements: list[tuple[int, Statement]] = []
        names: list[str] = []
        while len(headers) < count and number < limit:
            transaction = self.log[number]
            fragment = transaction.fragments[part]
            row = sum(map(len, transaction.fragments[:part]))
            for index, change in enumerate(fragment):
                table = transaction.tables[change.table]
                kind = change.table, table.since
                kinds[kind] = table
                changes.setdefault(kind, []).append(Placed(len(headers), row + index, change))
            if transaction.statement is not None:
                statements.append((len(headers), transaction.statement))
            headers.append(self._header(transaction, part, row, names))
            part += 1
            if part == len(transaction.fragments):
                number, part = number + 1, 0
        tables = tuple(table_rows(kind[0], kinds[kind], placed) for kind, placed in changes.items())
        batch, sources = statements_of(statements)
        chunk = Chunk(np.array(headers, HEADER), tuple(names), tables, batch, sources)
        return chunk, (number, part)

    def _header(self, transaction: Transaction, part: int, row: int, names: list[str]) -> tuple[int, ...]:
        begins, ends = part == 0, part == len(transaction.fragments) - 1
        ddl = transaction.statement is not None
        flags = Flag.BEGIN * begins | Flag.END * ends | Flag.DDL * ddl
        rows = len(transaction.fragments[part]) + ddl
        file, end = self.offset(transaction.number + 1)
        begin = end - self._step
        source, number = transaction.gtid
        for name in (file, source):
            if name not in names:
                names.append(name)
        at = (names.index(file), begin, end if ends else begin + 1 + part, names.index(source), number)
        return (0, 0, int(flags), rows, row, row + rows, 100 * rows, transaction.commit_us, 0, *at, 0, 0)


def _meet(one: Transaction, other: Transaction) -> bool:
    """Return whether two transactions have a row in common, or one has a statement."""
    return bool(one.statement or other.statement) or not one.touched.isdisjoint(other.touched)


def _changes(transaction: Transaction) -> Sequence[Any]:
    if transaction.statement is not None:
        return (transaction.statement,)
    return [each for part in transaction.fragments for each in part]
