"""Column types: how a column's values are stored, according to the first part of a table map.

A type is a byte, and up to two bytes of metadata give its size. The optional part adds names, signs, charsets
and the values of ENUM and SET columns, see `table_metadata`.

Layout: `Table_map_event` in MySQL's rows_event.h; types likewise, in field_types.h.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import IntEnum

from actors.parse.columns.charsets import BINARY_COLLATION
from actors.parse.formats.byte_cursor import ByteCursor
from merge.errors import CorruptEvent, UnsupportedEvent


class ColumnType(IntEnum):
    """Type byte of a column (`enum_field_types` in MySQL's field_types.h)."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


#: bytes of metadata per column type; types that are not named have none
_META_SIZE = {
    ColumnType.VARCHAR: 2,
    ColumnType.VARCHAR_COMPRESSED: 2,
    ColumnType.BIT: 2,
    ColumnType.NEWDECIMAL: 2,
    ColumnType.STRING: 2,
    ColumnType.VAR_STRING: 2,
    ColumnType.ENUM: 2,
    ColumnType.SET: 2,
    ColumnType.FLOAT: 1,
    ColumnType.DOUBLE: 1,
    ColumnType.BLOB: 1,
    ColumnType.BLOB_COMPRESSED: 1,
    ColumnType.JSON: 1,
    ColumnType.GEOMETRY: 1,
    ColumnType.VECTOR: 1,
    ColumnType.TIMESTAMP2: 1,
    ColumnType.DATETIME2: 1,
    ColumnType.TIME2: 1,
}
#: element types of a multi-valued index (TYPED_ARRAY) -> bytes of metadata after the type
_ELEMENT_META_SIZE: dict[int, int] = {
    ColumnType.VARCHAR: 3,
    ColumnType.NEWDECIMAL: 2,
    ColumnType.TIME2: 1,
    ColumnType.DATETIME2: 1,
    ColumnType.TIMESTAMP2: 1,
    ColumnType.JSON: 1,
    ColumnType.LONGLONG: 0,
    ColumnType.NEWDATE: 0,
    ColumnType.YEAR: 0,
}
#: bytes of the length before a TYPED_ARRAY's value
_ARRAY_LENGTH_SIZE = 4
_OLD_DECIMAL = 0
_NEWER_HINT = "The server may be newer than this version: leave the table out."
_OLD_DECIMAL_HINT = (
    "This is a DECIMAL of MySQL 4.1 or earlier, whose size is not logged: ALTER TABLE ... FORCE; rewrites it."
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the rows of one table map hold it."""

    type: ColumnType
    #: most bytes of a value (CHAR, BINARY, VARCHAR, VARBINARY), bytes of the length (BLOB and the like), or
    #: bytes of the value (ENUM, SET)
    size: int = 0
    precision: int = 0
    #: digits after the point: DECIMAL's scale, or the fraction of a second
    decimals: int = 0
    name: str = ""
    unsigned: bool = False
    #: collation number; 63 is binary
    collation: int = BINARY_COLLATION
    #: ENUM's or SET's values in the order of their definition
    values: tuple[str, ...] = ()
    geometry: str = ""
    #: uuid, inet4 or inet6 if a lookup says so of a BINARY column; empty for other columns
    address: str = ""


def read_columns(types: bytes, cursor: ByteCursor, table: str) -> list[Column]:
    """Return the columns of a table map, without what its optional part says.

    Args:
        types: a type byte per column.
        cursor: positioned at the metadata's size; afterwards at the end of the metadata.
        table: its name, for errors.

    Raises:
        UnsupportedEvent: a column's type is not known.
        CorruptEvent: a column's size is impossible, or lengths do not fit.
    """
    meta_end = cursor.packed() + cursor.at
    columns = [_column(number, cursor, table) for number in types]
    for place, column in enumerate(columns, start=1):
        if not _possible(column):
            raise CorruptEvent(f"Column {place} of {table} is a {column.type.name} of an impossible size.")
    if cursor.at != meta_end:
        raise UnsupportedEvent(
            f"Columns of {table} are stored in an unknown format.",
            hint="They may be old temporal types with fractions: ALTER TABLE ... FORCE; rewrites them.",
        )
    return columns


def _column(number: int, cursor: ByteCursor, table: str) -> Column:  # noqa: PLR0911 - one branch a type
    try:
        kind = ColumnType(number)
    except ValueError:
        raise UnsupportedEvent(
            f"A column of {table} has type {number}, which is not known.",
            hint=_OLD_DECIMAL_HINT if number == _OLD_DECIMAL else _NEWER_HINT,
        ) from None
    meta = cursor.take(_META_SIZE.get(kind, 0))
    match kind:
        case ColumnType.STRING | ColumnType.VAR_STRING:
            return _string_column(kind, meta)
        case ColumnType.TYPED_ARRAY:
            return _array_column(cursor, table)
        case ColumnType.NEWDATE:
            return Column(ColumnType.DATE)
        case ColumnType.VARCHAR | ColumnType.VARCHAR_COMPRESSED:
            return Column(kind, size=int.from_bytes(meta, "little"))
        case ColumnType.NEWDECIMAL:
            return Column(kind, precision=meta[0], decimals=meta[1])
        case ColumnType.BIT:
            return Column(kind, size=meta[1] * 8 + meta[0])
        case ColumnType.TIMESTAMP2 | ColumnType.DATETIME2 | ColumnType.TIME2:
            return Column(kind, decimals=meta[0])
        case _:
            return Column(kind, size=meta[0] if meta else 0)


_LENGTHS = range(1, 5)
#: the sizes that a type's metadata may give; types that are not listed have no size, or any
_SIZES: dict[ColumnType, Container[int]] = {
    ColumnType.FLOAT: (4,),
    ColumnType.DOUBLE: (8,),
    ColumnType.BIT: range(1, 65),
    ColumnType.ENUM: (1, 2),
    ColumnType.SET: (1, 2, 3, 4, 8),
    ColumnType.BLOB: _LENGTHS,
    ColumnType.BLOB_COMPRESSED: _LENGTHS,
    ColumnType.JSON: _LENGTHS,
    ColumnType.GEOMETRY: _LENGTHS,
    ColumnType.VECTOR: _LENGTHS,
}
_FRACTION_MAX, _PRECISION_MAX, _SCALE_MAX = 6, 65, 30


def _possible(column: Column) -> bool:
    """Return whether a column of this size is possible; the decoders of rows rely on that."""
    if column.type in (ColumnType.TIMESTAMP2, ColumnType.DATETIME2, ColumnType.TIME2):
        return column.decimals <= _FRACTION_MAX
    if column.type is ColumnType.NEWDECIMAL:
        scale, precision = column.decimals, column.precision
        return 0 < precision <= _PRECISION_MAX and scale <= min(precision, _SCALE_MAX)
    return column.type not in _SIZES or column.size in _SIZES[column.type]


def _array_column(cursor: ByteCursor, table: str) -> Column:
    """Return the hidden column of a multi-valued index: a JSON array, which some versions of 8.0 log."""
    element = cursor.u8()
    if element not in _ELEMENT_META_SIZE:
        raise UnsupportedEvent(
            f"A column of {table} is an array of type {element}, which is not known.", hint=_NEWER_HINT
        )
    cursor.take(_ELEMENT_META_SIZE[element])
    return Column(ColumnType.JSON, size=_ARRAY_LENGTH_SIZE)


def _string_column(kind: ColumnType, meta: bytes) -> Column:
    """Return a CHAR, BINARY, ENUM or SET column; two bits of a length over 255 are in the type's byte."""
    if meta[0] in (ColumnType.ENUM, ColumnType.SET):
        return Column(ColumnType(meta[0]), size=meta[1])
    return Column(kind, size=(((meta[0] << 4) & 0x300) ^ 0x300) + meta[1])
