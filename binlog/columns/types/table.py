"""The table of how types are stored, made of the table of column types by the module of each family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from canal_group.binlog.columns.types import documents, moments, numbers, strings
from canal_group.binlog.columns.types.column import Extra, Stored
from canal_group.merge.values.types.table import TABLE, ColumnType, TypeRow

_FAMILIES = numbers.STORED | moments.STORED | strings.STORED | documents.STORED


def _stored(row: TypeRow) -> Iterator[Stored]:
    yield _FAMILIES[row.storage](row)
    if row.old is not None:
        yield moments.old(row)
    if row.packed is not None:
        yield strings.packed(row)


#: type byte -> how its values are stored: the same for all rows that have the byte, but for the name:
#: it is that of the first. NEWDATE and TYPED_ARRAY become other types when a table map is read
TYPES: dict[int, Stored] = {each.type: each for row in reversed(TABLE) for each in _stored(row)}
TYPES[ColumnType.VAR_STRING] = replace(TYPES[ColumnType.STRING], type=ColumnType.VAR_STRING)


def having(extra: Extra) -> frozenset[ColumnType]:
    """Return the types of which the optional part of a table map says this."""
    return frozenset(stored.type for stored in TYPES.values() if stored.extra is extra)
