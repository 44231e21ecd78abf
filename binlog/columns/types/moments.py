"""Moments: DATE, TIME, DATETIME and TIMESTAMP, in their formats before and since MySQL 5.6.

Old MariaDB stores fractions in the old format too. Their digits are not logged: only a lookup knows them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from binlog.columns.types.column import Column, ColumnType, TypeRow, fractional

_FRACTION_MAX = 6


def _named(sql: str, column: Column) -> str:
    return f"{sql}({column.decimals})" if column.decimals else sql


def _old(kind: ColumnType, sql: str, arrow: Any) -> TypeRow:
    return TypeRow(
        kind,
        lambda column: _named(sql, column),
        lambda _: arrow,
        lambda column: (f"{sql}_hires" if column.decimals else sql, column.decimals, 0, ()),
    )


def _new(kind: ColumnType, sql: str, arrow: Any) -> TypeRow:
    return TypeRow(
        kind,
        lambda column: _named(sql, column),
        lambda _: arrow,
        lambda column: (f"{sql}2", column.decimals, 0, ()),
        meta_size=1,
        read=fractional,
        possible=lambda column: column.decimals <= _FRACTION_MAX,
    )


_TIME, _DATETIME, _TIMESTAMP = pa.duration("us"), pa.timestamp("us"), pa.timestamp("us", tz="UTC")

ROWS = (
    TypeRow(ColumnType.DATE, lambda _: "date", lambda _: pa.date32(), lambda _: ("date", 0, 0, ())),
    _old(ColumnType.TIME, "time", _TIME),
    _old(ColumnType.DATETIME, "datetime", _DATETIME),
    _old(ColumnType.TIMESTAMP, "timestamp", _TIMESTAMP),
    _new(ColumnType.TIME2, "time", _TIME),
    _new(ColumnType.DATETIME2, "datetime", _DATETIME),
    _new(ColumnType.TIMESTAMP2, "timestamp", _TIMESTAMP),
)
#: types whose digits of a fraction are not logged -> their names in information_schema
OLD = {ColumnType.TIME: "time", ColumnType.DATETIME: "datetime", ColumnType.TIMESTAMP: "timestamp"}

#: `DATA_TYPE` in information_schema -> type
NAMES = {
    "date": ColumnType.DATE,
    "time": ColumnType.TIME2,
    "datetime": ColumnType.DATETIME2,
    "timestamp": ColumnType.TIMESTAMP2,
}
