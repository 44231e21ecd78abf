"""Offset ranges: exactly-once delivery to the client that keeps its position itself.

The offset ranges that it completed are a chain: each begins where the one before ended, whatever died in
between. An offset range that was read again must have the same rows in the same order, in every column except
`late`, see ADR 15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from canal_group.merge.values.position import GroupPosition
from chaos.journal import Step, rows_of, steps_of


@dataclass(slots=True)
class OffsetRange:
    """An offset range, and each reading of it."""

    #: JSON texts of its positions
    start: str
    end: str
    readings: list[tuple[Path, Step]] = field(default_factory=list)
    #: when it was completed, microseconds since 1970; 0: it was not
    done_us: int = 0

    def rows(self) -> pa.Table:
        """Return the rows of its last reading."""
        return rows_of(*self.readings[-1])

    def __str__(self) -> str:
        return f"The offset range after row {GroupPosition.from_json(self.start).sequence}"


def ranges_of(folders: Sequence[Path]) -> list[OffsetRange]:
    """Return the rows that a client id has read, in order.

    Args:
        folders: of its processes, in the order of their start; one ran at a time.
    """
    found: list[OffsetRange] = []
    for folder in folders:
        for step in steps_of(folder):
            if step.what == "read":
                # A range that was planned and never read may be planned again, with another end.
                if not found or (found[-1].start, found[-1].end) != (step.start, step.cursor):
                    found.append(OffsetRange(step.start, step.cursor))
                found[-1].readings.append((folder, step))
            elif step.what == "done" and found:
                found[-1].done_us = step.at_us
    return found


def rereads(offset_ranges: Sequence[OffsetRange]) -> int:
    """Return how many times an offset range was read again."""
    return sum(len(offset_range.readings) - 1 for offset_range in offset_ranges)


def done_with(offset_ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    """Return the offset ranges whose rows were taken.

    A process may die after it wrote its position and before its journal. Then the next offset range, which
    begins there, shows that the rows were taken.
    """
    taken = []
    for index, offset_range in enumerate(offset_ranges):
        following = offset_ranges[index + 1] if index + 1 < len(offset_ranges) else None
        if offset_range.done_us == 0 and following is not None and following.start == offset_range.end:
            offset_range.done_us = following.readings[0][1].at_us
        if offset_range.done_us:
            taken.append(offset_range)
    return taken


def not_the_same(
    offset_ranges: Sequence[OffsetRange], placed: Callable[[pa.Table], pa.Table]
) -> Iterator[str]:
    """Yield a description of each range that had other rows, or another order, when it was read again.

    Args:
        offset_ranges: all of them.
        placed: gives rows positions that a failover does not change, see `positions.Positions`.
    """
    for offset_range in offset_ranges:
        first, *others = (
            placed(rows_of(folder, step)).drop_columns(["late"]) for folder, step in offset_range.readings
        )
        for number, other in enumerate(others, 2):
            if not other.equals(first):
                counts = f"{len(other)} and {len(first)} rows"
                yield f"{offset_range}: reading {number} differs from the first ({counts})."


def broken(offset_ranges: Sequence[OffsetRange], *, numbered: bool) -> Iterator[str]:
    """Yield a description of each completed range that does not follow the one before, or miscounts rows.

    Args:
        offset_ranges: those that were completed.
        numbered: whether each number has a row; a page without rows takes a number.
    """
    at: str | None = None
    for offset_range in offset_ranges:
        if at is not None and offset_range.start != at:
            yield f"{offset_range} does not begin where the one before ended."
        at = offset_range.end
        begin, end = (
            GroupPosition.from_json(text).sequence for text in (offset_range.start, offset_range.end)
        )
        rows = offset_range.rows()
        seq = rows["seq"].to_numpy()
        if numbered and (len(rows) != end - begin or (len(rows) and seq[0] != begin)):
            yield f"{offset_range} has {len(rows)} rows and ends after row {end}."
