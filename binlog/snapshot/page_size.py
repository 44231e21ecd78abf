"""Page sizes: how many rows the next page of a range has, so that it takes a short time and little memory."""

from __future__ import annotations

from typing import Final

from canal_group.binlog.snapshot.page import PAGE_BYTES

#: what a page takes, seconds: a transaction of the source that is no longer than this
LEAST_S, MOST_S = 0.05, 0.2
_TARGET_S: Final = 0.1
FIRST_ROWS: Final = 500
#: no page is made smaller because it took long: what a page costs beside its rows, and what a busy machine
#: adds, would count for them
ROWS_MIN: Final = 2_000
#: by how much it may change from one page to the next
_FACTOR: Final = 2.0
#: pages of which the fastest says how long a page takes: the others waited for a processor as well
_LAST: Final = 8


class PageSize:
    """The rows of the next page of a range.

    Args:
        rows_max: most rows.
        rows: of the first one.
    """

    def __init__(self, rows_max: int, rows: int = FIRST_ROWS) -> None:
        self._rows_max, self._rows = rows_max, min(rows, rows_max)
        #: seconds a row of the last pages; replaced as a whole
        self._row_s: tuple[float, ...] = ()

    def rows(self, attempt: int = 0) -> int:
        """Return how many rows to read.

        Args:
            attempt: how often the page was read in vain: each time half of it is left.
        """
        return max(self._rows >> min(attempt, 16), 1)

    def was_read(self, rows: int, size: int, took_s: float) -> None:
        """Note a page.

        Args:
            rows: of it.
            size: their bytes.
            took_s: how long they were selected.
        """
        if not rows:
            return
        self._row_s = (*self._row_s, took_s / rows)[-_LAST:]
        factor, fastest_s = 1.0, rows * min(self._row_s)
        if not LEAST_S <= fastest_s <= MOST_S:
            factor = min(max(_TARGET_S / max(fastest_s, 1e-6), 1 / _FACTOR), _FACTOR)
        # A page that ended before its limit says little about a larger one.
        grown = int(min(rows, self._rows) * factor) if factor < 1 or rows >= self._rows else self._rows
        grown = max(grown, min(self._rows, ROWS_MIN))
        self._rows = max(min(grown, PAGE_BYTES * rows // max(size, 1), self._rows_max), 1)
