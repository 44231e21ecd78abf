"""The table of column types, made of those of each family."""

from __future__ import annotations

from binlog.columns.types import documents, moments, numbers, strings
from binlog.columns.types.column import ColumnType, Extra, TypeRow

_FAMILIES = (numbers, moments, strings, documents)

#: type -> what is known of it; NEWDATE and TYPED_ARRAY become other types when a table map is read
TYPES: dict[int, TypeRow] = {row.type: row for family in _FAMILIES for row in family.ROWS}
#: `DATA_TYPE` in information_schema -> type
BY_NAME: dict[str, ColumnType] = {name: kind for family in _FAMILIES for name, kind in family.NAMES.items()}


def having(extra: Extra) -> frozenset[ColumnType]:
    """Return the types of which the optional part of a table map says this."""
    return frozenset(row.type for row in TYPES.values() if row.extra is extra)
