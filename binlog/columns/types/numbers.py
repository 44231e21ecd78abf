"""Numbers: integers, BIT, YEAR, DECIMAL, FLOAT and DOUBLE."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from binlog.columns.types.column import Column, ColumnType, Extra, TypeRow, sized

_DECIMAL128_DIGITS = 38
_PRECISION_MAX, _SCALE_MAX = 65, 30
_BITS = range(1, 65)


def _integer(kind: ColumnType, sql: str, width: int, signed: Any, unsigned: Any) -> TypeRow:
    return TypeRow(
        kind,
        lambda column: sql + column.sign,
        lambda column: unsigned if column.unsigned else signed,
        lambda _: ("plain", width, 0, ()),
        extra=Extra.SIGN,
    )


def _real(kind: ColumnType, sql: str, width: int, arrow: Any) -> TypeRow:
    return TypeRow(
        kind,
        lambda column: sql + column.sign,
        lambda _: arrow,
        lambda _: ("plain", width, 0, ()),
        meta_size=1,
        read=sized,
        possible=lambda column: column.size == width,
        extra=Extra.SIGN,
    )


def _decimal_arrow(column: Column) -> Any:
    wide = column.precision > _DECIMAL128_DIGITS
    return (pa.decimal256 if wide else pa.decimal128)(column.precision, column.decimals)


def _decimal_possible(column: Column) -> bool:
    scale, precision = column.decimals, column.precision
    return 0 < precision <= _PRECISION_MAX and scale <= min(precision, _SCALE_MAX)


ROWS = (
    _integer(ColumnType.TINY, "tinyint", 1, pa.int8(), pa.uint8()),
    _integer(ColumnType.SHORT, "smallint", 2, pa.int16(), pa.uint16()),
    _integer(ColumnType.LONG, "int", 4, pa.int32(), pa.uint32()),
    _integer(ColumnType.LONGLONG, "bigint", 8, pa.int64(), pa.uint64()),
    TypeRow(
        ColumnType.INT24,
        lambda column: "mediumint" + column.sign,
        lambda column: pa.uint32() if column.unsigned else pa.int32(),
        lambda column: ("uint24" if column.unsigned else "int24", 0, 0, ()),
        extra=Extra.SIGN,
    ),
    _real(ColumnType.FLOAT, "float", 4, pa.float32()),
    _real(ColumnType.DOUBLE, "double", 8, pa.float64()),
    TypeRow(
        ColumnType.NEWDECIMAL,
        lambda column: f"decimal({column.precision},{column.decimals}){column.sign}",
        _decimal_arrow,
        lambda column: ("decimal", column.precision, column.decimals, ()),
        meta_size=2,
        read=lambda kind, meta: Column(kind, precision=meta[0], decimals=meta[1]),
        possible=_decimal_possible,
        extra=Extra.SIGN,
    ),
    TypeRow(
        ColumnType.BIT,
        lambda column: f"bit({column.size})",
        lambda _: pa.uint64(),
        lambda column: ("bit", column.size, 0, ()),
        meta_size=2,
        read=lambda kind, meta: Column(kind, size=meta[1] * 8 + meta[0]),
        possible=lambda column: column.size in _BITS,
    ),
    TypeRow(
        ColumnType.YEAR,
        lambda _: "year",
        lambda _: pa.int16(),
        lambda _: ("year", 0, 0, ()),
        extra=Extra.SIGN,
    ),
)

#: `DATA_TYPE` in information_schema -> type
NAMES = {
    "tinyint": ColumnType.TINY,
    "smallint": ColumnType.SHORT,
    "mediumint": ColumnType.INT24,
    "int": ColumnType.LONG,
    "bigint": ColumnType.LONGLONG,
    "float": ColumnType.FLOAT,
    "double": ColumnType.DOUBLE,
    "decimal": ColumnType.NEWDECIMAL,
    "bit": ColumnType.BIT,
    "year": ColumnType.YEAR,
}
