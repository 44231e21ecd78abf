"""Definitions: a table's columns at one position of a binlog.

A table map says how values are stored. A definition adds what it omits: names, signs, charsets, values
of ENUM and SET, the key, and MariaDB's own types.

The columns of a rows event were observed at MariaDB 10.11 and MySQL 9.7. Both log generated columns, also
virtual ones, and invisible ones. MySQL logs no hidden column of a functional index. MariaDB logs columns that
no statement shows, after all others: the period of a row where the table is system-versioned, then a hash for
each UNIQUE key that is too long for an index (`TableDefinition.logged`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from itertools import count, islice
from typing import Any, NamedTuple

from canal_group.binlog.charsets.charsets import BINARY_COLLATION


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
    #: the time at which a system-versioned row begins to be valid, and at which it ends
    ROW_START = "row start"
    ROW_END = "row end"


class Visibility(StrEnum):
    """Which queries show a column."""

    #: all
    VISIBLE = ""
    #: queries that name the column
    INVISIBLE = "invisible"
    #: queries that name the column, which no statement defines: the period of a system-versioned row
    SYSTEM = "system"
    #: no query: MariaDB's hash of a long UNIQUE key
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """One column of a table."""

    name: str
    #: SQL type in lower case without size, as `information_schema.COLUMNS.DATA_TYPE` has it: int, varchar,
    #: longtext, enum, geometry, uuid ...
    type: str
    unsigned: bool = False
    #: characters of CHAR and VARCHAR, bytes of BINARY and VARBINARY, bits of BIT, elements of a list; else
    #: 0, also for texts and blobs
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
    #: columns that the expression of its value, or of its default, reads, in lower case and in order. While a
    #: statement is read these are all words of the expression that may be names.
    reads: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the column as a JSON object without the fields that have their default."""
        return _without_defaults(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ColumnDefinition:
        """Return the column of an object that `to_json` made.

        Raises:
            ValueError: a field is unknown, missing or has a wrong type.
        """
        plain = _checked(ColumnDefinition, data, {"values", "generated", "visibility", "reads"})
        return ColumnDefinition(
            **plain,
            values=tuple(_texts(data.get("values", ()))),
            generated=Generated(data.get("generated", "")),
            visibility=Visibility(data.get("visibility", "")),
            reads=tuple(_texts(data.get("reads", ()))),
        )


@dataclass(frozen=True, slots=True)
class Key:
    """An index, or the primary key, which is called PRIMARY."""

    name: str
    #: names in the key's order; empty for an expression
    columns: tuple[str, ...]
    unique: bool = False
    #: of a UNIQUE key: how many characters or bytes it covers of each column, 0: all; empty: all of each
    prefixes: tuple[int, ...] = ()
    #: whether MariaDB keeps a hash of its columns in a hidden column
    hashed: bool = False

    @property
    def whole(self) -> bool:
        """Whether it covers all of each of its columns."""
        return not self.prefixes

    def to_json(self) -> dict[str, Any]:
        """Return the key as a JSON object without the fields that have their default."""
        return _without_defaults(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Key:
        """Return the key of an object that `to_json` made.

        Raises:
            ValueError: a field is unknown, missing or has a wrong type.
        """
        plain = _checked(Key, data, {"columns", "prefixes"})
        columns, prefixes = _texts(data.get("columns", ())), _numbers(data.get("prefixes", ()))
        return Key(**plain, columns=tuple(columns), prefixes=prefixes)


PRIMARY = "PRIMARY"
_ROW_START = ColumnDefinition(
    "row_start",
    "timestamp",
    decimals=6,
    nullable=False,
    generated=Generated.ROW_START,
    visibility=Visibility.SYSTEM,
)
_ROW_END = replace(_ROW_START, name="row_end", generated=Generated.ROW_END)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """One table."""

    schema: str
    table: str
    #: the columns that statements define, in order; invisible and virtual columns are included
    columns: tuple[ColumnDefinition, ...]
    #: names of the primary key's columns, in the key's order
    primary_key: tuple[str, ...] = ()
    #: collation number of columns that are added without one
    collation: int = BINARY_COLLATION
    #: the other indexes, in the server's order
    keys: tuple[Key, ...] = ()
    #: whether MariaDB keeps the history of its rows
    versioned: bool = False
    #: MariaDB's engine, in upper case, if its indexes differ from InnoDB's; else empty
    engine: str = ""
    #: MariaDB's period of application time: its name, and the columns of its start and end; empty: none
    period: tuple[str, ...] = ()
    #: how many characters or bytes the primary key covers of each of its columns, see `Key.prefixes`
    primary_prefixes: tuple[int, ...] = ()

    @property
    def name(self) -> SourceName:
        """Its name at the source."""
        return SourceName(self.schema, self.table)

    @property
    def logged(self) -> tuple[ColumnDefinition, ...]:
        """The columns of its table maps, in order: `columns`, and those that MariaDB adds unseen."""
        added: list[ColumnDefinition] = []
        if self.versioned and self._row_end is None:
            added = [_ROW_START, _ROW_END]
        free = (name for name in map("DB_ROW_HASH_{}".format, count(1)) if self.column(name) is None)
        added += [
            ColumnDefinition(name, "bigint", True, visibility=Visibility.HIDDEN)
            for name in islice(free, sum(key.hashed for key in self.keys))
        ]
        return (*self.columns, *added)

    @property
    def row_key(self) -> tuple[str, ...]:
        """Names of the columns that table maps with full metadata name as the primary key.

        They are the primary key, also one that covers prefixes only; without one, the first of `row_keys`.
        """
        if self.primary_key:
            return self._to_row_end(self.primary_key)
        return next((key.columns for key in self.row_keys), ())

    @property
    def row_keys(self) -> tuple[Key, ...]:
        """Keys whose values tell rows apart: the primary key, then UNIQUE keys in the server's order.

        They cover all of each of their columns, which are NOT NULL and not virtual. A key of a
        system-versioned table ends with the end of the row's period.
        """
        filled = {
            column.name.lower()
            for column in self.columns
            if not column.nullable and column.generated is not Generated.VIRTUAL
        }
        keys = [
            key
            for key in self.keys
            if key.unique and key.whole and not key.hashed and filled.issuperset(map(str.lower, key.columns))
        ]
        if self.primary_key and not self.primary_prefixes:
            keys.insert(0, Key(PRIMARY, self.primary_key, unique=True))
        return tuple(replace(key, columns=self._to_row_end(key.columns)) for key in keys)

    def _to_row_end(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of a key with the end of a system-versioned row's period."""
        row_end = self._row_end or _ROW_END.name
        return columns if not self.versioned or row_end in columns else (*columns, row_end)

    @property
    def _row_end(self) -> str | None:
        return next((each.name for each in self.columns if each.generated is Generated.ROW_END), None)

    def column(self, name: str) -> ColumnDefinition | None:
        """Return the column of a name, without regard to case; None: the table lacks the column."""
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)

    def to_json(self) -> dict[str, Any]:
        """Return the table as a JSON object; equal tables have equal text."""
        data = _without_defaults(self)
        data["columns"] = [column.to_json() for column in self.columns]
        if self.keys:
            data["keys"] = [key.to_json() for key in self.keys]
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TableDefinition:
        """Return the table of an object that `to_json` made.

        Raises:
            ValueError: a field is unknown, missing or has a wrong type.
        """
        lists = {"columns", "primary_key", "primary_prefixes", "keys", "period"}
        plain = _checked(TableDefinition, data, lists)
        return TableDefinition(
            **plain,
            columns=tuple(map(ColumnDefinition.from_json, _objects(data.get("columns", ())))),
            primary_key=tuple(_texts(data.get("primary_key", ()))),
            keys=tuple(map(Key.from_json, _objects(data.get("keys", ())))),
            period=tuple(_texts(data.get("period", ()))),
            primary_prefixes=_numbers(data.get("primary_prefixes", ())),
        )


@dataclass(frozen=True, slots=True)
class UnknownTable:
    """A name whose table's definition is unknown; there may be no table of the name, or a view."""

    schema: str
    table: str
    #: what made it unknown, a sentence with the statement's title; empty: the source was not asked yet
    reason: str

    @property
    def name(self) -> SourceName:
        """Its name at the source."""
        return SourceName(self.schema, self.table)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"schema": self.schema, "table": self.table, "reason": self.reason}


def _without_defaults(value: Any) -> dict[str, Any]:
    return {
        field.name: content
        for field in fields(value)
        if (content := getattr(value, field.name)) != field.default
    }


def _checked(kind: type, data: Any, others: set[str]) -> dict[str, Any]:
    """Return the fields that are plain values, each of its type; `others` are the caller's to read."""
    if not isinstance(data, Mapping):
        raise ValueError(f"A {type(data).__name__} is not an object.")  # noqa: TRY004 - one error for all bad input
    by_name = {field.name: field for field in fields(kind)}
    missing = {name for name, field in by_name.items() if field.default is MISSING} - set(data)
    if missing or set(data) - set(by_name):
        raise ValueError(f"Fields {sorted(missing)} are missing, {sorted(set(data) - set(by_name))} unknown.")
    plain = {name: value for name, value in data.items() if name not in others}
    for name, value in plain.items():
        if type(value).__name__ != by_name[name].type:
            raise ValueError(
                f"Field {name} is a {type(value).__name__}, which is not a {by_name[name].type}."
            )
    return plain


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise ValueError("A list of texts is not one.")
    return list(values)


def _numbers(values: Any) -> tuple[int, ...]:
    numbers = tuple(_objects(values))
    if not all(type(number) is int for number in numbers):
        raise ValueError("A list of numbers is not one.")
    return numbers


def _objects(values: Any) -> list[Any]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"A {type(values).__name__} is not a list.")  # noqa: TRY004 - one error for all bad input
    return list(values)
