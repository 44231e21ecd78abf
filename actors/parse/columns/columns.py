"""Columns: from a table map's columns to typed Arrow fields, and from column buffers to Arrow arrays.

`field_of` returns what a column becomes, `plan_of` how `native.images` reads its stored values. `array_of`
turns the filled buffers into an Arrow array, and copies only what needs conversion.

The conversion is lossless where Arrow allows it. Two kinds of values do not fit their type; they are counted
and raise no error. Zero dates (with a zero or impossible part) become null. Text that is invalid in its own
charset keeps its valid parts and gets U+FFFD for the rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actors.parse.columns.addresses import address_text
from actors.parse.columns.charsets import BINARY_COLLATION, charset_of
from actors.parse.columns.column_types import Column, ColumnType
from actors.parse.columns.table_map import TableMap
from actors.parse.columns.text import TextRule, text_array, text_rule
from actors.parse.native.images import Layout
from actors.parse.native.shapes import ColumnBuffers, ColumnPlan
from merge.errors import UnsupportedEvent
from merge.values.chunk import MYSQL_TYPE, TableName, rows_schema

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
#: old temporal types -> how old MariaDB stores them with a fraction
_HIRES = {
    ColumnType.TIME: "time_hires",
    ColumnType.DATETIME: "datetime_hires",
    ColumnType.TIMESTAMP: "timestamp_hires",
}
_PLAIN_SIZES = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
    ColumnType.FLOAT: 4,
    ColumnType.DOUBLE: 8,
}
_PACKED = {ColumnType.VARCHAR_COMPRESSED, ColumnType.BLOB_COMPRESSED}
_STRINGS = {ColumnType.VARCHAR, ColumnType.STRING, ColumnType.VAR_STRING, ColumnType.VARCHAR_COMPRESSED}
_BLOBS = {ColumnType.BLOB, ColumnType.BLOB_COMPRESSED}
#: longest CHAR or VARCHAR, in bytes, whose stored length has one byte
_SHORT_MAX = 255
_PADDED = {ColumnType.STRING, ColumnType.VAR_STRING}


@dataclass(slots=True)
class Losses:
    """Counts of values and events that were lost or changed in decoding."""

    #: dates and times with a zero or impossible part, now null
    zero_dates: int = 0
    #: strings with bytes that their charset does not have
    invalid_text: int = 0
    #: events of unknown types that their server marked as ignorable
    ignored_events: int = 0


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
    if column.address:
        return column.address, pa.utf8()
    charset = charset_of(column.collation)
    binary = column.collation == BINARY_COLLATION
    if not binary:
        text_rule(charset)
    arrow = pa.binary() if binary else pa.utf8()
    # The size of a compressed VARCHAR includes the byte that says how it is compressed.
    size = (column.size - (column.type is ColumnType.VARCHAR_COMPRESSED)) // charset.width
    match column.type:
        case ColumnType.BLOB | ColumnType.BLOB_COMPRESSED:
            return (_BLOB_NAMES if binary else _TEXT_NAMES)[column.size], arrow
        case ColumnType.VARCHAR | ColumnType.VARCHAR_COMPRESSED:
            return f"{'varbinary' if binary else 'varchar'}({size})", arrow
        case _:
            return f"{'binary' if binary else 'char'}({size})", arrow


def _quoted(values: tuple[str, ...]) -> str:
    return ",".join("'" + value.replace("'", "''") + "'" for value in values)


def plan_of(column: Column) -> ColumnPlan:  # noqa: C901, PLR0911 - one branch a type
    """Return how a column's values are stored, see `ColumnPlan`."""
    kind, size = column.type, column.size
    match kind:
        case _ if kind in _PLAIN_SIZES:
            return "plain", _PLAIN_SIZES[kind], 0, ()
        case ColumnType.NEWDECIMAL:
            return "decimal", column.precision, column.decimals, ()
        case ColumnType.INT24:
            return "uint24" if column.unsigned else "int24", 0, 0, ()
        case ColumnType.BIT:
            return "bit", size, 0, ()
        case ColumnType.ENUM | ColumnType.SET:
            return kind.name.lower(), size, 0, tuple(value.encode() for value in column.values)
        case ColumnType.JSON | ColumnType.VECTOR:
            return kind.name.lower(), size, 0, ()
        case ColumnType.BLOB_COMPRESSED:
            return "packed", size, 0, ()
        case ColumnType.BLOB | ColumnType.GEOMETRY:
            return "string", size, 0, ()
        case _ if kind in _STRINGS:
            padded = column.collation == BINARY_COLLATION and kind in _PADDED
            length = 1 if size <= _SHORT_MAX else 2
            if kind in _PACKED:
                return "packed", length, 0, ()
            return ("binary", length, size, ()) if padded else ("string", length, 0, ())
        case _ if kind in _HIRES and column.decimals:
            return _HIRES[kind], column.decimals, 0, ()
        case _:  # dates and times
            return kind.name.lower(), column.decimals, 0, ()


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column's buffers become an array."""

    arrow: Any
    #: how stored text becomes UTF-8; None for other types, and for text that is UTF-8 already
    text: TextRule | None = None
    #: ENUM's values; index 0 is the empty string, for a value that the ENUM does not have
    dictionary: Any = None
    #: see `Column.address`
    address: str = ""

    @classmethod
    def of(cls, column: Column, arrow: Any) -> Reading:
        """Return the reading of a column, given its type from `field_of`."""
        if column.type is ColumnType.ENUM:
            return cls(arrow, dictionary=pa.array(["", *column.values], type=pa.utf8()))
        if column.address:
            return cls(arrow, address=column.address)
        if column.type in _STRINGS or column.type in _BLOBS:
            binary = column.collation == BINARY_COLLATION
            return cls(arrow, text=None if binary else text_rule(charset_of(column.collation)))
        return cls(arrow)


def array_of(reading: Reading, rows: int, buffers: ColumnBuffers, losses: Losses) -> Any:
    """Return a column's buffers as an Arrow array; buffers are not copied unless text needs conversion.

    Args:
        reading: how to read the column.
        rows: how many slots the buffers have.
        buffers: see `ColumnBuffers`.
        losses: where values that do not fit are counted.

    Raises:
        OverflowError: its text has more than 2 GiB.
    """
    valid, nulls, slots, data = buffers
    arrow, validity = reading.arrow, None if valid is None else pa.py_buffer(valid)
    if data is None:
        if reading.dictionary is None:
            return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(slots)], nulls)
        indices = pa.Array.from_buffers(pa.int32(), rows, [validity, pa.py_buffer(slots)], nulls)
        return pa.DictionaryArray.from_arrays(indices, reading.dictionary, safe=False)  # indices are checked
    if pa.types.is_list(arrow):
        floats = pa.Array.from_buffers(arrow.value_type, len(data) // 4, [None, pa.py_buffer(data)], 0)
        return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(slots)], nulls, children=[floats])
    if reading.address:
        stored = [validity, pa.py_buffer(slots), pa.py_buffer(data)]
        return address_text(reading.address, pa.Array.from_buffers(pa.binary(), rows, stored, nulls))
    if reading.text is None:
        return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(slots), pa.py_buffer(data)], nulls)
    array, invalid = text_array(reading.text, rows, buffers)
    losses.invalid_text += invalid
    return array


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A selected table in one schema version: what its rows are called and what they become."""

    name: TableName
    map: TableMap
    #: the record batch's schema, see `merge.values.chunk`
    arrow: Any
    #: how its images are stored
    layout: Layout
    #: for each column
    readings: tuple[Reading, ...]
    #: the source's type of each column
    types: tuple[bytes, ...]

    @classmethod
    def of(cls, name: TableName, table: TableMap) -> TableSchema:
        """Return the schema of a table map's rows under the name that consumers see.

        Raises:
            UnsupportedEvent: a column's charset cannot be decoded, or its metadata fit no type.
        """
        try:
            layout = Layout([plan_of(column) for column in table.columns])
        except ValueError as error:
            raise UnsupportedEvent(
                f"Columns of {table.schema}.{table.table} are stored in an unknown format ({error}).",
                hint="The server may be newer than this version: leave the table out.",
            ) from error
        fields = fields_of(table)
        arrow = rows_schema(fields, json.dumps(list(table.primary_key)).encode())
        readings = tuple(
            Reading.of(column, each.type) for column, each in zip(table.columns, fields, strict=True)
        )
        types = tuple(each.metadata[MYSQL_TYPE] for each in fields)
        return cls(name, table, arrow, layout, readings, types)
