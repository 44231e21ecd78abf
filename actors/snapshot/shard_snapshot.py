"""The snapshot of one shard: the decisions on its tables' pages, between its stream and those who read pages.

    chunk_read    what a chunk touched, and what its statements did to tables
    reached       the stream is between two transactions: pages that were read enter here
    page_read     a page was read: it enters at once if the stream is far enough
    take          what is to be read next; a full ring holds back whoever puts, so nothing more is asked for

A table is followed from the boundary at which its key is known: a page must have seen all that is before it.
When a statement makes another table of it, it is planned anew, and followed from a new boundary. Some tables
are read at a time, so that the cursor is short. When all have ended, a mark says so in the stream.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa

from canal_group.actors.ports import Host
from canal_group.actors.process.host import OS_HOST
from canal_group.actors.snapshot.page_chunk import PageAt, mark_chunk, page_chunk
from canal_group.actors.snapshot.snapshot_tables import SnapshotTables, Table
from canal_group.actors.snapshot.table_changes import change_of, changes_in
from canal_group.actors.snapshot.work import SelectedPage, TablePlan, Work
from canal_group.merge.errors import DataError
from canal_group.merge.snapshot.cursor import (
    DONE,
    SNAPSHOT_TEXT_MAX,
    KeyRange,
    SnapshotCursor,
    TableCursor,
    name_of_text,
    name_text,
)
from canal_group.merge.snapshot.point import Span, span_of
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
    Reconnected,
    StreamRead,
    TableChange,
)
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.snapshot.table_rows import Image, placed, touched_by
from canal_group.merge.snapshot.table_snapshot import TableSnapshot
from canal_group.merge.snapshot.touched import Touched
from canal_group.merge.values.chunk import ABSENT, Chunk, TableName
from canal_group.merge.values.position import Position

#: how often a table is begun
BEGINS_MAX: Final = 20
_BEGINS: Final = (
    f"its snapshot was begun {BEGINS_MAX} times, and statements or changes of its keys ended each"
)
_NO_ROOM: Final = (
    f"the cursor of the snapshot, which has {SNAPSHOT_TEXT_MAX} bytes, has no room for it: take a snapshot of"
    " fewer tables, and of this one by another client id"
)

_log = logging.getLogger(__name__)


class Store(Protocol):
    """Where chunks go; called by one thread at a time, but for `has_room`."""

    @property
    def has_room(self) -> bool:
        """Whether few rows wait for the client; waits for no other thread."""
        ...

    def processed(self, page: Chunk) -> Chunk:
        """Return a page as it is stored: rules were applied; raises DataError if they cannot be."""
        ...

    def put(self, chunk: Chunk) -> None:
        """Put a chunk into the ring; wait while there is no room. A page is handed out when it is durable."""
        ...


class ShardSnapshot:
    """Decides when pages enter a shard's stream; see the module. Safe to use from several threads.

    What only tells of it waits for no other thread: a full ring holds back whoever puts.

    Args:
        cursor: which tables are read, and what is known to be read.
        shard: name of the shard.
        server: identity of the server whose stream it is.
        lane: names the lane: no two have one name.
        pages_max: most pages of one table in flight.
        store: where chunks go.
        host: makes its lock.
    """

    def __init__(
        self,
        cursor: SnapshotCursor,
        shard: str,
        server: str,
        lane: str,
        pages_max: int,
        store: Store,
        host: Host = OS_HOST,
    ) -> None:
        self._shard, self._server, self._lane = shard, server, lane
        self._pages_max, self._store = pages_max, store
        self.tables = SnapshotTables(cursor)
        self._lock = host.lock()
        self._came = host.condition(self._lock)
        self._todo: deque[Work] = deque()
        #: None: the stream is inside a transaction, or not open
        self._at: PageAt | None = None
        #: commit time of the last header
        self._commit_us = 0
        #: rows of pages that entered
        self.rows = 0
        #: whether the mark at the end has entered
        self.over = False
        self._closed = False
        with self._lock:
            # Begun tables come before waiting tables: the stream's changes since their pages were read count.
            for name, table in self.tables.open():
                self._ask_for_plan(name, table)
        if cursor.wanted is not None:
            self.listed(map(name_of_text, cursor.wanted))

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
            for name, table in self.tables.waiting if changes else ():
                if change_of(name, changes) is TableChange.DROPPED:
                    self._end(name, table, "")
            # Before the chunk is stored: whoever has acknowledged an event has what is to be read for it.
            moved = [
                self._begin_ended(name, table)
                for name, table in self.tables.ended_of(changes)
                if changes[name] is TableChange.ROWS_MOVED
            ]
            moved += [
                self._streamed(name, table, chunk, span, change_of(name, changes))
                for name, table in self.tables.open()
            ]
            self._store.put(replace(stored, snapshot=self.tables.text) if any(moved) else stored)
            self._go_on()

    def reached(self, position: Position) -> None:
        """Note where the stream is now; pages that were read enter there."""
        if position.rows_into_transaction:
            return
        with self._lock:
            at = self._at
            if at is None or (at.boundary.file, at.boundary.offset) != (position.file, position.offset):
                # Before the first transaction: no commit in the file is earlier than it.
                known_us = position.commit_us or position.created_s * 1_000_000
                self._at = PageAt(position, self._commit_us or known_us)
            for name, table in self.tables.open():
                self._follow(name, table)
                if table.followed is not None:
                    event: StreamRead[Image] = StreamRead(None, Touched(), position)
                    self._do(name, table, table.followed.handle(event))
            self._go_on()

    def reconnected(self) -> None:
        """Have pages read again that were read, or asked for, while the stream had another connection."""
        with self._lock:
            for name, table in self.tables.open():
                if table.followed is not None:
                    self._drop_work(name)
                    self._do(name, table, table.followed.handle(Reconnected()))

    # ---- for those who read pages --------------------------------------------------------------------------

    def take(self, timeout_s: float) -> Work | None:
        """Return the next work; None: nothing came in time, or it was closed."""
        with self._lock:
            self._came.wait_for(lambda: bool(self._todo) or self._closed, timeout_s)
            return self._todo.popleft() if self._todo and not self._closed else None

    def wants(self, work: Work) -> bool:
        """Return whether a page that was taken is still to be read."""
        assert isinstance(work.step, ReadPage), "a page was asked for"
        with self._lock:
            table = self._current(work)
            return (
                table is not None and table.followed is not None and table.followed.awaits(work.step.number)
            )

    def listed(self, names: Iterable[TableName]) -> None:
        """Note the names of the tables to read."""
        with self._lock:
            self.tables.complete(names)
            self._go_on()

    def planned(self, work: Work, plan: TablePlan) -> None:
        """Note how a table is read."""
        with self._lock:
            table = self._current(work)
            if table is not None and table.followed is None:
                table.plan = plan
                self._follow(work.name, table)
                self._go_on()

    def plan_missed(self, work: Work) -> None:
        """Note that a table was altered, or dropped, while it was planned."""
        with self._lock:
            table = self._current(work)
            if table is not None:
                self._begin_anew(work.name, table)
                self._go_on()

    def failed(self, work: Work, why: str, *, absent: bool = False) -> None:
        """Note that a table cannot be read at all.

        Args:
            work: of the table.
            why: in a sentence.
            absent: whether the source has no such table.
        """
        with self._lock:
            table = self._current(work)
            if table is not None:
                self._end(work.name, table, why, absent=absent)
                self._go_on()

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
            self._do(
                work.name, table, table.followed.handle(PageRead(number, page.point, page.last, page.end))
            )
            self._go_on()

    def page_missed(self, work: Work, *, other_key: bool = False) -> None:
        """Note a page that could not be read, or whose table has another key than its plan says."""
        assert isinstance(work.step, ReadPage), "a page was asked for"
        number = work.step.number
        with self._lock:
            table = self._current(work)
            if table is not None and table.followed is not None:
                event = KeyChanged(number) if other_key else PageLost(number)
                self._do(work.name, table, table.followed.handle(event))
                self._go_on()

    # ---- for whoever tells of it ---------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether pages are to be read: few rows wait for the client."""
        return self._store.has_room

    def close(self) -> None:
        """End every wait."""
        with self._lock:
            self._closed = True
            self._came.notify_all()

    def signature(self, work: Work) -> str | None:
        """Return the meaning of the keys by which the table of some work is read; None: it is not read."""
        plan = self.tables[work.name].plan
        return None if plan is None else plan.signature

    # ---- inside --------------------------------------------------------------------------------------------

    def _current(self, work: Work) -> Table | None:
        """Return the table of some work; None: it is no longer asked for."""
        table = self.tables[work.name]
        return None if self._closed or table.ended or work.attempt != table.attempt else table

    def _streamed(
        self, name: TableName, table: Table, chunk: Chunk, span: Span | None, change: TableChange | None
    ) -> bool:
        """Note what a chunk did to a table; return whether more is to be read than before."""
        if change is not None:
            table.version += 1
        batches = [each.rows for each in chunk.tables if each.source == name]
        if table.followed is None and change is TableChange.DROPPED:
            self._end(name, table, "")
            return True
        if table.followed is None:
            # A row may have moved by an image that lacks columns to where its cursor says that all was read.
            moves = any(ABSENT["after"] in rows.schema.names for rows in batches)
            if change in (None, TableChange.ALTERED) and not (moves and table.cursor is not None):
                return False
            self._begin_anew(name, table)
            return True
        assert table.plan is not None, "a table that is followed has a plan"
        if any(_lacks(rows, table.plan.key) for rows in batches):
            self._begin_anew(name, table)
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
            if not table.cursor.fits:
                self._begin_anew(name, table)
        return bool(touched.moved) or change not in (None, TableChange.ALTERED)

    def _follow(self, name: TableName, table: Table) -> None:
        """Follow a table that was planned, if the stream is at a boundary."""
        plan, at = table.plan, self._at
        if plan is None or at is None or table.followed is not None or table.ended:
            return
        cursor = table.cursor
        if cursor is None or cursor.key != plan.signature:
            cursor = TableCursor(plan.signature, plan.ranges)
            if not cursor.fits:
                cursor = TableCursor(plan.signature, (KeyRange(),))
        to_key = plan.key.for_server
        table.followed = TableSnapshot(cursor, at.boundary, self._server, self._pages_max, to_key)
        table.cursor = cursor
        self._do(name, table, table.followed.begin())

    def _do(self, name: TableName, table: Table, instructions: Iterable[Instruction]) -> None:
        steps = deque(instructions)
        while steps:
            match steps.popleft():
                case ReadPage() as step:
                    self._add(Work(name, table.attempt, table.version, step))
                case EmitPage() as step:
                    steps.extend(self._emit(table, step))
                case PlanTable():
                    self._begin_anew(name, table)
                case EndTable(failure):
                    self._end(name, table, failure)
        if table.followed is not None:
            # Those that are read again are of no use.
            awaited = filter(table.followed.awaits, table.pages)
            table.pages = {number: table.pages[number] for number in awaited}

    def _emit(self, table: Table, step: EmitPage[Image]) -> list[Instruction]:
        """Put a page into the stream; return the steps that follow."""
        assert self._at is not None, "the stream is at a boundary"
        assert table.plan is not None, "a table that is followed has a plan"
        assert table.followed is not None, "it emits"
        page = table.pages[step.number]
        rows = pa.RecordBatch.from_struct_array(page.table.rows.column("after"))
        left = placed(rows, table.plan.key, step.touched)
        event = PageEmitted(step.number, left.again)
        after = table.followed.cursor_after(event)
        table.cursor = DONE if after.done else after
        if not after.fits:
            return [PlanTable() if after.again else EndTable(_NO_ROOM)]
        self.tables.select(self._lane)
        try:
            chunk = self._store.processed(
                replace(page_chunk(page.table, left.rows, self._at), snapshot=self.tables.text)
            )
        except DataError as error:
            return [EndTable(str(error))]
        steps = table.followed.handle(event)
        self._at = self._at.after(left.rows.num_rows)
        self.rows += left.rows.num_rows
        self._store.put(chunk)
        return steps

    def _go_on(self) -> None:
        """Begin tables while few are being read; when there is none left, put the mark."""
        room: int | None = None
        while (following := self.tables.next()) is not None:
            room = self.tables.room if room is None else room
            if len(name_text(following[0])) <= room:
                self._ask_for_plan(*following)
            else:
                self._end(*following, _NO_ROOM)
        if not self.over and self._at is not None and self.tables.ended:
            self._put_mark(self._at)

    def _put_mark(self, at: PageAt) -> None:
        mark = self.tables.mark(self._shard, at.boundary)
        chunk = self._store.processed(
            replace(mark_chunk(mark.to_sql(), at), snapshot=self.tables.end.to_text())
        )
        self._at, self.over = at.after(1), True
        self._store.put(chunk)

    def _begin_ended(self, name: TableName, table: Table) -> bool:
        """Let a table that has ended be read once more before the mark; return whether more is to be read."""
        if self.over:
            return False
        if table.attempt >= BEGINS_MAX:
            self._end(name, table, _BEGINS)
        else:
            self.tables.wait_again(name)
        return True

    def _begin_anew(self, name: TableName, table: Table) -> None:
        """Begin a table anew: rows that were read before say nothing about the present table."""
        table.cursor = None
        if table.attempt >= BEGINS_MAX:
            self._end(name, table, _BEGINS)
        else:
            self._ask_for_plan(name, table)

    def _ask_for_plan(self, name: TableName, table: Table) -> None:
        """Let a table be planned; what was asked for it before is forgotten."""
        self._forget(name, table)
        table.attempt += 1
        table.plan = None
        self._add(Work(name, table.attempt, table.version, PlanTable()))

    def _end(self, name: TableName, table: Table, failure: str, *, absent: bool = False) -> None:
        self._forget(name, table)
        if failure:
            # Nothing follows it from here on.
            table.cursor = None
            _log.warning("snapshot of %s fails: %s", name, failure, extra={"shard": self._shard})
        elif table.cursor is None or not table.cursor.done:
            # The table was dropped: no row of it is left to read.
            table.cursor = DONE
        table.absent, table.failure = absent, failure

    def _forget(self, name: TableName, table: Table) -> None:
        table.followed = None
        table.pages.clear()
        self._drop_work(name)

    def _drop_work(self, name: TableName) -> None:
        self._todo = deque(work for work in self._todo if work.name != name)

    def _add(self, work: Work) -> None:
        self._todo.append(work)
        self._came.notify_all()


def _lacks(rows: pa.RecordBatch, key: TableKey) -> bool:
    """Return whether a table no longer has the columns of its key."""
    image = rows.schema.field("after").type
    return any(image.get_field_index(column) < 0 for column in key.columns)
