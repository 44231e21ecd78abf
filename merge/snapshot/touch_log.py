"""Touch log: which rows of a table the last transactions of a stream touched.

The stream is ahead of what can be read, so a page that begins now may lack transactions that the stream
delivered long ago. The log keeps what was touched until a page has proven that it saw it, and no more than a
bound: then the oldest is forgotten, and a page that may not have seen that has to be read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

from canal_group.merge.snapshot.point import Point, Span
from canal_group.merge.snapshot.touched import ImageT, Touched
from canal_group.merge.values.position import Position


class TouchLog(Generic[ImageT]):
    """What transactions after a position touched, oldest first.

    Args:
        start: where the stream begins.
        keys_max: most keys and images that are kept.
    """

    def __init__(self, start: Position, keys_max: int) -> None:
        #: nothing before this position is in the log
        self._start = start
        self._keys_max = keys_max
        self._spans: deque[tuple[Span, Touched[ImageT]]] = deque()
        self._kept = 0

    def add(self, span: Span, touched: Touched[ImageT]) -> None:
        """Add what the transactions that the stream has read last touched."""
        if not touched:
            return
        self._spans.append((span, touched))
        self._kept += len(touched)
        while self._kept > self._keys_max:
            self._forget()

    def begin_at(self, start: Position) -> None:
        """Forget all of it: from now on a page must have seen what is before a position."""
        self._start = start
        self._spans.clear()
        self._kept = 0

    def reaches_back_to(self, point: Point) -> bool:
        """Return whether it has all that a page at a point may not have seen."""
        return point.saw_all_before(self._start)

    def unseen(self, point: Point) -> Touched[ImageT]:
        """Return the rows that transactions touched that a page at a point may not have seen."""
        unseen: Touched[ImageT] = Touched()
        for span, touched in self._spans:
            if not point.saw(span):
                unseen.add(touched)
        return unseen

    def forget_seen(self, points: Sequence[Point]) -> None:
        """Forget what every one of these points saw; no page of an earlier point may come."""
        while self._spans and all(point.saw(self._spans[0][0]) for point in points):
            self._forget()

    def _forget(self) -> None:
        span, touched = self._spans.popleft()
        self._kept -= len(touched)
        gtid_set = self._start.gtid_set
        for source, numbers in span.gtids:
            if numbers.any():
                gtid_set = gtid_set.add(source, numbers)
        self._start = replace(self._start, file=span.end.file, offset=span.end.offset, gtid_set=gtid_set)
