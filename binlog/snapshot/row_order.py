"""Row orders: the index by which a table is read in ranges, and the conditions that read only these.

A condition of several columns is spelled out: `(a, b) > (1, 2)` would read the index from its beginning. Each
value in it came from the server or from a caller's position, and is checked to be a literal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from canal_group.binlog.schema.definition import ColumnDefinition, TableDefinition
from canal_group.binlog.schema.sql import quoted
from canal_group.merge.snapshot.cursor import KeyRange
from canal_group.merge.snapshot.key import Key, checked
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import BY_NAME

#: most values of an ENUM in a key: each is named in the conditions
ENUM_VALUES_MAX: Final = 256
#: how values are stored of which no condition can say where they are in the server's order
_UNORDERED: Final = {Storage.SET, Storage.BLOB, Storage.JSON, Storage.LIST, Storage.BYTES}
#: digits of the number of a value of an ENUM
_DIGITS_MAX: Final = 5
#: fields of a column's definition that do not change what a key means
_MEANINGLESS: Final = ("nullable", "generated", "visibility", "reads")


@dataclass(frozen=True, slots=True)
class RowOrder:
    """A key of a table that tells its rows apart, see `TableDefinition.row_keys`."""

    index: str
    #: in the key's order
    columns: tuple[ColumnDefinition, ...]

    @classmethod
    def all_of(cls, definition: TableDefinition) -> tuple[RowOrder, ...]:
        """Return the orders of a table, the best one first; without any it is read in one piece."""
        by_name = {column.name.lower(): column for column in definition.logged}
        orders = (
            cls(key.name, tuple(by_name[name.lower()] for name in key.columns)) for key in definition.row_keys
        )
        return tuple(order for order in orders if all(map(_is_ordered, order.columns)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its columns."""
        return tuple(column.name for column in self.columns)

    @property
    def signature(self) -> str:
        """A text of the key columns' definitions: with another text, equal keys may mean other rows."""
        columns: list[dict[str, Any]] = [column.to_json() for column in self.columns]
        for column in columns:
            for name in _MEANINGLESS:
                column.pop(name, None)
        return json.dumps(columns, sort_keys=True)

    @property
    def hint(self) -> str:
        """What follows the table's name: the index, whatever its statistics say."""
        return f"FORCE INDEX ({quoted(self.index)})"

    def takes(self, rows: KeyRange | Iterable[Key]) -> bool:
        """Return whether each key has a literal of the type of each column: a caller's position may not."""
        keys = (rows.after, rows.until) if isinstance(rows, KeyRange) else rows
        return all(
            len(key) == len(self.columns) and all(map(_takes, self.columns, key))
            for key in keys
            if key is not None
        )

    def within(self, rows: KeyRange) -> str:
        """Return the condition of a range; empty: all rows."""
        found = [] if rows.after is None else [self.after(rows.after)]
        found += [] if rows.until is None else [self._until(rows.until)]
        return " AND ".join(found)

    def after(self, key: Key) -> str:
        """Return the condition of the rows after a key."""
        return self._beyond(key, _greater, _not_less, last=_greater)

    def _until(self, key: Key) -> str:
        return self._beyond(key, _less, _not_greater, last=_not_greater)

    def _beyond(self, key: Key, strict: Any, weak: Any, *, last: Any) -> str:
        pairs = list(zip(self.columns, key, strict=True))
        condition = last(*pairs[-1])
        for column, value in reversed(pairs[:-1]):
            condition = f"({strict(column, value)} OR ({_equal(column, value)} AND {condition}))"
        # The first column alone bounds the range for every optimizer.
        return condition if len(pairs) == 1 else f"({weak(*pairs[0])} AND {condition})"

    def among(self, keys: Iterable[Key]) -> str:
        """Return the condition of the rows of some keys."""
        rows = (
            " AND ".join(_equal(column, value) for column, value in zip(self.columns, key, strict=True))
            for key in keys
        )
        return " OR ".join(f"({row})" for row in rows)

    def not_less(self, column: ColumnDefinition, value: str) -> str:
        """Return the condition of a column's values from one on."""
        return _not_less(column, value)

    def prefix(self, values: Key) -> str:
        """Return the condition of the rows that have these values in the first columns; empty: all."""
        return " AND ".join(
            _equal(column, value) for column, value in zip(self.columns, values, strict=False)
        )


def _is_ordered(column: ColumnDefinition) -> bool:
    """Return whether conditions can say where a value of a column is in the server's order."""
    return BY_NAME[column.type].storage not in _UNORDERED and len(column.values) <= ENUM_VALUES_MAX


def _takes(column: ColumnDefinition, value: str) -> bool:
    """Return whether a literal may be a value of a column: of an ENUM, the number of one of its texts."""
    storage = BY_NAME[column.type].storage
    if storage in (Storage.DATE, Storage.MOMENT):
        return value[:1] == "'"
    if storage in (Storage.CHAR, Storage.VARCHAR):
        return value[-1:] == "'" and value[:1] != "'"
    return value.isdigit() and len(value) <= _DIGITS_MAX if column.values else value[-1:] != "'"


def _numbers(column: ColumnDefinition, first: int, end: int) -> str:
    """Return the condition of values of an ENUM by their numbers, which order it; `>` compares texts."""
    numbers = ", ".join(map(str, range(max(first, 0), min(end, len(column.values) + 1))))
    return f"{quoted(column.name)} IN ({numbers})" if numbers else "FALSE"


def _greater(column: ColumnDefinition, value: str) -> str:
    if column.values:
        return _numbers(column, int(value) + 1, len(column.values) + 1)
    return f"{quoted(column.name)} > {checked(value)}"


def _not_less(column: ColumnDefinition, value: str) -> str:
    if column.values:
        return _numbers(column, int(value), len(column.values) + 1)
    return f"{quoted(column.name)} >= {checked(value)}"


def _less(column: ColumnDefinition, value: str) -> str:
    if column.values:
        return _numbers(column, 0, int(value))
    return f"{quoted(column.name)} < {checked(value)}"


def _not_greater(column: ColumnDefinition, value: str) -> str:
    if column.values:
        return _numbers(column, 0, int(value) + 1)
    return f"{quoted(column.name)} <= {checked(value)}"


def _equal(column: ColumnDefinition, value: str) -> str:
    return f"{quoted(column.name)} = {checked(value)}"
