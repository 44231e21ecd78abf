"""Special columns: which of a table map's columns MariaDB fills itself.

MariaDB logs them like the others, and no table map says which they are: a lookup does. Without one,
the last columns with the names and the type of hashes are taken for them: a hash shows which values are
equal, and helps to guess a short one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.types.column import Column, Role
from canal_group.merge.values.chunk import SpecialColumns
from canal_group.merge.values.types.table import ColumnType

_ROW_ENDS = {Role.ROW_END, Role.IMPLICIT_ROW_END}
_IMPLICIT = {Role.IMPLICIT_ROW_START, Role.IMPLICIT_ROW_END}
#: how MariaDB calls the hash of a UNIQUE key
_HASH = re.compile(r"DB_ROW_HASH_\d+")
_MOMENTS = {ColumnType.TIMESTAMP, ColumnType.TIMESTAMP2}


def special_of(columns: Iterable[Column]) -> SpecialColumns | None:
    """Return the special columns of a table; None: all columns are plain."""
    roles = [(each.name, each.role) for each in columns if each.role is not Role.PLAIN]
    if not roles:
        return None
    return SpecialColumns(
        hashes=tuple(name for name, role in roles if role is Role.HASH),
        implicit_period=tuple(name for name, role in roles if role in _IMPLICIT),
        row_end=next((name for name, role in roles if role in _ROW_ENDS), ""),
    )


def named_hashes(columns: Sequence[Column]) -> frozenset[str]:
    """Return the names of a table's columns that are hashes by name and type."""
    last = itertools.takewhile(
        lambda column: column.type is ColumnType.LONGLONG and _HASH.fullmatch(column.name), reversed(columns)
    )
    return frozenset(column.name for column in last)


def may_be_special(table: TableMap) -> bool:
    """Return whether a table of MariaDB, whose columns are named, may have special columns.

    A period is of two columns that are NOT NULL, and its end belongs to the primary key, if there is one. If
    periods are of transaction ids, MariaDB logs statements on the table, and no rows.
    """
    if any(_HASH.fullmatch(column.name) for column in table.columns):
        return True
    moments = {
        column.name
        for index, column in enumerate(table.columns)
        if column.type in _MOMENTS and not table.nullable[index >> 3] >> (index & 7) & 1
    }
    return len(moments) > 1 and (not table.primary_key or not moments.isdisjoint(table.primary_key))
