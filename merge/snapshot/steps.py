"""What a table's snapshot is told, in the past tense, and what it asks for, in the imperative."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeAlias

from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import Key
from canal_group.merge.snapshot.point import Point, Span
from canal_group.merge.snapshot.touched import ImageT, Touched
from canal_group.merge.values.position import Position


class TableChange(Enum):
    """What a statement did to a table, as far as a snapshot must know."""

    #: its columns, or its rows as a whole: ALTER, TRUNCATE; pages in flight are read again
    ALTERED = auto()
    #: it is another table now: RENAME
    REPLACED = auto()
    #: rows came or went without row events: DROP PARTITION, EXCHANGE PARTITION
    ROWS_MOVED = auto()
    #: no table has this name any more
    DROPPED = auto()


# ---- events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageRead:
    """A page was read."""

    number: int
    point: Point
    #: last key of the page; None: the page ends its range
    last: Key | None
    #: last key of the table at its point, where a range without end ends; None: it has an end, or keeps none
    end: Key | None = None


@dataclass(frozen=True, slots=True)
class PageLost:
    """A page could not be read, and is worth another attempt."""

    number: int


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The stream goes on over another connection, by which the server has what was read before.

    What it had meanwhile is not known: it may have been restored twice.
    """


@dataclass(frozen=True, slots=True)
class KeyChanged:
    """A page could not be read: the table has another key than its cursor."""

    number: int


@dataclass(frozen=True, slots=True)
class StreamRead(Generic[ImageT]):
    """The stream has read on."""

    #: the transactions that ended; None: no transaction ended
    span: Span | None
    #: rows of the table that these transactions, and the part of the next transaction that was read, touched
    touched: Touched[ImageT]
    #: the stream's position between two transactions; None: the stream is inside a transaction
    boundary: Position | None
    #: change of the table by a statement among the transactions
    change: TableChange | None = None


@dataclass(frozen=True, slots=True)
class PageEmitted:
    """A page was put into the stream, after `EmitPage`."""

    number: int
    #: rows that are to be read again
    again: tuple[Key, ...]


Event: TypeAlias = PageRead | PageLost | Reconnected | KeyChanged | StreamRead[Any] | PageEmitted

# ---- instructions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Ask the server for the table's key and ranges, and begin a new snapshot of it: this one has ended."""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Read a page: the next rows of a range, or the rows of some keys."""

    number: int
    rows: KeyRange | tuple[Key, ...]
    #: how often in a row a page of these rows was read in vain: the next one waits longer, and is smaller
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class EmitPage(Generic[ImageT]):
    """Put a page into the stream where it is, as a transaction of its own; then `PageEmitted`."""

    number: int
    touched: Touched[ImageT]


@dataclass(frozen=True, slots=True)
class EndTable:
    """The table was read, or cannot be."""

    #: why not; empty: it was
    failure: str


Instruction: TypeAlias = PlanTable | ReadPage | EmitPage[Any] | EndTable
