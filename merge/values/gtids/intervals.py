"""Intervals: runs of whole numbers, as MySQL's GTID sets keep them per source.

Canonical intervals are half-open (begin inclusive, end exclusive), sorted, and neither overlap nor touch.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

#: half-open: begin inclusive, end exclusive
Interval: TypeAlias = tuple[int, int]


def joined(known: tuple[Interval, ...], added: NDArray[np.int64]) -> tuple[Interval, ...]:
    """Return the canonical intervals of `known` and of `added`, (n, 2) half-open, in any order."""
    runs = np.concatenate((np.array(known, dtype=np.int64).reshape(-1, 2), added))
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    reach = np.maximum.accumulate(runs[:, 1])
    first = np.flatnonzero(np.concatenate(([True], runs[1:, 0] > reach[:-1])))
    last = np.append(first[1:], len(runs)) - 1
    return tuple(zip(runs[first, 0].tolist(), reach[last].tolist(), strict=True))


def with_numbers(known: tuple[Interval, ...], numbers: NDArray[np.int64]) -> tuple[Interval, ...]:
    """Return the canonical intervals of `known` and of positive numbers, (n,) in any order, n > 0."""
    first, last = int(numbers[0]), int(numbers[-1])
    if known and first == known[-1][1] and (np.diff(numbers) == 1).all():
        # A source's next transactions, nearly always: the other way costs several times as much.
        return (*known[:-1], (known[-1][0], last + 1))
    values = np.unique(numbers)
    return joined(known, np.column_stack((values, values + 1)))


def common(one: tuple[Interval, ...], other: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Return the canonical intervals of the numbers that are in both."""
    found: list[Interval] = []
    mine, theirs = iter(one), iter(other)
    left, right = next(mine, None), next(theirs, None)
    while left is not None and right is not None:
        begin, end = max(left[0], right[0]), min(left[1], right[1])
        if begin < end:
            found.append((begin, end))
        if left[1] <= right[1]:
            left = next(mine, None)
        else:
            right = next(theirs, None)
    return tuple(found)


def covers(intervals: tuple[Interval, ...], wanted: Interval) -> bool:
    """Return whether every number of `wanted` is in canonical intervals."""
    index = bisect_right(intervals, wanted[0], key=itemgetter(0)) - 1
    return index >= 0 and wanted[1] <= intervals[index][1]


def among(intervals: tuple[Interval, ...], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which numbers, (n,) int64, are in canonical intervals of positive numbers, (n,)."""
    runs = np.array(intervals, dtype=np.int64).reshape(-1, 2)
    index = np.searchsorted(runs[:, 0], numbers, side="right") - 1
    ends = np.append(runs[:, 1], 0)  # index -1, before every interval, meets this 0
    held: NDArray[np.bool_] = numbers < ends[index]
    return held


def interval_text(interval: Interval) -> str:
    """Return an interval as MySQL prints it: its first and last number, or the only one."""
    begin, last = interval[0], interval[1] - 1
    return str(begin) if begin == last else f"{begin}-{last}"
