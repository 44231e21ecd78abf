"""Table maps: the table and the columns of the rows that follow a TABLE_MAP event.

With `binlog_row_metadata=FULL` the event names the columns, their signs, charsets, ENUM and SET values and
the primary key, as they were when the rows were written. `unnamed_tables` adds what table maps cannot say,
and what those of servers with other settings leave out.

Layout: `Table_map_event` in MySQL's rows_event.h.

Table metadata: the optional part of a table map, and what it adds to the columns.

How much of it there is depends on the server: all with `binlog_row_metadata=FULL`, signs and charsets with
MINIMAL, nothing before MySQL 8.0 and MariaDB 10.5. Each field has entries only for the columns that it
applies to, in their order: a sign bit for each number, a charset for each string, and so on.

Layout: `Table_map_event::Optional_metadata_fields` in MySQL's rows_event.h.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

from canal_group.binlog.charsets.charsets import BINARY_COLLATION, charset_of, shown_bytes, text_decoder
from canal_group.binlog.columns.types.column import Column, Extra
from canal_group.binlog.columns.types.documents import GEOMETRY_NAMES
from canal_group.binlog.columns.types.reader import read_columns
from canal_group.binlog.columns.types.table import having
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.types.kinds import Vendor
from canal_group.merge.values.types.table import TABLE, ColumnType

_SIGNED = having(Extra.SIGN)
#: by vendor; each counts types without a charset among those that have one
_CHARACTER = {
    vendor: having(Extra.CHARSET) | {row.code for row in TABLE if row.counted_as_text is vendor}
    for vendor in Vendor
}
_LISTED = having(Extra.VALUES)


class _Field(IntEnum):
    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11


@dataclass(slots=True)
class _Collations:
    default: int = BINARY_COLLATION
    #: index among the columns with a charset -> collation, where it is not the default
    exceptions: dict[int, int] = field(default_factory=dict)

    def __getitem__(self, index: int) -> int:
        return self.exceptions.get(index, self.default)


@dataclass(slots=True)
class TableMetadata:
    """The optional part as it was read; a missing field is empty."""

    names: list[str] = field(default_factory=list)
    signs: bytes = b""
    collations: _Collations = field(default_factory=_Collations)
    enum_collations: _Collations = field(default_factory=_Collations)
    set_values: list[tuple[bytes, ...]] = field(default_factory=list)
    enum_values: list[tuple[bytes, ...]] = field(default_factory=list)
    geometries: list[int] = field(default_factory=list)
    primary_key: list[int] = field(default_factory=list)
    charsets_known: bool = False


def read_metadata(cursor: ByteCursor) -> TableMetadata:  # noqa: C901, PLR0912 - one branch a field
    """Read the optional part, up to the event's end.

    Raises:
        CorruptEvent: lengths do not fit.
    """
    metadata = TableMetadata()
    while cursor:
        kind, size = cursor.u8(), cursor.packed()
        part = ByteCursor(cursor.take(size))
        match kind:
            case _Field.SIGNEDNESS:
                metadata.signs = part.data
            case _Field.DEFAULT_CHARSET:
                metadata.collations, metadata.charsets_known = _default_collations(part), True
            case _Field.COLUMN_CHARSET:
                exceptions = dict(enumerate(_integers(part)))
                metadata.collations, metadata.charsets_known = _Collations(exceptions=exceptions), True
            case _Field.ENUM_AND_SET_DEFAULT_CHARSET:
                metadata.enum_collations = _default_collations(part)
            case _Field.ENUM_AND_SET_COLUMN_CHARSET:
                metadata.enum_collations = _Collations(exceptions=dict(enumerate(_integers(part))))
            case _Field.COLUMN_NAME:
                while part:
                    metadata.names.append(part.text())
            case _Field.SET_STR_VALUE:
                metadata.set_values = list(_value_lists(part))
            case _Field.ENUM_STR_VALUE:
                metadata.enum_values = list(_value_lists(part))
            case _Field.GEOMETRY_TYPE:
                metadata.geometries = list(_integers(part))
            case _Field.SIMPLE_PRIMARY_KEY:
                metadata.primary_key = list(_integers(part))
            case _Field.PRIMARY_KEY_WITH_PREFIX:
                metadata.primary_key = list(_integers(part))[::2]
            case _:  # visibility and later additions describe the table, not its rows
                pass
    return metadata


def _integers(part: ByteCursor) -> Iterator[int]:
    while part:
        yield part.packed()


def _default_collations(part: ByteCursor) -> _Collations:
    default, *pairs = _integers(part)
    return _Collations(default, dict(zip(pairs[::2], pairs[1::2], strict=True)))


def _value_lists(part: ByteCursor) -> Iterator[tuple[bytes, ...]]:
    while part:
        count = part.packed()
        yield tuple(part.take(part.packed()) for _ in range(count))


def described(columns: list[Column], metadata: TableMetadata, *, mariadb: bool) -> list[Column]:
    """Return columns with what the optional part says about each.

    Args:
        columns: as the first part of the table map says.
        metadata: the optional part.
        mariadb: whether MariaDB wrote it.
    """
    if len(metadata.names) == len(columns):
        pairs = zip(columns, metadata.names, strict=True)
        columns = [replace(column, name=name) for column, name in pairs]
    character = _CHARACTER[Vendor.MARIADB if mariadb else Vendor.MYSQL]
    columns = _with_unsigned(columns, metadata.signs)
    columns = _with_collations(columns, character, metadata.collations)
    columns = _with_collations(columns, _LISTED, metadata.enum_collations)
    return _with_values(columns, metadata)


def _with_unsigned(columns: list[Column], signs: bytes) -> list[Column]:
    whole = list(columns)
    numeric = [index for index, column in enumerate(columns) if column.type in _SIGNED]
    for bit, index in enumerate(numeric):
        if bit // 8 < len(signs) and signs[bit // 8] & (0x80 >> bit % 8):
            whole[index] = replace(columns[index], unsigned=True)
    return whole


def _with_collations(
    columns: list[Column], kinds: Collection[ColumnType], collations: _Collations
) -> list[Column]:
    whole = list(columns)
    having = [index for index, column in enumerate(columns) if column.type in kinds]
    for rank, index in enumerate(having):
        whole[index] = replace(columns[index], collation=collations[rank])
    return whole


def _with_values(columns: list[Column], metadata: TableMetadata) -> list[Column]:
    enums, sets, geometries = iter(metadata.enum_values), iter(metadata.set_values), iter(metadata.geometries)
    described = []
    for column in columns:
        values: tuple[bytes, ...] = ()
        geometry = ""
        if column.type is ColumnType.ENUM:
            values = next(enums, ())
        elif column.type is ColumnType.SET:
            values = next(sets, ())
        elif column.type is ColumnType.GEOMETRY:
            geometry = GEOMETRY_NAMES.get(next(geometries, 0), GEOMETRY_NAMES[0])
        if values or geometry:
            texts = tuple(_value_text(value, column.collation) for value in values)
            column = replace(column, values=texts, geometry=geometry)  # noqa: PLW2901
        described.append(column)
    return described


def _value_text(value: bytes, collation: int) -> str:
    if collation == BINARY_COLLATION:
        return shown_bytes(value)
    codec, errors = text_decoder(charset_of(collation))
    try:
        return value.decode(codec, errors)
    except UnicodeDecodeError:
        return value.decode("utf-8", "replace")


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
