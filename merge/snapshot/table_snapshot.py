"""The snapshot of one table on one shard: its ranges, its pages in flight, and where each enters the stream.

Rules:

1. A page of a point (low, high) enters at a boundary of the stream at or after `high`. What the transactions
   after `low` touched decides on its rows, see `touched`.
2. If what was touched after `low` is no longer known, or what was there before the stream began was not
   proven visible, the page is read again. So a page never lacks what the stream does not bring.
3. After a statement on the table a page must have seen it, or is read again; if it makes another table of
   the table, or moves rows without row events, all of it is read again.
4. A table without a key is read in one page, which enters only if nothing touched the table after `low`. It
   is tried a number of times.
5. A range without end ends at the last key that the table has at the point of its first page: rows that are
   inserted later come by the stream, so a table that grows faster than it is read is read to its end.
6. Rows that moved by images that lack columns are read again by their keys, until none is left; by a page
   that saw them move.

It holds no rows. Whoever owns them does what it asks for, in order, and tells it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol

from canal_group.merge.snapshot.cursor import KeyRange, TableCursor
from canal_group.merge.snapshot.key import Key
from canal_group.merge.snapshot.point import LogOffset, Point, Span, joined
from canal_group.merge.snapshot.steps import (
    EmitPage,
    EndTable,
    Event,
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
from canal_group.merge.snapshot.touch_log import TouchLog
from canal_group.merge.snapshot.touched import ImageT, RowKey, Touched
from canal_group.merge.values.position import Position

#: most keys and images that are kept of what the stream touched, for one table
TOUCHED_MAX = 200_000
#: how often the page of a table without a key is read
WHOLE_ATTEMPTS_MAX = 20
#: most rows that a page of single keys reads, and that may wait to be read again
AGAIN_PAGE_MAX, AGAIN_MAX = 500, 20_000


_NO_KEY = (
    "it has no primary key, and no UNIQUE key without nulls, so it is read in one piece while nothing changes"
    f" it; it was changed each of {WHOLE_ATTEMPTS_MAX} times"
)


class ToKey(Protocol):
    """Makes a key that the server understands of the values that the binlog has."""

    def __call__(self, key: RowKey) -> Key:
        """Return it."""
        ...


@dataclass(slots=True)
class _Page:
    """A page that was asked for."""

    rows: KeyRange | tuple[Key, ...]
    #: the point of a page that was read before this page was asked for; None: no page was read by then
    floor: Point | None
    attempt: int
    read: PageRead | None = None

    @property
    def left(self) -> KeyRange | None:
        """The rest of the range after the page; None: the page ends the range, or reads single keys."""
        assert self.read is not None, "a page that was placed was read"
        if not isinstance(self.rows, KeyRange) or self.read.last is None:
            return None
        return KeyRange(self.read.last, self.rows.until or self.read.end)


class TableSnapshot(Generic[ImageT]):
    """Decides on the pages of one table; see the module's rules.

    Args:
        cursor: how far the table was read; its key is empty if the table has none, and is one range.
        start: where the stream begins.
        server: identity of the server that it reads.
        pages_max: most pages in flight.
        to_key: makes keys for the server.
        touched_max: most keys and images that are kept.
    """

    def __init__(
        self,
        cursor: TableCursor,
        start: Position,
        server: str,
        pages_max: int,
        to_key: ToKey,
        touched_max: int = TOUCHED_MAX,
    ) -> None:
        self._server, self._pages_max = server, pages_max
        self._to_key = to_key
        self._boundary: Position | None = start
        self._log: TouchLog[ImageT] = TouchLog(start, touched_max)
        #: what the stream has read since its last boundary
        self._spans: list[Span] = []
        self._touched: Touched[ImageT] = Touched()
        self._touched_max = touched_max
        #: whether a page has to see all before the next boundary: that is not in the log
        self._begins_anew = False
        self._pages: dict[int, _Page] = {}
        self._numbers = 0
        #: point of the page that was read last
        self._proven: Point | None = None
        self._key = cursor.key
        #: what no page in flight reads
        self._ranges = deque(cursor.ranges)
        #: how often in a row such a page did not see all of its rows
        self._again_attempt = 0
        self._again: dict[Key, None] = dict.fromkeys(cursor.again)
        self._ended = cursor.done

    @property
    def cursor(self) -> TableCursor:
        """How far the table was read, pages in flight not counted."""
        return self._cursor()

    def cursor_after(self, event: PageEmitted) -> TableCursor:
        """Return how far the table is read when a page has entered."""
        return self._cursor(event)

    def _cursor(self, emitted: PageEmitted | None = None) -> TableCursor:
        ranges, again = list(self._ranges), list(self._again)
        for number, page in self._pages.items():
            if emitted is not None and number == emitted.number:
                left = page.left
                ranges += [] if left is None else [left]
                again += emitted.again
            elif isinstance(page.rows, KeyRange):
                ranges.append(page.rows)
            else:
                again += page.rows
        return TableCursor(self._key, tuple(ranges), tuple(dict.fromkeys(again)))

    @property
    def ended(self) -> bool:
        """Whether all of it was read, or it failed, or has to be planned anew."""
        return self._ended

    def awaits(self, number: int) -> bool:
        """Return whether a page is in flight."""
        return number in self._pages

    def begin(self) -> list[Instruction]:
        """Return the first steps."""
        return [] if self._ended else self._ask()

    def handle(self, event: Event) -> list[Instruction]:  # noqa: PLR0911 - one for each event
        """Return the steps after an event; events of pages that were given up change nothing."""
        if self._ended:
            return []
        match event:
            case PageRead() if event.number in self._pages:
                self._pages[event.number].read = event
                if event.point.server == self._server:
                    self._proven = event.point
                return self._emit_due()
            case PageLost() if event.number in self._pages:
                return [self._read_again(event.number)]
            case Reconnected():
                self._proven = None
                return [self._read_again(number) for number in list(self._pages)]
            case KeyChanged() if event.number in self._pages:
                return self._end(PlanTable())
            case StreamRead():
                return self._streamed(event)
            case PageEmitted() if event.number in self._pages:
                return self._emitted(event)
        return []

    def _streamed(self, event: StreamRead[ImageT]) -> list[Instruction]:
        if event.span is not None:
            self._spans.append(event.span)
        self._touched.add(event.touched)
        self._again |= dict.fromkeys(map(self._to_key, sorted(event.touched.moved, key=repr)))
        if len(self._touched) > self._touched_max:
            # One transaction may touch all of the table.
            self._touched, self._begins_anew = Touched(), True
        self._begins_anew |= event.change is not None
        self._boundary = event.boundary
        span = joined(self._spans)
        if event.boundary is not None and span is not None:
            self._log.add(span, self._touched)
            self._spans, self._touched = [], Touched()
        if event.boundary is not None and self._begins_anew:
            self._log.begin_at(event.boundary)
            self._begins_anew = False
        if event.change is TableChange.DROPPED:
            return self._end(EndTable(""))
        if event.change in (TableChange.REPLACED, TableChange.ROWS_MOVED) or len(self._again) > AGAIN_MAX:
            return self._end(PlanTable())
        return [*self._emit_due(), *self._ask()]

    def _emitted(self, event: PageEmitted) -> list[Instruction]:
        left = self._pages.pop(event.number).left
        if left is not None:
            # The range goes on at once: whoever reads a table in order reads ahead for it.
            self._ranges.appendleft(left)
        self._again |= dict.fromkeys(event.again)
        self._forget()
        return self._ask()

    # ---- pages ---------------------------------------------------------------------------------------------

    def _emit_due(self) -> list[Instruction]:
        """Return the steps for the pages that were read, now that the stream is at its boundary."""
        boundary, found = self._boundary, list[Instruction]()
        if boundary is None:
            return found
        for number, page in list(self._pages.items()):
            point = None if page.read is None else page.read.point
            if point is None:
                continue
            if point.server != self._server or not self._log.reaches_back_to(point):
                found.append(self._read_again(number))
            elif not point.high.is_after(LogOffset(boundary.file, boundary.offset)):
                touched = self._log.unseen(point)
                if self._key or not touched:
                    if not isinstance(page.rows, KeyRange):
                        self._keep_unseen(page.rows, page.attempt, touched)
                    found.append(EmitPage(number, touched))
                elif page.attempt + 1 < WHOLE_ATTEMPTS_MAX:
                    found.append(self._read_again(number))
                else:
                    return self._end(EndTable(_NO_KEY))
        return found

    def _keep_unseen(self, keys: tuple[Key, ...], attempt: int, touched: Touched[ImageT]) -> None:
        """Keep the page's keys that rows got after the page's point: the page lacks these rows."""
        unseen = set(map(self._to_key, touched.moved)).intersection(keys)
        self._again |= dict.fromkeys(sorted(unseen))
        self._again_attempt = attempt + 1 if unseen else 0

    def _read_again(self, number: int) -> ReadPage:
        page = self._pages.pop(number)
        return self._read(page.rows, page.attempt + 1)

    def _read(self, rows: KeyRange | tuple[Key, ...], attempt: int = 0) -> ReadPage:
        self._numbers += 1
        self._pages[self._numbers] = _Page(rows, self._proven, attempt)
        return ReadPage(self._numbers, rows, attempt)

    def _ask(self) -> list[Instruction]:
        """Return the pages to read next; the table ends if there is none."""
        found: list[Instruction] = []
        while len(self._pages) < self._pages_max and self._ranges:
            found.append(self._read(self._ranges.popleft()))
        # Read moved rows last, so that a row that moves often is read once.
        if not self._pages and self._again:
            keys = tuple(self._again)[:AGAIN_PAGE_MAX]
            for key in keys:
                del self._again[key]
            found.append(self._read(keys, self._again_attempt))
        if not self._pages:
            return self._end(EndTable(""))
        return found

    def _forget(self) -> None:
        floors = [self._proven, *(page.floor for page in self._pages.values())]
        points = [point for point in floors if point is not None]
        if len(points) == len(floors):
            self._log.forget_seen(points)

    def _end(self, step: PlanTable | EndTable) -> list[Instruction]:
        self._ended = True
        self._pages.clear()
        return [step]
