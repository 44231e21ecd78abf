"""Spans: exactly once, for the client that keeps its place itself.

What it did is a chain: each span that it was done with begins where the one before ended, whatever died
in between. A span that was read again must have the same rows in the same order, in every column but
`late`, see ADR 15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from chaos.journal import Step, rows_of, steps_of
from merge.values.position import GroupPosition


@dataclass(slots=True)
class Span:
    """A span, and each reading of it."""

    #: JSON texts of its positions
    start: str
    end: str
    readings: list[tuple[Path, Step]] = field(default_factory=list)
    #: when it was done with, microseconds since 1970; 0: it was not
    done_us: int = 0

    def rows(self) -> pa.Table:
        """Return its rows as they were read last."""
        return rows_of(*self.readings[-1])

    def __str__(self) -> str:
        return f"The span behind row {GroupPosition.from_json(self.start).sequence}"


def spans_of(folders: Sequence[Path]) -> list[Span]:
    """Return what a client id has read, in order.

    Args:
        folders: of its processes, in the order of their begin; one ran at a time.
    """
    found: list[Span] = []
    for folder in folders:
        for step in steps_of(folder):
            if step.what == "read":
                # What was planned and never read may be planned anew, with another end.
                if not found or (found[-1].start, found[-1].end) != (step.start, step.cursor):
                    found.append(Span(step.start, step.cursor))
                found[-1].readings.append((folder, step))
            elif step.what == "done" and found:
                found[-1].done_us = step.at_us
    return found


def rereads(spans: Sequence[Span]) -> int:
    """Return how many times a span was read again."""
    return sum(len(span.readings) - 1 for span in spans)


def done_with(spans: Sequence[Span]) -> list[Span]:
    """Return the spans whose rows were taken.

    A process may die between its place and its journal: then the next span, which begins there, says so.
    """
    taken = []
    for index, span in enumerate(spans):
        following = spans[index + 1] if index + 1 < len(spans) else None
        if span.done_us == 0 and following is not None and following.start == span.end:
            span.done_us = following.readings[0][1].at_us
        if span.done_us:
            taken.append(span)
    return taken


def not_the_same(spans: Sequence[Span], placed: Callable[[pa.Table], pa.Table]) -> Iterator[str]:
    """Yield the spans that were other rows, or other ones in another order, when they were read again.

    Args:
        spans: all of them.
        placed: gives rows places that a failover leaves as they are, see `places.Places`.
    """
    for span in spans:
        first, *others = (
            placed(rows_of(folder, step)).drop_columns(["late"]) for folder, step in span.readings
        )
        for number, other in enumerate(others, 2):
            if not other.equals(first):
                yield f"{span}: reading {number} has other rows than the first ({len(other)}, {len(first)})."


def broken(spans: Sequence[Span]) -> Iterator[str]:
    """Yield the places where the spans that were done with do not follow each other, or miscount rows."""
    at: str | None = None
    for span in spans:
        if at is not None and span.start != at:
            yield f"{span} does not begin where the one before ended."
        at = span.end
        begin, end = (GroupPosition.from_json(text).sequence for text in (span.start, span.end))
        rows = span.rows()
        if len(rows) != end - begin or (len(rows) and rows["seq"].to_numpy()[0] != begin):
            yield f"{span} has {len(rows)} rows and ends behind row {end}."
