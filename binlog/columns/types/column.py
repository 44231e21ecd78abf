"""Columns: a column as the rows of one table map hold it, and how values of a type are stored.

Layout of the first part of a table map: `Table_map_event` in MySQL's rows_event.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from canal_group.binlog.charsets.charsets import BINARY_COLLATION
from canal_group.binlog.native.shapes import ColumnPlan
from canal_group.merge.values.types.table import ColumnType


class Role(StrEnum):
    """The role of a column; MariaDB itself fills every column whose role is not PLAIN."""

    #: it is a column like any other, also the start of a row's period
    PLAIN = "plain"
    #: says when a row of a system-versioned table ended
    ROW_END = "row end"
    #: a period that no statement defines; queries see these columns only by name
    IMPLICIT_ROW_START = "implicit row start"
    IMPLICIT_ROW_END = "implicit row end"
    #: of a UNIQUE key that is too long for an index; no query shows it
    HASH = "hash"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the rows of one table map hold it."""

    type: ColumnType
    #: most bytes of a value (CHAR, BINARY, VARCHAR, VARBINARY), bytes of the length (BLOB and the like), or
    #: bytes of the value (ENUM, SET)
    size: int = 0
    precision: int = 0
    #: digits after the point: DECIMAL's scale, or the fraction of a second
    decimals: int = 0
    name: str = ""
    unsigned: bool = False
    #: collation number; 63 is binary
    collation: int = BINARY_COLLATION
    #: ENUM's or SET's values in the order of their definition
    values: tuple[str, ...] = ()
    geometry: str = ""
    #: the name of its type if a lookup has it, and table maps call it BINARY; empty for other columns
    address: str = ""
    #: as a lookup has it; table maps do not
    role: Role = Role.PLAIN

    @property
    def binary(self) -> bool:
        """Whether it has no charset."""
        return self.collation == BINARY_COLLATION

    @property
    def sign(self) -> str:
        """The end of its type's SQL name."""
        return " unsigned" if self.unsigned else ""


class Extra(Enum):
    """What the optional part of a table map says about a type, in an entry for each column of such a type."""

    NOTHING = "nothing"
    SIGN = "sign"
    CHARSET = "charset"
    #: values, and their charset
    VALUES = "values"
    GEOMETRY = "geometry"


def _any(_column: Column) -> bool:
    return True


def _bare(kind: ColumnType, _meta: bytes) -> Column:
    return Column(kind)


def sized(kind: ColumnType, meta: bytes) -> Column:
    """Return a column whose metadata is a size, little-endian."""
    return Column(kind, size=int.from_bytes(meta, "little"))


def fractional(kind: ColumnType, meta: bytes) -> Column:
    """Return a column whose metadata is the digits of a fraction of a second."""
    return Column(kind, decimals=meta[0])


@dataclass(frozen=True, slots=True)
class Stored:
    """How values of one type byte are stored, and what they become.

    The module of its family makes it, of the rows in `canal_group.merge.values.types.table` that have this
    byte.
    """

    type: ColumnType
    #: returns the SQL type, as the field's metadata shows it
    sql: Callable[[Column], str]
    #: returns the Arrow type of its values
    arrow: Callable[[Column], Any]
    #: returns how its values are stored, see `ColumnPlan`
    plan: Callable[[Column], ColumnPlan]
    #: bytes of metadata in a table map
    meta_size: int = 0
    #: returns the column that a table map's metadata describes
    read: Callable[[ColumnType, bytes], Column] = _bare
    #: returns whether a column of this size is possible; the decoders of rows rely on that
    possible: Callable[[Column], bool] = _any
    extra: Extra = Extra.NOTHING
