"""Columns: from a table map's columns to typed Arrow fields, and from stored values to Arrow arrays.

`field_of` says what a column becomes; it holds for every decoder of row images. `array_of` turns the values
that
`rows` reads into an array of that type. What a stored value is, per column type:

    integers, ENUM (index), SET (bits), BIT, YEAR (years since 1900, 0 is the year 0000)       int
    FLOAT, DOUBLE                                                                              float
    DECIMAL                                                                                    Decimal
    CHAR, VARCHAR, TEXT, BINARY, BLOB, JSON, GEOMETRY, VECTOR                                  bytes
    DATE, and the temporal types from before MySQL 5.6                                         int as stored
    TIME, DATETIME, TIMESTAMP since 5.6            int: the stored bytes, big-endian, with their fraction

Lossless where Arrow allows it. Two kinds of values have no place in their type and are counted instead of
raised: zero dates (any with a zero or impossible part) become null; text that is invalid in its own charset
keeps its valid parts and gets U+FFFD for the rest.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from actors.parse.charsets import BINARY_COLLATION, charset_of, text_decoder
from actors.parse.json_binary import json_text
from actors.parse.table_map import Column, ColumnType, TableMap
from merge.chunk import MYSQL_TYPE, TableName, rows_schema

Values: TypeAlias = Sequence[Any]

_DECIMAL128_DIGITS = 38
_INTEGERS: dict[ColumnType, tuple[str, Any, Any]] = {
    ColumnType.TINY: ("tinyint", pa.int8(), pa.uint8()),
    ColumnType.SHORT: ("smallint", pa.int16(), pa.uint16()),
    ColumnType.INT24: ("mediumint", pa.int32(), pa.uint32()),
    ColumnType.LONG: ("int", pa.int32(), pa.uint32()),
    ColumnType.LONGLONG: ("bigint", pa.int64(), pa.uint64()),
}
_TEXT_NAMES = {1: "tinytext", 2: "text", 3: "mediumtext", 4: "longtext"}
_BLOB_NAMES = {1: "tinyblob", 2: "blob", 3: "mediumblob", 4: "longblob"}
_TEMPORAL: dict[ColumnType, tuple[str, Any]] = {
    ColumnType.DATE: ("date", pa.date32()),
    ColumnType.TIME: ("time", pa.duration("us")),
    ColumnType.TIME2: ("time", pa.duration("us")),
    ColumnType.DATETIME: ("datetime", pa.timestamp("us")),
    ColumnType.DATETIME2: ("datetime", pa.timestamp("us")),
    ColumnType.TIMESTAMP: ("timestamp", pa.timestamp("us", tz="UTC")),
    ColumnType.TIMESTAMP2: ("timestamp", pa.timestamp("us", tz="UTC")),
}
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_SECOND_US = 1_000_000


@dataclass(slots=True)
class Losses:
    """Values that had no place in their type, counted."""

    #: dates and times with a zero or impossible part, now null
    zero_dates: int = 0
    #: strings with bytes that their charset does not have
    invalid_text: int = 0


def fields_of(table: TableMap) -> list[Any]:
    """Return a table's Arrow fields, in order.

    Raises:
        UnsupportedEvent: a column's charset cannot be decoded.
    """
    return [field_of(column) for column in table.columns]


def field_of(column: Column) -> Any:
    """Return a column's Arrow field: nullable, with the source's type in its metadata.

    Raises:
        UnsupportedEvent: the column's charset cannot be decoded.
    """
    name, arrow = _types(column)
    return pa.field(column.name, arrow, metadata={MYSQL_TYPE: name.encode()})


def _types(column: Column) -> tuple[str, Any]:  # noqa: C901, PLR0911, PLR0912 - one branch a type
    sign = " unsigned" if column.unsigned else ""
    kind = column.type
    if kind in _INTEGERS:
        name, signed, unsigned = _INTEGERS[kind]
        return name + sign, unsigned if column.unsigned else signed
    if kind in _TEMPORAL:
        name, arrow = _TEMPORAL[kind]
        return f"{name}({column.decimals})" if column.decimals else name, arrow
    match kind:
        case ColumnType.NEWDECIMAL:
            wide = column.precision > _DECIMAL128_DIGITS
            arrow = (pa.decimal256 if wide else pa.decimal128)(column.precision, column.decimals)
            return f"decimal({column.precision},{column.decimals}){sign}", arrow
        case ColumnType.FLOAT:
            return f"float{sign}", pa.float32()
        case ColumnType.DOUBLE:
            return f"double{sign}", pa.float64()
        case ColumnType.YEAR:
            return "year", pa.int16()
        case ColumnType.BIT:
            return f"bit({column.size})", pa.uint64()
        case ColumnType.ENUM:
            return f"enum({_quoted(column.values)})", pa.dictionary(pa.int32(), pa.utf8())
        case ColumnType.SET:
            return f"set({_quoted(column.values)})", pa.utf8()
        case ColumnType.JSON:
            return "json", pa.utf8()
        case ColumnType.GEOMETRY:
            # Kept as stored: the SRID, 4 bytes little-endian, then the WKB.
            return f"{column.geometry or 'geometry'} /* srid u32, wkb */", pa.binary()
        case ColumnType.VECTOR:
            return "vector", pa.list_(pa.float32())
        case _:
            return _string_types(column)


def _string_types(column: Column) -> tuple[str, Any]:
    charset = charset_of(column.collation)
    binary = column.collation == BINARY_COLLATION
    if not binary:
        text_decoder(charset)
    arrow = pa.binary() if binary else pa.utf8()
    size = column.size // charset.width
    match column.type:
        case ColumnType.BLOB:
            return (_BLOB_NAMES if binary else _TEXT_NAMES)[column.size], arrow
        case ColumnType.VARCHAR:
            return f"{'varbinary' if binary else 'varchar'}({size})", arrow
        case _:
            return f"{'binary' if binary else 'char'}({size})", arrow


def _quoted(values: tuple[str, ...]) -> str:
    return ",".join("'" + value.replace("'", "''") + "'" for value in values)


def array_of(column: Column, arrow: Any, values: Values, losses: Losses) -> Any:
    """Return stored values as an Arrow array of the column's type.

    Args:
        column: the column in the table map.
        arrow: its type, from `field_of`.
        values: stored values as this module's docstring lists them, None for null.
        losses: where values that do not fit are counted.
    """
    if column.type is ColumnType.ENUM:
        # Index 0 is the empty string that stands for a value the ENUM does not have.
        indices = pa.array(values, type=pa.int32())
        return pa.DictionaryArray.from_arrays(indices, pa.array(["", *column.values], type=pa.utf8()))
    convert = _converter(column, losses)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    if column.type in _TEMPORAL and column.type is not ColumnType.DATE:
        return pa.array(values, type=pa.int64()).cast(arrow)
    return pa.array(values, type=arrow)


def _converter(column: Column, losses: Losses) -> Callable[[Any], Any] | None:  # noqa: PLR0911 - one line a type
    match column.type:
        case ColumnType.YEAR:
            return lambda value: value + 1900 if value else 0
        case ColumnType.SET:
            return lambda bits: ",".join(v for place, v in enumerate(column.values) if bits >> place & 1)
        case ColumnType.JSON:
            return json_text
        case ColumnType.VECTOR:
            return lambda value: np.frombuffer(value, dtype="<f4")
        case ColumnType.BLOB | ColumnType.VARCHAR | ColumnType.STRING | ColumnType.VAR_STRING:
            return _string_converter(column, losses)
        case kind if kind in _TEMPORAL:
            return _counting_nulls(_TEMPORAL_CONVERTERS[kind], column.decimals, losses)
        case _:
            return None


def _string_converter(column: Column, losses: Losses) -> Callable[[bytes], Any] | None:
    if column.collation == BINARY_COLLATION:
        if column.type in (ColumnType.STRING, ColumnType.VAR_STRING):
            return lambda value: value.ljust(column.size, b"\0")  # the binlog trims trailing zeros
        return None
    codec, errors = text_decoder(charset_of(column.collation))

    def decode(value: bytes) -> str:
        try:
            return value.decode(codec, errors)
        except UnicodeDecodeError:
            losses.invalid_text += 1
            return value.decode(codec, "replace")

    return decode


def _counting_nulls(
    convert: Callable[[int, int], int | None], decimals: int, losses: Losses
) -> Callable[[int], int | None]:
    def counted(value: int) -> int | None:
        converted = convert(value, decimals)
        if converted is None:
            losses.zero_dates += 1
        return converted

    return counted


def fraction_size(decimals: int) -> int:
    """Return the bytes of a fraction of a second with this many digits."""
    return (decimals + 1) // 2


def _fraction_us(stored: int, decimals: int) -> int:
    return int(stored * 100 ** (3 - fraction_size(decimals)))


def _day(year: int, month: int, day: int) -> int | None:
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def _date(stored: int, _decimals: int) -> int | None:
    return _day(stored >> 9, stored >> 5 & 15, stored & 31)


def _moment(date: int | None, hour: int, minute: int, second: int, micros: int) -> int | None:
    if date is None:
        return None
    return date * _DAY_US + (hour * 3600 + minute * 60 + second) * _SECOND_US + micros


def _datetime2(stored: int, decimals: int) -> int | None:
    """Read 1 bit sign, 17 bits year * 13 + month, 5 day, 5 hour, 6 minute, 6 second, and the fraction."""
    bits = 8 * fraction_size(decimals)
    whole, fraction = stored >> bits, stored & ((1 << bits) - 1)
    months = whole >> 22 & 0x1FFFF
    date = _day(months // 13, months % 13, whole >> 17 & 31)
    return _moment(date, whole >> 12 & 31, whole >> 6 & 63, whole & 63, _fraction_us(fraction, decimals))


def _timestamp2(stored: int, decimals: int) -> int | None:
    bits = 8 * fraction_size(decimals)
    if not stored:
        return None
    return (stored >> bits) * _SECOND_US + _fraction_us(stored & ((1 << bits) - 1), decimals)


def _time2(stored: int, decimals: int) -> int:
    """Read 24 bits and the fraction as one number, offset by its highest bit: negative times carry over."""
    bits = 8 * fraction_size(decimals)
    value = stored - (1 << (bits + 23))
    sign, value = (-1, -value) if value < 0 else (1, value)
    whole = value >> bits
    seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    return sign * (seconds * _SECOND_US + _fraction_us(value & ((1 << bits) - 1), decimals))


def _old_datetime(stored: int, _decimals: int) -> int | None:
    """Read decimal digits YYYYMMDDhhmmss."""
    date, clock = divmod(stored, 1_000_000)
    day = _day(date // 10000, date // 100 % 100, date % 100)
    return _moment(day, clock // 10000, clock // 100 % 100, clock % 100, 0)


def _old_timestamp(stored: int, _decimals: int) -> int | None:
    return stored * _SECOND_US if stored else None


def _old_time(stored: int, _decimals: int) -> int:
    """Read signed decimal digits hhmmss."""
    sign, digits = (-1, -stored) if stored < 0 else (1, stored)
    return sign * (digits // 10000 * 3600 + digits // 100 % 100 * 60 + digits % 100) * _SECOND_US


_TEMPORAL_CONVERTERS: dict[ColumnType, Callable[[int, int], int | None]] = {
    ColumnType.DATE: _date,
    ColumnType.DATETIME2: _datetime2,
    ColumnType.TIMESTAMP2: _timestamp2,
    ColumnType.TIME2: _time2,
    ColumnType.DATETIME: _old_datetime,
    ColumnType.TIMESTAMP: _old_timestamp,
    ColumnType.TIME: _old_time,
}


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A selected table in one schema version: what its rows are called and what they become."""

    name: TableName
    map: TableMap
    #: the record batch's schema, see `merge.chunk`
    arrow: Any
    #: for each column its type in `arrow`
    types: tuple[Any, ...]

    @classmethod
    def of(cls, name: TableName, table: TableMap) -> TableSchema:
        """Return the schema of a table map's rows under the name that consumers see.

        Raises:
            UnsupportedEvent: a column's charset cannot be decoded.
        """
        fields = fields_of(table)
        arrow = rows_schema(fields, json.dumps(list(table.primary_key)).encode())
        return cls(name, table, arrow, tuple(each.type for each in fields))
