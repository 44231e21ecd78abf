"""Verification: a table's definition compared with the table map of its rows.

A definition that was followed through statements could be wrong. A table map has the number of columns, how
each is stored, and which may be null; these must agree, or no row is read.
"""

from __future__ import annotations

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.table_map import TableMap
from canal_group.binlog.columns.types import moments
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.columns.types.strings import listed_size
from canal_group.binlog.schema.definition import ColumnDefinition, TableDefinition, Visibility
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import BY_NAME, TypeRow

_UTF8MB4_WIDTH = 4


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
    for index, (column, defined) in enumerate(zip(table.columns, columns, strict=True)):
        if not _agree(column, defined):
            raise _contradiction(
                table,
                f"stores column {index + 1} as {_stored(column)}",
                f"{defined.name} {_declared(defined)}",
            )
        # Whether MariaDB's hidden columns may be null is not tracked, and does not matter.
        checked = table.nullable and defined.visibility is not Visibility.HIDDEN
        if checked and bool(table.nullable[index >> 3] >> (index & 7) & 1) != defined.nullable:
            may = "may" if not defined.nullable else "may not"
            raise _contradiction(
                table,
                f"says that column {index + 1} {may} be null",
                f"{defined.name} {_declared(defined)}",
            )


def _agree(column: Column, defined: ColumnDefinition) -> bool:
    """Return whether values of a defined column are stored as a table map has it."""
    row = BY_NAME.get(defined.type)
    if row is None:
        return False
    if row.unit and column.type is row.hidden_in:
        return column.size == defined.length * row.unit
    if column.type in moments.OLD:
        return column.type is row.old
    if column.type is row.packed:
        # The size of a compressed VARCHAR includes the byte that says how it is compressed.
        return row.storage is Storage.BLOB or column.size - 1 in _bytes(defined)
    return column.type is row.code and _sizes_agree(row, column, defined)


def _sizes_agree(  # noqa: PLR0911 - one branch a storage
    row: TypeRow, column: Column, defined: ColumnDefinition
) -> bool:
    match row.storage:
        case Storage.DECIMAL:
            return (column.precision, column.decimals) == (defined.precision, defined.scale)
        case Storage.MOMENT:
            return column.decimals == defined.decimals
        case Storage.BIT:
            return column.size == defined.length
        case Storage.CHAR | Storage.VARCHAR:
            return column.size in (_bytes(defined) if row.hidden_in is None else (row.size,))
        case Storage.BLOB:
            return column.size in (row.length_size, row.length_size + _is_utf8(defined))
        case Storage.ENUM | Storage.SET:
            return column.size == listed_size(row.storage, len(defined.values))
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


def _declared(defined: ColumnDefinition) -> str:
    sizes = (defined.length, defined.precision, defined.scale, defined.decimals)
    listed = f" of {len(defined.values)} values" if defined.values else ""
    null = "NULL" if defined.nullable else "NOT NULL"
    return f"{defined.type}({', '.join(str(size) for size in sizes if size)}){listed} {null}"


def _contradiction(table: TableMap, stored: str, declared: str) -> CorruptEvent:
    return CorruptEvent(
        f"A table map of {table.schema}.{table.table} {stored}, "
        f"but by its definition the table has {declared}.",
        hint="The definition was followed from the server's SHOW CREATE TABLE through the statements of the "
        "binlog. If no statement has altered the table since, `canal-group schema rebuild` takes what the "
        "server shows now. SET GLOBAL binlog_row_metadata = FULL; makes it log what is needed from then on. "
        "Please report the statements that changed the table.",
        table=f"{table.schema}.{table.table}",
    )
