"""The tables of a shard's snapshot: which are read now, which wait, and what has become of the others.

Some are read at a time, so that the text of the cursor is short: the cursor omits the tables
that wait, and has only the names of the tables that were read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from canal_group.actors.snapshot.work import SelectedPage, TablePlan
from canal_group.merge.snapshot.cursor import (
    SNAPSHOT_TEXT_MAX,
    TABLE_TEXT_MAX,
    SnapshotCursor,
    TableCursor,
    name_of_text,
    name_text,
)
from canal_group.merge.snapshot.table_rows import Image
from canal_group.merge.snapshot.table_snapshot import TableSnapshot
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.marks.snapshot_mark import NAMED_MAX, FailedTables, SnapshotEnd, SnapshotMark
from canal_group.merge.values.position import Position

#: tables that are read at a time
TABLES_AT_ONCE: Final = 3


@dataclass(slots=True)
class Table:
    """A table of a snapshot."""

    #: the ranges of the table that are read already; None: nothing is read
    cursor: TableCursor | None
    #: how often it was begun
    attempt: int = 0
    version: int = 0
    #: how the table is read; None: the plan is not known yet
    plan: TablePlan | None = None
    #: decides on the table's pages; None: the table waits for a plan or a boundary, or has ended
    followed: TableSnapshot[Image] | None = None
    #: pages that wait for their boundary
    pages: dict[int, SelectedPage] = field(default_factory=dict)
    #: why the table cannot be read; empty: no failure
    failure: str = ""
    #: whether the source lacks the table: then no rows are to be read
    absent: bool = False

    @property
    def ended(self) -> bool:
        """Whether it was read, or cannot be."""
        return bool(self.failure) or (self.cursor is not None and self.cursor.done)


class SnapshotTables:
    """The tables; changed by one thread at a time, while others may ask for the properties.

    Args:
        cursor: which tables are read, and what is known to be read.
    """

    def __init__(self, cursor: SnapshotCursor) -> None:
        self._cursor = cursor
        #: replaced as wholes
        self._all = {name_of_text(name): Table(table) for name, table in cursor.tables.items()}
        #: tables that were begun; some of them may have ended
        self._begun = dict(self._all)
        #: whether `complete` has added all tables of the source
        self._complete = False
        #: tables that are begun later, when others have ended
        self._waiting: deque[TableName] = deque()

    def complete(self, names: Iterable[TableName]) -> None:
        """Add the tables that there are; does nothing the second time."""
        if self._complete:
            return
        new = dict.fromkeys(name for name in names if name not in self._all)
        self._all = {**self._all, **{name: Table(None) for name in new}}
        self._waiting.extend(new)
        self._complete = True

    def __getitem__(self, name: TableName) -> Table:
        return self._all[name]

    def open(self) -> list[tuple[TableName, Table]]:
        """Return the tables that were begun and have not ended."""
        self._begun = {name: table for name, table in self._begun.items() if not table.ended}
        return list(self._begun.items())

    @property
    def waiting(self) -> list[tuple[TableName, Table]]:
        """The tables that were not begun."""
        return [(name, self._all[name]) for name in self._waiting]

    def next(self) -> tuple[TableName, Table] | None:
        """Return a table to begin; None: none waits, or so many are being read."""
        while self._waiting and self._all[self._waiting[0]].ended:
            self._waiting.popleft()
        if not self._waiting or len(self.open()) >= TABLES_AT_ONCE:
            return None
        name = self._waiting[0]
        # Before it waits no longer: others may ask whether all have ended.
        self._begun = {**self._begun, name: self._all[name]}
        self._waiting.popleft()
        return name, self._all[name]

    def ended_of(self, names: Iterable[TableName]) -> list[tuple[TableName, Table]]:
        """Return those tables of some names that have ended."""
        return [(name, self._all[name]) for name in names if name in self._all and self._all[name].ended]

    def wait_again(self, name: TableName) -> None:
        """Let a table that has ended be begun again, after those that wait."""
        table = self._all[name]
        self._begun = {each: begun for each, begun in self._begun.items() if each != name}
        if name not in self._waiting:
            self._waiting.append(name)
        table.cursor, table.failure = None, ""

    def select(self, lane: str) -> None:
        """Note that a page enters which a lane has selected."""
        self._cursor = replace(self._cursor, selected_by=lane)

    @property
    def room(self) -> int:
        """The longest name of a table that the cursor has room for, also when that was read."""
        return (SNAPSHOT_TEXT_MAX - len(self.text) - TABLES_AT_ONCE * TABLE_TEXT_MAX) // 2

    @property
    def text(self) -> str:
        """The cursor."""
        known = ((name, table.cursor) for name, table in self._all.items())
        tables = {name_text(name): cursor for name, cursor in known if cursor is not None}
        return replace(self._cursor, tables=tables).to_json()

    def mark(self, shard: str, position: Position) -> SnapshotMark:
        """Return the mark at the end."""
        failed, at = self.unread, replace(position, snapshot=None)
        absent = sorted(name_text(name) for name, table in self._all.items() if table.absent)[:NAMED_MAX]
        client_id = self._cursor.client_id
        return SnapshotMark(shard, client_id, "", at, failed.reasons, failed.count, tuple(absent))

    @property
    def end(self) -> SnapshotEnd:
        """What the group learns at the mark."""
        return SnapshotEnd(self._cursor.wanted, self.unread)

    @property
    def unread(self) -> FailedTables:
        """The tables that cannot be read, without those that the source does not have."""
        failed = [(name, table) for name, table in self._all.items() if table.failure and not table.absent]
        return FailedTables.of({name_text(name): table.failure for name, table in failed})

    @property
    def there(self) -> int:
        """The number of tables, as far as they are known, without those that the source does not have."""
        return sum(not table.absent for table in self._all.values())

    @property
    def names(self) -> list[TableName]:
        """The names of the tables, as far as they are known."""
        return list(self._all)

    @property
    def failures(self) -> dict[TableName, str]:
        """Why tables cannot be read, by name."""
        return {name: table.failure for name, table in self._all.items() if table.failure}

    @property
    def done(self) -> int:
        """How many were read."""
        cursors = [table.cursor for table in self._all.values()]
        return sum(cursor is not None and cursor.done for cursor in cursors)

    @property
    def ended(self) -> bool:
        """Whether every table was read, or cannot be."""
        return self._complete and not self._waiting and all(table.ended for table in self._begun.values())
