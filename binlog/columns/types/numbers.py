"""Numbers: integers, BIT, YEAR, DECIMAL, FLOAT and DOUBLE."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from canal_group.binlog.columns.types.column import Column, Extra, Stored, sized
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import TypeRow

_UNSIGNED = {pa.int8(): pa.uint8(), pa.int16(): pa.uint16(), pa.int32(): pa.uint32(), pa.int64(): pa.uint64()}
_MEDIUM_SIZE = 3
_DECIMAL128_DIGITS = 38
_PRECISION_MAX, _SCALE_MAX = 65, 30
_BITS = range(1, 65)


def _integer(row: TypeRow) -> Stored:
    medium = row.size == _MEDIUM_SIZE
    return Stored(
        row.code,
        lambda column: row.name + column.sign,
        lambda column: _UNSIGNED[row.arrow] if column.unsigned else row.arrow,
        (lambda column: ("uint24" if column.unsigned else "int24", 0, 0, ()))
        if medium
        else (lambda _: ("plain", row.size, 0, ())),
        extra=Extra.SIGN,
    )


def _real(row: TypeRow) -> Stored:
    return Stored(
        row.code,
        lambda column: row.name + column.sign,
        lambda _: row.arrow,
        lambda _: ("plain", row.size, 0, ()),
        meta_size=1,
        read=sized,
        possible=lambda column: column.size == row.size,
        extra=Extra.SIGN,
    )


def _decimal(row: TypeRow) -> Stored:
    return Stored(
        row.code,
        lambda column: f"{row.name}({column.precision},{column.decimals}){column.sign}",
        _decimal_arrow,
        lambda column: ("decimal", column.precision, column.decimals, ()),
        meta_size=2,
        read=lambda kind, meta: Column(kind, precision=meta[0], decimals=meta[1]),
        possible=_decimal_possible,
        extra=Extra.SIGN,
    )


def _decimal_arrow(column: Column) -> Any:
    wide = column.precision > _DECIMAL128_DIGITS
    return (pa.decimal256 if wide else pa.decimal128)(column.precision, column.decimals)


def _decimal_possible(column: Column) -> bool:
    scale, precision = column.decimals, column.precision
    return 0 < precision <= _PRECISION_MAX and scale <= min(precision, _SCALE_MAX)


def _bit(row: TypeRow) -> Stored:
    return Stored(
        row.code,
        lambda column: f"{row.name}({column.size})",
        lambda _: row.arrow,
        lambda column: ("bit", column.size, 0, ()),
        meta_size=2,
        read=lambda kind, meta: Column(kind, size=meta[1] * 8 + meta[0]),
        possible=lambda column: column.size in _BITS,
    )


def _year(row: TypeRow) -> Stored:
    return Stored(
        row.code, lambda _: row.name, lambda _: row.arrow, lambda _: ("year", 0, 0, ()), extra=Extra.SIGN
    )


#: storage -> how values of a row of it are stored
STORED = {
    Storage.INTEGER: _integer,
    Storage.REAL: _real,
    Storage.DECIMAL: _decimal,
    Storage.BIT: _bit,
    Storage.YEAR: _year,
}
