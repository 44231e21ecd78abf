"""Verification: a table's definition held against the table map of its rows.

A definition that was followed through statements could be wrong. A table map says the number of columns, how
each is stored, and which may be null; that must agree, or no row is read.
"""

from __future__ import annotations

from binlog.charsets.charsets import charset_of
from binlog.columns.addresses import ADDRESS_SIZES
from binlog.columns.table_map import TableMap
from binlog.columns.types import moments
from binlog.columns.types.column import Column, ColumnType
from binlog.columns.types.table import BY_NAME
from binlog.schema.definition import ColumnDefinition, TableDefinition, Visibility
from merge.errors import CorruptEvent

_FLOAT_SIZE = 4
#: the size of a BLOB's or TEXT's length, by the name's first letters
_BLOB_SIZES = {"tiny": 1, "medium": 3, "long": 4}
_UTF8MB4_WIDTH = 4
_ENUM_OF_ONE_BYTE = 255
_SET_SIZES = (1, 2, 3, 4, 8)
#: a compressed column is stored under another type
_PACKED = {ColumnType.VARCHAR: ColumnType.VARCHAR_COMPRESSED, ColumnType.BLOB: ColumnType.BLOB_COMPRESSED}
_NEW = {ColumnType.TIME2: ColumnType.TIME, ColumnType.DATETIME2: ColumnType.DATETIME}
_OLD = {**_NEW, ColumnType.TIMESTAMP2: ColumnType.TIMESTAMP}


def require_agreement(table: TableMap, definition: TableDefinition) -> None:
    """Return if rows with this table map may be rows of a table of this definition.

    Raises:
        CorruptEvent: they are not.
    """
    columns = definition.logged
    if len(columns) != len(table.columns):
        raise _contradiction(
            table,
            f"has {len(table.columns)} columns",
            f"{len(columns)}: {', '.join(each.name for each in columns)}",
        )
    for place, (column, defined) in enumerate(zip(table.columns, columns, strict=True)):
        if not _agree(column, defined):
            raise _contradiction(
                table, f"stores column {place + 1} as {_stored(column)}", f"{defined.name} {_said(defined)}"
            )
        # Whether MariaDB's hidden columns may be null is not followed, and does not matter.
        checked = table.nullable and defined.visibility is not Visibility.HIDDEN
        if checked and bool(table.nullable[place >> 3] >> (place & 7) & 1) != defined.nullable:
            may = "may" if not defined.nullable else "may not"
            raise _contradiction(
                table, f"says that column {place + 1} {may} be null", f"{defined.name} {_said(defined)}"
            )


def _agree(column: Column, defined: ColumnDefinition) -> bool:
    """Return whether values of a defined column are stored as a table map says."""
    expected = BY_NAME.get(defined.type)
    if expected is None:
        return False
    if defined.type == "vector" and column.type is ColumnType.VARCHAR:
        return column.size == defined.length * _FLOAT_SIZE
    if column.type in moments.OLD:
        return _OLD.get(expected) is column.type
    if column.type is _PACKED.get(expected):
        # The size of a compressed VARCHAR includes the byte that says how it is compressed.
        return expected is ColumnType.BLOB or column.size - 1 in _bytes(defined)
    return column.type is expected and _sizes_agree(column, defined)


def _sizes_agree(column: Column, defined: ColumnDefinition) -> bool:  # noqa: PLR0911 - one branch a kind
    match column.type:
        case ColumnType.NEWDECIMAL:
            return (column.precision, column.decimals) == (defined.precision, defined.scale)
        case ColumnType.TIME2 | ColumnType.DATETIME2 | ColumnType.TIMESTAMP2:
            return column.decimals == defined.decimals
        case ColumnType.BIT:
            return column.size == defined.length
        case ColumnType.STRING:
            return column.size == ADDRESS_SIZES.get(defined.type) or column.size in _bytes(defined)
        case ColumnType.VARCHAR:
            return column.size in _bytes(defined)
        case ColumnType.BLOB:
            size = next((size for word, size in _BLOB_SIZES.items() if defined.type.startswith(word)), 2)
            return column.size in (size, size + _is_utf8(defined))
        case ColumnType.ENUM:
            return column.size == (1 if len(defined.values) <= _ENUM_OF_ONE_BYTE else 2)
        case ColumnType.SET:
            wanted = (len(defined.values) + 7) // 8
            return column.size == min(size for size in _SET_SIZES if size >= wanted)
        case _:
            return True


def _bytes(defined: ColumnDefinition) -> tuple[int, ...]:
    size = defined.length * charset_of(defined.collation).width
    return (size, defined.length * _UTF8MB4_WIDTH) if _is_utf8(defined) else (size,)


def _is_utf8(defined: ColumnDefinition) -> bool:
    """Return whether a column may be in utf8mb4 instead of utf8mb3.

    Both are read the same way. A setting that no binlog logs, `old_mode`, decides which of them MariaDB takes
    for `utf8`; a TEXT of a given length may then be of the next larger type.
    """
    return charset_of(defined.collation).name == "utf8mb3"


def _stored(column: Column) -> str:
    sizes = (column.size, column.precision, column.decimals)
    return f"{column.type.name}({', '.join(str(size) for size in sizes if size)})"


def _said(defined: ColumnDefinition) -> str:
    sizes = (defined.length, defined.precision, defined.scale, defined.decimals)
    listed = f" of {len(defined.values)} values" if defined.values else ""
    null = "NULL" if defined.nullable else "NOT NULL"
    return f"{defined.type}({', '.join(str(size) for size in sizes if size)}){listed} {null}"


def _contradiction(table: TableMap, stored: str, said: str) -> CorruptEvent:
    return CorruptEvent(
        f"A table map of {table.schema}.{table.table} {stored}, but by its definition the table has {said}.",
        hint="The definition was followed from the server's SHOW CREATE TABLE through the statements of the "
        "binlog. If no statement has altered the table since, `canal-group schema rebuild` takes what the "
        "server shows now. SET GLOBAL binlog_row_metadata = FULL; makes it log what is needed from then on. "
        "Please report the statements that changed the table.",
        table=f"{table.schema}.{table.table}",
    )
