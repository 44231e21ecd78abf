"""Work: the requests to the threads that read pages, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import Key
from canal_group.merge.snapshot.point import Point
from canal_group.merge.snapshot.steps import PlanTable, ReadPage
from canal_group.merge.snapshot.table_key import TableKey
from canal_group.merge.values.chunk import TableName, TableRows


@dataclass(frozen=True, slots=True)
class TablePlan:
    """How a table is read."""

    #: tells the meaning of the table's keys, see `TableCursor.key`
    signature: str
    key: TableKey
    #: columns whose absence from an image does not say that they were not changed
    computed: frozenset[str]
    #: what is to be read if no cursor of the same key says what is left
    ranges: tuple[KeyRange, ...]


@dataclass(frozen=True, slots=True)
class SelectedPage:
    """A page that was read."""

    point: Point
    #: what chunks say of the table; its batch has a row for each that was read, as an image after
    table: TableRows
    #: last key of the page; None: the page ends its range
    last: Key | None
    #: where a range without end ends, see `PageRead`
    end: Key | None = None


class Work(NamedTuple):
    """Something to do for a table. Its answer has the same name, attempt and version."""

    #: of the table in the source
    name: TableName
    #: how often the table was planned
    attempt: int
    #: how often the table was altered: with a new one its definition has to be read again
    version: int
    step: PlanTable | ReadPage
