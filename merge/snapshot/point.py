"""Points: between which positions of a binlog the rows of a page were read.

An event is in the binlog before its row can be read: a commit is written, then sent to replicas, and only
then visible. So what is proven visible and what is proven written are two things, and a page lies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.values.gtids.gtid import GtidSet
from canal_group.merge.values.header import Flag, HeaderRun
from canal_group.merge.values.position import Position, file_order


class LogOffset(NamedTuple):
    """An offset in one server's binlog."""

    file: str
    offset: int

    def is_after(self, other: LogOffset) -> bool:
        """Return whether it is after another one of the same binlog; raises as `file_order`."""
        return (*file_order(self.file), self.offset) > (*file_order(other.file), other.offset)


@dataclass(frozen=True, slots=True)
class Span:
    """Whole transactions of a stream, one after the other."""

    #: where the last one ends
    end: LogOffset
    #: source of GTIDs -> numbers, 0 for a transaction without one
    gtids: tuple[tuple[str, NDArray[np.int64]], ...] = ()


def joined(spans: Sequence[Span]) -> Span | None:
    """Merge adjacent spans. Return None for an empty list."""
    if len(spans) < 2:  # noqa: PLR2004
        return spans[0] if spans else None
    return Span(spans[-1].end, tuple(each for span in spans for each in span.gtids))


def span_of(run: HeaderRun) -> Span | None:
    """Return the transactions that end in a run of headers; None: none does."""
    headers = run.headers[run.headers["flags"] & Flag.END != 0]
    if not len(headers):
        return None
    sources, numbers = headers["gtid_source"], headers["gtid_number"]
    gtids = tuple((run.names[index], numbers[sources == index]) for index in np.unique(sources).tolist())
    return Span(LogOffset(run.names[headers["file"][-1]], int(headers["end_offset"][-1])), gtids)


@dataclass(frozen=True, slots=True)
class Point:
    """Where the rows of one page are from; exact if `low` is `high`."""

    #: identity of the server that was read
    server: str
    #: every transaction before it, or in it, was visible
    low: LogOffset | GtidSet
    #: a transaction that ends after this offset was not visible
    high: LogOffset

    def saw(self, span: Span) -> bool:
        """Return whether all transactions of a span were proven visible."""
        if isinstance(self.low, LogOffset):
            return not span.end.is_after(self.low)
        return bool(span.gtids) and all(self.low.holds(*each).all() for each in span.gtids)

    def saw_all_before(self, position: Position) -> bool:
        """Return whether everything before a position of the same server was proven visible."""
        if isinstance(self.low, LogOffset):
            return not LogOffset(position.file, position.offset).is_after(self.low)
        return self.low.contains(position.gtid_set)
