"""The snapshot of one shard: the decisions on its tables' pages, between its stream and those who read pages.

    chunk_read    what a chunk touched, and what its statements did to tables
    reached       the stream is between two transactions: pages that were read enter here
    page_read     a page was read: it enters at once if the stream is far enough
    take          what is to be read next; a full ring holds back whoever puts, so nothing more is asked for

A table is followed from the boundary at which its key is known: a page must have seen all that is before it.
When a statement makes another table of it, it is planned anew, and followed from a new boundary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from canal_group.actors.ports import Host
from canal_group.actors.process.host import OS_HOST
from canal_group.actors.snapshot.page_chunk import PageAt, page_chunk
from canal_group.actors.snapshot.table_changes import changes_in
from canal_group.merge.errors import DataError
from canal_group.merge.snapshot.cursor import KeyRange, SnapshotCursor, TableCursor
from canal_group.merge.snapshot.key import Key
from canal_group.merge.snapshot.point import Point, Span, span_of
from canal_group.merge.snapshot.steps import (
    EmitPage,
    EndTable,
    Instruction,
    KeyChanged,
    PageEmitted,
    PageLost,
    PageRead,
    PlanTable,
    ReadPage,
    StreamRead,
    TableChange,
)
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.snapshot.table_rows import Image, placed, touched_by
from canal_group.merge.snapshot.table_snapshot import TableSnapshot
from canal_group.merge.snapshot.touched import Touched
from canal_group.merge.values.chunk import ABSENT, Chunk, TableName, TableRows
from canal_group.merge.values.position import Position


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How a table is read."""

    #: says what its keys mean, see `TableCursor.key`
    signature: str
    key: TableKey
    #: columns whose absence from an image does not say that they were not changed
    computed: frozenset[str]
    #: what is to be read if no cursor of the same key says what is left
    ranges: tuple[KeyRange, ...]


@dataclass(frozen=True, slots=True)
class SelectedPage:
    """A page that was read."""

    point: Point
    #: what chunks say of the table; its batch has a row for each that was read, as an image after
    table: TableRows
    #: its last key; None: it ends its range
    last: Key | None


class Work(NamedTuple):
    """Something to do for a table. Its answer has the same name, attempt and version."""

    #: of the table in the source
    name: TableName
    #: how often the table was planned
    attempt: int
    #: how often the table was altered: with a new one its definition has to be read again
    version: int
    step: PlanTable | ReadPage


class Put(Protocol):
    """Stores a chunk."""

    def __call__(self, chunk: Chunk, cursor: SnapshotCursor | None) -> None:
        """Put it into the ring, a page durably before that; wait while there is no room.

        Args:
            chunk: a page, or a chunk of the stream.
            cursor: how far the shard's tables are read from the chunk's first header on; None: as before.
        """
        ...


@dataclass(slots=True)
class _Table:
    """A table that is read."""

    #: what is known to be read; None: nothing
    cursor: TableCursor | None
    attempt: int = 0
    version: int = 0
    #: how it is read; None: that is not known
    plan: TablePlan | None = None
    #: None: it waits for a plan, or for a boundary at which it is followed; or it has ended
    followed: TableSnapshot[Image] | None = None
    #: pages that wait for their boundary
    pages: dict[int, SelectedPage] = field(default_factory=dict)
    #: why it cannot be read; empty: it can
    failure: str = ""

    @property
    def ended(self) -> bool:
        """Whether it was read, or cannot be."""
        return bool(self.failure) or (self.cursor is not None and self.cursor.done)


class ShardSnapshot:
    """Decides when pages enter a shard's stream; see the module. Safe to use from several threads.

    Args:
        tables: the tables to read, by their names in the source, with what is known to be read.
        server: identity of the server whose stream it is.
        pages_max: most pages of one table in flight.
        put: stores chunks; called by one thread at a time.
        host: makes its lock.
    """

    def __init__(
        self,
        tables: Mapping[TableName, TableCursor | None],
        server: str,
        pages_max: int,
        put: Put,
        host: Host = OS_HOST,
    ) -> None:
        self._server, self._pages_max, self._put = server, pages_max, put
        self._lock = host.lock()
        self._came = host.condition(self._lock)
        self._tables = {name: _Table(cursor) for name, cursor in tables.items()}
        self._todo: deque[Work] = deque()
        #: None: the stream is inside a transaction, or not open
        self._at: PageAt | None = None
        #: commit time of the last header
        self._commit_us = 0
        self._closed = False
        with self._lock:
            for name, table in self._tables.items():
                if not table.ended:
                    self._ask_for_plan(name, table)

    # ---- for the stream ------------------------------------------------------------------------------------

    def chunk_read(self, chunk: Chunk, stored: Chunk) -> None:
        """Note what a chunk touched, and store it.

        Args:
            chunk: as it was read: rules may drop columns of a key.
            stored: as it is stored.
        """
        with self._lock:
            self._at, changes, span = None, changes_in(chunk), span_of(chunk.run)
            if len(chunk.headers):
                self._commit_us = int(chunk.headers["commit_us"][-1])
            # Before the chunk is stored: whoever has acknowledged an event has what is to be read for it.
            moved = [
                self._streamed(name, table, chunk, span, _change_of(name, changes))
                for name, table in self._tables.items()
                if not table.ended
            ]
            self._put(stored, self._cursor() if any(moved) else None)

    def reached(self, position: Position) -> None:
        """Note where the stream is now; pages that were read enter there."""
        if position.rows_into_transaction:
            return
        with self._lock:
            at = self._at
            if at is None or (at.boundary.file, at.boundary.offset) != (position.file, position.offset):
                self._at = PageAt(position, self._commit_us or position.commit_us)
            for name, table in self._tables.items():
                self._follow(name, table)
                if table.followed is not None:
                    event: StreamRead[Image] = StreamRead(None, Touched(), position)
                    self._do(name, table, table.followed.handle(event))

    # ---- for those who read pages --------------------------------------------------------------------------

    def take(self, timeout_s: float) -> Work | None:
        """Return the next work; None: nothing came in time, or it was closed."""
        with self._lock:
            self._came.wait_for(lambda: bool(self._todo) or self._closed, timeout_s)
            return self._todo.popleft() if self._todo and not self._closed else None

    def planned(self, work: Work, plan: TablePlan) -> None:
        """Note how a table is read."""
        with self._lock:
            table = self._current(work)
            if table is not None and table.followed is None:
                table.plan = plan
                self._follow(work.name, table)

    def failed(self, work: Work, why: str) -> None:
        """Note that a table cannot be read at all."""
        with self._lock:
            table = self._current(work)
            if table is not None:
                self._end(work.name, table, why)

    def page_read(self, work: Work, page: SelectedPage) -> None:
        """Note a page that was read; it enters the stream as soon as that is far enough."""
        assert isinstance(work.step, ReadPage), "a page was asked for"
        number = work.step.number
        with self._lock:
            table = self._current(work)
            if table is None or table.followed is None:
                return
            if work.version != table.version:
                # It may lack a column that the stream's rows have by now.
                self._do(work.name, table, table.followed.handle(PageLost(number)))
                return
            table.pages[number] = page
            self._do(work.name, table, table.followed.handle(PageRead(number, page.point, page.last)))

    def page_missed(self, work: Work, *, other_key: bool = False) -> None:
        """Note a page that could not be read, or whose table has another key than its plan says."""
        assert isinstance(work.step, ReadPage), "a page was asked for"
        number = work.step.number
        with self._lock:
            table = self._current(work)
            if table is not None and table.followed is not None:
                event = KeyChanged(number) if other_key else PageLost(number)
                self._do(work.name, table, table.followed.handle(event))

    # ---- for whoever tells of it ---------------------------------------------------------------------------

    def close(self) -> None:
        """End every wait."""
        with self._lock:
            self._closed = True
            self._came.notify_all()

    @property
    def failures(self) -> dict[TableName, str]:
        """Why tables cannot be read, by name."""
        with self._lock:
            return {name: table.failure for name, table in self._tables.items() if table.failure}

    @property
    def ended(self) -> bool:
        """Whether every table was read, or cannot be."""
        with self._lock:
            return all(table.ended for table in self._tables.values())

    # ---- inside --------------------------------------------------------------------------------------------

    def _current(self, work: Work) -> _Table | None:
        """Return the table of some work; None: it is no longer asked for."""
        table = self._tables[work.name]
        return None if table.ended or work.attempt != table.attempt else table

    def _streamed(
        self, name: TableName, table: _Table, chunk: Chunk, span: Span | None, change: TableChange | None
    ) -> bool:
        """Note what a chunk did to a table; return whether more is to be read than before."""
        if change is not None:
            table.version += 1
        batches = [each.rows for each in chunk.tables if each.source == name]
        if table.followed is None:
            # A row may have moved by an image that lacks columns to where its cursor says that all was read.
            moves = any(ABSENT["after"] in rows.schema.names for rows in batches)
            if change in (None, TableChange.ALTERED) and not (moves and table.cursor is not None):
                return False
            self._ask_for_plan(name, table)
            return True
        assert table.plan is not None, "a table that is followed has a plan"
        if any(_lacks(rows, table.plan.key) for rows in batches):
            self._ask_for_plan(name, table)
            return True
        try:
            touched = touched_by(batches, table.plan.key, table.plan.computed)
        except DataError as error:
            self._end(name, table, error.message)
            return True
        self._do(name, table, table.followed.handle(StreamRead(span, touched, None, change)))
        for number in list(table.pages) if change is not None else ():
            # It was selected by the definition of before.
            self._do(name, table, table.followed.handle(PageLost(number)))
        if table.followed is not None:
            table.cursor = table.followed.cursor
        return bool(touched.moved) or change in (TableChange.REPLACED, TableChange.DROPPED)

    def _follow(self, name: TableName, table: _Table) -> None:
        """Follow a table that was planned, if the stream is at a boundary."""
        plan, at = table.plan, self._at
        if plan is None or at is None or table.followed is not None or table.ended:
            return
        cursor = table.cursor
        if cursor is None or cursor.key != plan.signature:
            cursor = TableCursor(plan.signature, plan.ranges)
        to_key = plan.key.for_server
        table.followed = TableSnapshot(cursor, at.boundary, self._server, self._pages_max, to_key)
        table.cursor = cursor
        self._do(name, table, table.followed.begin())

    def _do(self, name: TableName, table: _Table, instructions: Iterable[Instruction]) -> None:
        steps = deque(instructions)
        while steps:
            match steps.popleft():
                case ReadPage() as step:
                    self._add(Work(name, table.attempt, table.version, step))
                case EmitPage() as step:
                    steps.extend(self._emit(table, step))
                case PlanTable():
                    self._ask_for_plan(name, table)
                case EndTable(failure):
                    self._end(name, table, failure)
        if table.followed is not None:
            # Those that are read again are of no use.
            awaited = filter(table.followed.awaits, table.pages)
            table.pages = {number: table.pages[number] for number in awaited}

    def _emit(self, table: _Table, step: EmitPage[Image]) -> list[Instruction]:
        """Put a page into the stream; return the steps that follow."""
        assert self._at is not None, "the stream is at a boundary"
        assert table.plan is not None, "a table that is followed has a plan"
        assert table.followed is not None, "it emits"
        page = table.pages.pop(step.number)
        rows = pa.RecordBatch.from_struct_array(page.table.rows.column("after"))
        left = placed(rows, table.plan.key, step.touched)
        steps = table.followed.handle(PageEmitted(step.number, left.again))
        table.cursor = table.followed.cursor
        at, self._at = self._at, self._at.after(left.rows.num_rows)
        self._put(page_chunk(page.table, left.rows, at), self._cursor())
        return steps

    def _cursor(self) -> SnapshotCursor:
        known = {str(name): table.cursor for name, table in self._tables.items()}
        return SnapshotCursor({name: cursor for name, cursor in known.items() if cursor is not None})

    def _ask_for_plan(self, name: TableName, table: _Table) -> None:
        """Let a table be planned; what was asked for it before is forgotten."""
        if table.attempt:
            # What was read of the table that was there before says nothing about this one.
            table.cursor = None
        self._forget(name, table)
        table.attempt += 1
        table.plan = None
        self._add(Work(name, table.attempt, table.version, PlanTable()))

    def _end(self, name: TableName, table: _Table, failure: str) -> None:
        self._forget(name, table)
        table.failure = failure

    def _forget(self, name: TableName, table: _Table) -> None:
        table.followed = None
        table.pages.clear()
        self._todo = deque(work for work in self._todo if work.name != name)

    def _add(self, work: Work) -> None:
        self._todo.append(work)
        self._came.notify_all()


def _change_of(name: TableName, changes: Mapping[TableName, TableChange]) -> TableChange | None:
    return changes.get(name) or changes.get(TableName(name.schema, ""))


def _lacks(rows: pa.RecordBatch, key: TableKey) -> bool:
    """Return whether a table no longer has the columns of its key."""
    image = rows.schema.field("after").type
    return any(image.get_field_index(column) < 0 for column in key.columns)
