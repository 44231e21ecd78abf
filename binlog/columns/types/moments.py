"""Moments: DATE, TIME, DATETIME and TIMESTAMP, in their formats before and since MySQL 5.6.

Old MariaDB stores fractions in the old format too. Their digits are not logged: only a lookup knows them.
"""

from __future__ import annotations

from canal_group.binlog.columns.types.column import Column, Stored, fractional
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import TABLE, TypeRow

_FRACTION_MAX = 6

#: types whose digits of a fraction are not logged
OLD = frozenset(row.old for row in TABLE if row.old is not None)


def _with_decimals(row: TypeRow, column: Column) -> str:
    return f"{row.name}({column.decimals})" if column.decimals else row.name


def old(row: TypeRow) -> Stored:
    """Return how values of a row's old type are stored."""
    assert row.old is not None, "the row has an old type"
    return Stored(
        row.old,
        lambda column: _with_decimals(row, column),
        lambda _: row.arrow,
        lambda column: (f"{row.name}_hires" if column.decimals else row.name, column.decimals, 0, ()),
    )


def _new(row: TypeRow) -> Stored:
    return Stored(
        row.code,
        lambda column: _with_decimals(row, column),
        lambda _: row.arrow,
        lambda column: (f"{row.name}2", column.decimals, 0, ()),
        meta_size=1,
        read=fractional,
        possible=lambda column: column.decimals <= _FRACTION_MAX,
    )


def _date(row: TypeRow) -> Stored:
    return Stored(row.code, lambda _: row.name, lambda _: row.arrow, lambda _: ("date", 0, 0, ()))


#: storage -> how values of a row of it are stored
STORED = {Storage.DATE: _date, Storage.MOMENT: _new}
