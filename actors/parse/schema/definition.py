"""Definitions: what a table's columns are at one point of a binlog.

A table map says how values are stored. A definition says what it leaves out: names, signs, charsets, values
of ENUM and SET, the primary key, and MariaDB's own types.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from actors.parse.columns.charsets import BINARY_COLLATION


class SourceName(NamedTuple):
    """A table's name at its source."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class Generated(StrEnum):
    """How a column's values come about."""

    #: they are written
    NO = ""
    #: computed and stored with the row
    STORED = "stored"
    #: computed when the row is read
    VIRTUAL = "virtual"
    #: a system-versioned row's begin and end
    ROW_START = "row start"
    ROW_END = "row end"


class Visibility(StrEnum):
    """Which queries show a column."""

    #: all
    VISIBLE = ""
    #: those that name it
    INVISIBLE = "invisible"
    #: those that name it; the server adds it without a definition: begin and end of a system-versioned row
    SYSTEM = "system"
    #: none: the server adds it for itself
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """One column of a table."""

    name: str
    #: SQL type in lower case without size, as `information_schema.COLUMNS.DATA_TYPE` has it: int, varchar,
    #: longtext, enum, geometry, uuid ...
    type: str
    unsigned: bool = False
    #: characters of CHAR, VARCHAR and texts, bytes of binary types, bits of BIT, dimensions of VECTOR; else 0
    length: int = 0
    #: digits of a DECIMAL, and those after the point; else 0
    precision: int = 0
    scale: int = 0
    #: digits of a fraction of a second: TIME, DATETIME, TIMESTAMP; else 0
    decimals: int = 0
    #: collation number of texts, ENUM and SET; 63 (binary) of all other types
    collation: int = BINARY_COLLATION
    #: ENUM's or SET's values in their order
    values: tuple[str, ...] = ()
    nullable: bool = True
    generated: Generated = Generated.NO
    visibility: Visibility = Visibility.VISIBLE

    def to_json(self) -> dict[str, Any]:
        """Return the column as a JSON object that leaves out what is a field's default."""
        raise NotImplementedError

    @staticmethod
    def from_json(data: dict[str, Any]) -> ColumnDefinition:
        """Return the column of an object that `to_json` made.

        Raises:
            ValueError: a field is unknown, missing or has a wrong type.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """One table."""

    schema: str
    table: str
    #: in order, with invisible, virtual and hidden ones
    columns: tuple[ColumnDefinition, ...]
    #: names of the primary key's columns, in the key's order
    primary_key: tuple[str, ...] = ()
    #: collation number of columns that are added without one; 0 if not known
    collation: int = 0

    @property
    def name(self) -> SourceName:
        """Its name at the source."""
        return SourceName(self.schema, self.table)

    @property
    def logged(self) -> tuple[ColumnDefinition, ...]:
        """The columns of its table maps, in order."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the table as a JSON object with stable text."""
        raise NotImplementedError

    @staticmethod
    def from_json(data: dict[str, Any]) -> TableDefinition:
        """Return the table of an object that `to_json` made.

        Raises:
            ValueError: a field is unknown, missing or has a wrong type.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class UnknownTable:
    """A table that exists, but whose definition is not known."""

    schema: str
    table: str
    #: what made it unknown, a sentence with the statement's beginning
    reason: str


_COLUMN_FIELDS = {field.name: field for field in fields(ColumnDefinition)}
