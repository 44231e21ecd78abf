"""Reader: the columns that the first part of a table map describes.

A type is a byte, and up to two bytes of metadata give its size. The optional part adds names, signs, charsets
and the values of ENUM and SET columns, see `table_map`.

Layout: `Table_map_event` in MySQL's rows_event.h.
"""

from __future__ import annotations

from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.columns.types.table import TYPES
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.types.table import ColumnType

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


def read_columns(types: bytes, cursor: ByteCursor, table: str) -> list[Column]:
    """Return the columns of a table map, without what its optional part says.

    Args:
        types: a type byte per column.
        cursor: positioned at the metadata's size; afterwards at the end of the metadata.
        table: its name, for errors.

    Raises:
        UnsupportedEvent: a column's type is unknown.
        CorruptEvent: a column's size is impossible, or lengths do not fit.
    """
    meta_end = cursor.packed() + cursor.at
    columns = [_column(number, cursor, table) for number in types]
    for ordinal, column in enumerate(columns, start=1):
        if not TYPES[column.type].possible(column):
            raise CorruptEvent(f"Column {ordinal} of {table} is a {column.type.name} of an impossible size.")
    if cursor.at != meta_end:
        raise UnsupportedEvent(
            f"Columns of {table} are stored in an unknown format.",
            hint="They may be old temporal types with fractions: ALTER TABLE ... FORCE; rewrites them.",
        )
    return columns


def _column(number: int, cursor: ByteCursor, table: str) -> Column:
    if number == ColumnType.NEWDATE:
        return Column(ColumnType.DATE)
    if number == ColumnType.TYPED_ARRAY:
        return _array_column(cursor, table)
    row = TYPES.get(number)
    if row is None:
        raise UnsupportedEvent(
            f"A column of {table} has type {number}, which is unknown.",
            hint=_OLD_DECIMAL_HINT if number == _OLD_DECIMAL else _NEWER_HINT,
        )
    return row.read(row.type, cursor.take(row.meta_size))


def _array_column(cursor: ByteCursor, table: str) -> Column:
    """Return the hidden column of a multi-valued index: a JSON array, which some versions of 8.0 log."""
    element = cursor.u8()
    if element not in _ELEMENT_META_SIZE:
        raise UnsupportedEvent(
            f"A column of {table} is an array of type {element}, which is unknown.", hint=_NEWER_HINT
        )
    cursor.take(_ELEMENT_META_SIZE[element])
    return Column(ColumnType.JSON, size=_ARRAY_LENGTH_SIZE)
