"""Comparison: one shard's changes in both streams, transaction by transaction.

Ours say where a transaction begins and ends in the binlog; canal's changes say where their event is. A change
of canal's belongs to the transaction that holds its offset. Comparing begins with the first transaction that
both streams have from its beginning, and ends with the last one that both have to its end.

After a difference it goes on: with the next column of rows that both have, with the next transaction where
one of them has other changes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from canal_group.programs.migration.compare.change import Change, Column, FileOffset, Item, Mark
from canal_group.programs.migration.compare.faults import (
    XA_BEFORE_OUTCOME,
    fault_of_columns,
    fault_of_missing,
    fault_of_value,
)
from canal_group.programs.migration.compare.known import HIDDEN_COLUMNS, known_difference

#: changes of a stream that wait for the other one; with more, that stream is not read
WAITING_MAX: Final = 200_000
_NOTHING: Final = "(nothing)"
_LEFT_OUT: Final = "values of columns that --without names"
_HIDDEN: Final = "hidden columns of RDS and PolarDB-X, which canal leaves out"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the streams."""

    file: str
    offset: int
    table: str
    #: empty: the change as a whole
    column: str
    ours: str
    theirs: str


@dataclass(slots=True)
class _Transaction:
    """One of our transactions; a statement is one by itself."""

    begin: FileOffset
    changes: list[Change] = field(default_factory=list)
    #: None: it is not complete
    end: FileOffset | None = None


@dataclass(slots=True)
class Comparison:
    """Compares what is fed to it, in the order of each stream. Counts are of what was compared.

    Args:
        differences_max: with so many differences it ends.
        without: columns that are not compared, `schema.table.column` in lower case.
    """

    differences_max: int = 1
    without: Collection[str] = frozenset()
    transactions: int = 0
    rows: int = 0
    values: int = 0
    #: what is known to differ, and what canal delivers besides
    known: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    _ours: deque[_Transaction] = field(default_factory=deque)
    _our_changes: int = 0
    _theirs: deque[Change] = field(default_factory=deque)
    _begun: bool = False
    #: canal's first item, and whether its transaction is delivered from its beginning
    _first: FileOffset | None = None
    _first_is_whole: bool = False
    #: canal has delivered everything before `_passed`, and all of the transaction that holds `_ended`
    _passed: FileOffset = (0, 0)
    _ended: FileOffset = (0, 0)
    _in_xa: bool = False
    _xa_rows: int = 0

    @property
    def ok(self) -> bool:
        """Whether something was compared, and nothing differs."""
        return not self.differences and self.transactions > 0

    @property
    def is_over(self) -> bool:
        """Whether there are as many differences as are wanted."""
        return len(self.differences) >= self.differences_max

    @property
    def wants_ours(self) -> bool:
        """Whether more of our stream can wait."""
        return self._our_changes < WAITING_MAX

    @property
    def wants_theirs(self) -> bool:
        """Whether more of canal's stream can wait."""
        return len(self._theirs) < WAITING_MAX

    def ours(self, item: Item) -> None:
        """Take the next item of our stream."""
        if isinstance(item, Mark):
            self._end(item.file_offset)
            if item.begins:
                self._ours.append(_Transaction(item.file_offset))
        else:
            if not self._ours or self._ours[-1].end is not None or item.sql is not None:
                self._end(item.file_offset)
                self._ours.append(_Transaction(item.file_offset))
            self._ours[-1].changes.append(item)
            self._our_changes += 1
            if item.sql is not None:
                self._end((item.file_offset[0], item.offset + item.length))
        self._advance()

    def theirs(self, item: Item) -> None:
        """Take the next item of canal's stream."""
        if item.file_offset < self._passed:
            self.known["changes that canal delivered again"] += isinstance(item, Change)
            return
        ends = isinstance(item, Change) and item.sql is not None and not item.is_text_of_rows
        if self._first is None:
            self._first, self._first_is_whole = (
                item.file_offset,
                ends or (isinstance(item, Mark) and item.begins),
            )
        if isinstance(item, Mark) and not item.begins:
            # An end may be where the next transaction begins: what was before it is inside.
            self._ended = self._passed
        self._passed = item.file_offset
        if isinstance(item, Change):
            self._take(item)
        else:
            self._in_xa = item.xa and item.begins
        if ends:
            self._ended = item.file_offset
        self._advance()

    def _take(self, change: Change) -> None:
        if change.is_text_of_rows:
            self.known["texts of row changes, which are not delivered here"] += 1
        elif self._in_xa:
            self._xa_rows += 1
        else:
            self._theirs.append(change)

    def _end(self, offset: FileOffset) -> None:
        if self._ours and self._ours[-1].end is None:
            self._ours[-1].end = offset

    def _advance(self) -> None:
        while not self.is_over and self._ours:
            transaction = self._ours[0]
            begin, end = transaction.begin, transaction.end
            if end is None or not (self._passed >= end or begin <= self._ended < end):
                return
            self._ours.popleft()
            self._our_changes -= len(transaction.changes)
            if not self._begun:
                self._drop(begin)
            theirs = self._before(end)
            if self._begun or self._begins_with(begin, end):
                self._compare(transaction, theirs)

    def _begins_with(self, begin: FileOffset, end: FileOffset) -> bool:
        """Return whether both streams have a transaction from its beginning, the first such one."""
        assert self._first is not None, "canal has passed the transaction"
        if self._first >= end:
            return False
        self._begun = True
        return self._first <= begin or self._first_is_whole

    def _drop(self, until: FileOffset) -> None:
        """Forget what canal delivered before the first transaction that is compared."""
        while self._theirs and self._theirs[0].file_offset < until:
            self._theirs.popleft()

    def _before(self, end: FileOffset) -> list[Change]:
        changes = []
        while self._theirs and self._theirs[0].file_offset < end:
            changes.append(self._theirs.popleft())
        return changes

    def _compare(self, transaction: _Transaction, theirs: Sequence[Change]) -> None:
        if not theirs and 0 < len(transaction.changes) <= self._xa_rows:
            self._xa_rows -= len(transaction.changes)
            self.known[XA_BEFORE_OUTCOME] += len(transaction.changes)
            return
        # Where one stream has a change more, all that follow it in the transaction seem to differ.
        is_parallel = len(transaction.changes) == len(theirs)
        for ours, other in zip_longest(transaction.changes, theirs):
            found = list(self._change(ours, other))
            self.differences += found[: self.differences_max - len(self.differences)]
            if found and (self.is_over or not is_parallel or not found[0].column):
                return
            self.rows += ours is not None and ours.sql is None
        self.transactions += 1

    def _change(self, ours: Change | None, theirs: Change | None) -> Iterator[Difference]:
        if ours is None or theirs is None or (ours.event, ours.name) != (theirs.event, theirs.name):
            fault = fault_of_missing(ours) if ours is not None and theirs is None else None
            if _is_statement(ours) and _is_statement(theirs) and _text(ours) == _text(theirs):
                self.known["kinds and names of statements"] += 1
            elif fault is not None:
                self.known[fault] += 1
            else:
                where = theirs or ours
                assert where is not None
                yield Difference(where.file, where.offset, where.name, "", _shown(ours), _shown(theirs))
        elif ours.sql is not None or theirs.sql is not None:
            if _text(ours) != _text(theirs):
                yield _difference(theirs, "", _text(ours), _text(theirs))
        else:
            yield from self._images(ours, theirs)

    def _images(self, ours: Change, theirs: Change) -> Iterator[Difference]:
        for mine, others in ((ours.before, theirs.before), (ours.after, theirs.after)):
            fault = fault_of_columns(mine, others)
            if fault is not None:
                self.known[fault] += 1
                continue
            by_name, their_names = ({each.name: each for each in side} for side in (mine, others))
            for name in dict.fromkeys([*their_names, *by_name]):
                if f"{theirs.name}.{name}".lower() in self.without:
                    self.known[_LEFT_OUT] += 1
                else:
                    yield from self._column(theirs, by_name.get(name), their_names.get(name))

    def _column(self, change: Change, ours: Column | None, theirs: Column | None) -> Iterator[Difference]:
        if ours is None or theirs is None:
            name = (ours or theirs).name  # type: ignore[union-attr]
            if theirs is None and name in HIDDEN_COLUMNS:
                self.known[_HIDDEN] += 1
            else:
                yield _difference(change, name, _value(ours), _value(theirs))
            return
        self.values += 1
        if ours.value != theirs.value:
            values = theirs.mysql_type or ours.mysql_type, ours.value, theirs.value
            kind = known_difference(*values) or fault_of_value(*values)
            if kind is None:
                yield _difference(change, ours.name, _value(ours), _value(theirs))
            else:
                self.known[kind] += 1
        for flag in ("key", "updated"):
            mine, other = getattr(ours, flag), getattr(theirs, flag)
            if mine != other:
                yield _difference(change, f"{ours.name} ({flag})", str(mine), str(other))
        if ours.jdbc_type != theirs.jdbc_type:
            kind = theirs.mysql_type.partition("(")[0] or "a column"
            self.known[f"JDBC type of {kind}: {theirs.jdbc_type}, here {ours.jdbc_type}"] += 1


def _difference(change: Change, column: str, ours: str, theirs: str) -> Difference:
    return Difference(change.file, change.offset, change.name, column, ours, theirs)


def _is_statement(change: Change | None) -> bool:
    return change is not None and change.sql is not None


def _text(change: Change | None) -> str:
    return "" if change is None or change.sql is None else change.sql.strip().rstrip(";").rstrip()


def _shown(change: Change | None) -> str:
    if change is None:
        return _NOTHING
    return f"{change.event} {change.name}" if change.sql is None else f"{change.event}: {_text(change)}"


def _value(column: Column | None) -> str:
    if column is None:
        return "(no such column)"
    return "NULL" if column.value is None else repr(column.value)
