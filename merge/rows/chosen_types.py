"""Chosen types: the types that an operator gave to columns that shards define in ways that no type can join.

A type is written as in MySQL: `text`, `blob`, `bigint`, `bigint unsigned`, `double`, `decimal(20,4)`, `date`,
`datetime` or `timestamp`. `text` takes every value, as `canal_group.merge.rows.text` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from canal_group.merge.errors import UsageError
from canal_group.merge.values.chunk import TableName

#: columns with a chosen type, of one destination
COLUMNS_MAX = 1_000
_TYPES = {
    "text": pa.utf8(),
    "blob": pa.binary(),
    "bigint": pa.int64(),
    "bigint unsigned": pa.uint64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d{1,3})(?:,(\d{1,3}))?\)")
_DIGITS_128, _DIGITS_256 = 38, 76


@dataclass(frozen=True, slots=True)
class TypeOverrides:
    """The chosen types of a destination's columns."""

    #: table -> name of a column in lower case -> type, as it was written
    tables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of(self, table: TableName) -> dict[str, Any]:
        """Return the Arrow types of a table's columns, by name in lower case."""
        return {
            column: parse_type(type_name) for column, type_name in self.tables.get(str(table), {}).items()
        }

    def changed(self, table: TableName, column: str, type_name: str | None) -> TypeOverrides:
        """Return these with another type of a column; None removes it.

        Raises:
            UsageError: the type is unknown, there are too many columns, or the column had no chosen type.
        """
        tables = {name: dict(columns) for name, columns in self.tables.items()}
        columns, name = tables.setdefault(str(table), {}), column.lower()
        if type_name is None:
            if columns.pop(name, None) is None:
                raise UsageError(f"No type was chosen for column {column} of {table}.")
        else:
            parse_type(type_name)
            columns[name] = _plain(type_name)
        if sum(map(len, tables.values())) > COLUMNS_MAX:
            raise UsageError(f"{COLUMNS_MAX:,} columns have a chosen type already, which is the most.")
        return TypeOverrides({name: columns for name, columns in tables.items() if columns})

    def to_json(self) -> str:
        """Return the stable text that `from_json` reads."""
        return json.dumps({"version": 1, "types": self.tables}, ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | None) -> TypeOverrides:
        """Read `to_json`'s text; None: no types.

        Raises:
            ValueError: it is not such a text.
        """
        if text is None:
            return cls()
        value = json.loads(text)
        if not isinstance(value, dict) or value.get("version") != 1:
            raise ValueError("chosen types of an unknown version")
        tables = {str(name): {str(k): str(v) for k, v in one.items()} for name, one in value["types"].items()}
        for columns in tables.values():
            for type_name in columns.values():
                try:
                    parse_type(type_name)
                except UsageError as error:
                    raise ValueError(str(error)) from None
        return cls(tables)


def parse_type(type_name: str) -> Any:
    """Return the Arrow type that a text names.

    Raises:
        UsageError: it names none.
    """
    plain = _plain(type_name)
    if plain in _TYPES:
        return _TYPES[plain]
    decimal = _DECIMAL.fullmatch(plain)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2] or 0)
        if scale <= precision and 1 <= precision <= _DIGITS_256:
            return (pa.decimal128 if precision <= _DIGITS_128 else pa.decimal256)(precision, scale)
    raise UsageError(
        f"{type_name!r} is not a type that can be chosen.", hint=f"Known: {', '.join(_TYPES)}, decimal(20,4)."
    )


def _plain(type_name: str) -> str:
    return re.sub(r"\s*([(),])\s*", r"\1", " ".join(type_name.lower().split()))
