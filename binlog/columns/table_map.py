"""Table maps: the table and the columns of the rows that follow a TABLE_MAP event.

With `binlog_row_metadata=FULL` the event names the columns, their signs, charsets, ENUM and SET values and
the primary key, as they were when the rows were written. `unnamed_tables` adds what table maps cannot say,
and what those of servers with other settings leave out.

Layout: `Table_map_event` in MySQL's rows_event.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from canal_group.binlog.columns.table_metadata import described, read_metadata
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.columns.types.reader import read_columns
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.merge.errors import CorruptEvent


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table in one schema version, as a TABLE_MAP event describes it."""

    schema: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    #: whether the event names its columns; else all names are empty
    named: bool = True
    #: whether the event says which numeric columns are unsigned
    signs_known: bool = True
    #: whether the event names the charsets of string columns
    charsets_known: bool = True
    #: which columns may be null: a bit for each, the lowest first; empty: unknown
    nullable: bytes = b""


def table_id(body: bytes, post_header_size: int = 8) -> int:
    """Return the table id that opens a TABLE_MAP or rows event: 6 bytes, or 4 of old servers."""
    return int.from_bytes(body[: 4 if post_header_size == 6 else 6], "little")  # noqa: PLR2004


def table_name(body: bytes, post_header_size: int = 8) -> tuple[str, str]:
    """Return schema and table of a TABLE_MAP event without reading the rest."""
    cursor = ByteCursor(body, post_header_size)
    schema = cursor.take(cursor.u8()).decode("utf-8")
    cursor.take(1)
    return schema, cursor.take(cursor.u8()).decode("utf-8")


def parse_table_map(body: bytes, *, mariadb: bool, post_header_size: int = 8) -> TableMap:
    """Return a TABLE_MAP event's content.

    Args:
        body: the event without header and checksum.
        mariadb: whether MariaDB wrote it.
        post_header_size: as the format description says.

    Raises:
        UnsupportedEvent: a column's type is unknown.
        CorruptEvent: lengths do not fit, a column's size is impossible for its type, or two columns have one
            name.
    """
    cursor = ByteCursor(body, post_header_size)
    schema = cursor.take(cursor.u8()).decode("utf-8")
    cursor.take(1)
    table = cursor.take(cursor.u8()).decode("utf-8")
    cursor.take(1)
    types = cursor.take(cursor.packed())
    columns = read_columns(types, cursor, f"{schema}.{table}")
    nullable = cursor.take((len(types) + 7) // 8)
    metadata = read_metadata(cursor)
    named = len(metadata.names) == len(columns)
    if named and len(set(metadata.names)) != len(metadata.names):
        raise CorruptEvent(f"Two columns of {schema}.{table} have one name.")
    columns = described(columns, metadata, mariadb=mariadb)
    return TableMap(
        schema,
        table,
        tuple(columns),
        primary_key=tuple(columns[index].name for index in metadata.primary_key if named),
        named=named,
        signs_known=bool(metadata.signs) or named,
        charsets_known=metadata.charsets_known or named,
        nullable=nullable,
    )
