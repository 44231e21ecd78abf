"""Result columns: whether the columns of a result are those that a table's definition leads to expect.

A table may be altered after its definition was read. What then differs is noticed by the columns, or by the
rows: a DECIMAL with more digits, an ENUM with more values.

Layout: "Column Definition" in MySQL's client/server protocol.
"""

from __future__ import annotations

import struct

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.types.column import Extra
from canal_group.binlog.columns.types.table import TYPES
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.binlog.snapshot.sent_value import SentValue
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import TABLE, ColumnType

#: catalog, schema, table and column, the latter two with their own name
_NAMES = 6
#: behind their size: collation, length, type byte, flags, digits after the point
_FIXED = struct.Struct("<HIBHB")
_UNSIGNED = 32
_WHOLE = {row.code for row in TABLE if row.storage is Storage.INTEGER}
#: type bytes of strings, which results have in place of each other; 249 to 251 are blobs by their size
_STRINGS: set[int] = {
    row.code for row in TABLE if row.storage in (Storage.CHAR, Storage.VARCHAR, Storage.BLOB, Storage.LIST)
}
_STRINGS |= {249, 250, 251, ColumnType.VAR_STRING}


def fits(definition: bytes, sent: SentValue) -> bool:
    """Return whether a column's definition in a result is that of a column that was selected.

    Raises:
        CorruptEvent: the definition ends early.
    """
    cursor, column = ByteCursor(definition), sent.column
    for _ in range(_NAMES):
        cursor.take(cursor.packed())
    cursor.packed()
    collation, _, kind, flags, _ = _FIXED.unpack(cursor.take(_FIXED.size))
    if kind != sent.type and not {kind, sent.type} <= _STRINGS:
        return False
    match TYPES[column.type].extra:
        case Extra.CHARSET if not column.address:
            return charset_of(collation).name == charset_of(column.collation).name
        case Extra.SIGN if column.type in _WHOLE:
            return bool(flags & _UNSIGNED) == column.unsigned
    return True
