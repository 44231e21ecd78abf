"""Table pages: the rows of one table, page by page, each with its point."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from canal_group.binlog.snapshot.page import PAGE_BYTES, Page, PageQuery
from canal_group.binlog.snapshot.page_reader import PageReader
from canal_group.binlog.snapshot.page_size import PageSize
from canal_group.binlog.snapshot.point_reader import PointReader
from canal_group.binlog.snapshot.ranges import Index
from canal_group.binlog.snapshot.row_order import RowOrder
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import Key
from canal_group.merge.snapshot.point import Point

#: most bytes of a page of several rows: one with more is read again, with fewer rows
SELECT_BYTES_MAX: Final = 4 * PAGE_BYTES
#: most bytes of what cannot be cut: a table without a key, the rows of some keys
WHOLE_BYTES_MAX: Final = 256 << 20


class PageTooLarge(Exception):  # noqa: N818  it is no error that rows are larger than those before
    """The rows of a page have too many bytes; fewer of them are read the next time, if they can be cut.

    Args:
        rows: that were read.
        size: their bytes.
        whole: whether they cannot be cut.
    """

    def __init__(self, rows: int, size: int, *, whole: bool) -> None:
        super().__init__(f"{size} bytes in {rows} rows")
        self.rows, self.size, self.whole = rows, size, whole


@dataclass(frozen=True, slots=True)
class Selected:
    """Rows of one SELECT."""

    #: (n,) RecordBatch of the table's columns, as the images of its binlog have them
    rows: Any
    #: of the last row; None: there is no row, or no order
    last: Key | None
    #: of the rows, as they were sent
    bytes: int


class Select(Protocol):
    """Selects rows of a table on the connection whose transactions say their points.

    It raises SourceUnavailable and SourceUnfit.
    """

    def __call__(self, *, where: str, order: RowOrder | None, limit: int | None) -> Selected:
        """Return rows in an order, by its index: all of a condition, or the first ones."""
        ...


class PageSelect:
    """Selects rows of a table by a page reader; see `Select`.

    Args:
        reader: of the connection.
        table: the table.
    """

    def __init__(self, reader: PageReader, table: SelectedTable) -> None:
        self._reader, self._table = reader, table

    def __call__(self, *, where: str, order: RowOrder | None, limit: int | None) -> Selected:
        """Return rows; raises TableAltered as well, as `PageReader.pages`, and PageTooLarge."""
        names, hint = ((), "") if order is None else (order.names, order.hint)
        whole = limit is None
        size_max = WHOLE_BYTES_MAX if whole else SELECT_BYTES_MAX
        pages, size = list[Page](), 0
        with closing(self._reader.pages(PageQuery(self._table, where, names, limit, hint))) as read:
            for page in read:
                pages.append(page)
                size += page.bytes
                if size > size_max and limit != 1:
                    raise PageTooLarge(sum(each.rows.rows.num_rows for each in pages), size, whole=whole)
        if not pages:
            return Selected(self._columns([]), None, 0)
        last = pages[-1].last_key or None
        return Selected(self._columns(pages), last, size)

    def _columns(self, pages: list[Page]) -> Any:
        """Return the rows of one SELECT's pages, as columns."""
        kind = self._table.schema.arrow.field("after").type
        after = [pa.RecordBatch.from_struct_array(page.rows.rows.column("after")) for page in pages]
        if len(after) == 1:
            return after[0]
        # A dictionary stays as it is, for the numbers of an ENUM.
        table = pa.Table.from_batches(after, pa.schema(list(kind))).combine_chunks()
        return table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], pa.schema(list(kind)))


@dataclass(frozen=True, slots=True)
class TablePage:
    """Rows that were read in one transaction, and the transaction's point in the binlog."""

    point: Point
    selected: Selected
    #: last key of the page; None: the page ends its range
    last: Key | None
    #: the table's last key, if rows follow in a range without end
    end: Key | None


class TablePages:
    """Reads the pages of one table on one connection.

    Args:
        select: selects its rows.
        points: of the same connection.
        order: of the table; None: it is read in one piece.
        size: of its pages; all connections that read the table may share it.
        clock_s: a clock that never steps back.
        condition: which rows, SQL; empty: all.
        index: its index, by which a range without end gets one; None: it has none.
    """

    def __init__(
        self,
        select: Select,
        points: PointReader,
        order: RowOrder | None,
        size: PageSize,
        clock_s: Callable[[], float] = time.monotonic,
        condition: str = "",
        index: Index | None = None,
    ) -> None:
        self._select, self._points, self._order = select, points, order
        self._condition, self._index = condition, index
        self._size, self._clock_s = size, clock_s

    def read(self, rows: KeyRange | Sequence[Key], attempt: int = 0) -> TablePage:
        """Read the next page of a range, or the rows of some keys, in a transaction of its own.

        Args:
            rows: which.
            attempt: how often that was done in vain.

        Raises:
            PageTooLarge: it has too many bytes; the connection is closed.
            SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
        """
        order, limit, end = self._order, None, None
        if order is None:
            where = ""
        elif isinstance(rows, KeyRange):
            where, limit = order.within(rows), self._size.rows(attempt)
        else:
            where = order.among(rows)
        if self._condition:
            where = f"({where}) AND ({self._condition})" if where else f"({self._condition})"
        with self._points.page() as page:
            # What a transaction costs beside its rows would make pages small, and no faster.
            began_s = self._clock_s()
            try:
                selected = self._select(where=where, order=order, limit=limit)
            except PageTooLarge as large:
                if not large.whole:
                    self._size.was_read(large.rows, large.size, self._clock_s() - began_s)
                raise
            took_s = self._clock_s() - began_s
            goes_on = limit is not None and len(selected.rows) == limit
            if goes_on and self._index is not None and isinstance(rows, KeyRange) and rows.until is None:
                # What is inserted after it from here on comes by the stream.
                end = self._index.first("", last=True)
        assert page.point is not None, "a transaction that has ended has its point"
        count = len(selected.rows)
        if limit is not None:
            self._size.was_read(count, selected.bytes, took_s)
        return TablePage(page.point, selected, selected.last if goes_on else None, end)
