"""Table maps: what a TABLE_MAP event says of the rows that follow it.

With `binlog_row_metadata=FULL` the event names the columns, their signs, charsets, ENUM and SET values and
the primary key, as they were when the rows were written. That is the schema that a stream uses: the source's
current one may be newer than the rows. What table maps have no place for, and what those of files lack, is
put in by `unnamed_tables`.

Layout: `Table_map_event` in MySQL's rows_event.h; optional metadata fields likewise.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

from actors.parse.charsets import BINARY_COLLATION, charset_of, text_decoder
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


_NUMERIC = {
    ColumnType.TINY,
    ColumnType.SHORT,
    ColumnType.INT24,
    ColumnType.LONG,
    ColumnType.LONGLONG,
    ColumnType.NEWDECIMAL,
    ColumnType.FLOAT,
    ColumnType.DOUBLE,
    ColumnType.YEAR,
}
_CHARACTER = {
    ColumnType.STRING,
    ColumnType.VAR_STRING,
    ColumnType.VARCHAR,
    ColumnType.BLOB,
    ColumnType.VARCHAR_COMPRESSED,
    ColumnType.BLOB_COMPRESSED,
}
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
#: element types of a multi-valued index (TYPED_ARRAY) -> bytes of metadata behind the type
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
_NEWER_HINT = "Types of newer servers are such; leave the table out."
_OLD_DECIMAL_HINT = (
    "A DECIMAL of MySQL 4.1 or earlier, whose size is not logged: ALTER TABLE ... FORCE; rewrites it."
)
_GEOMETRY_NAMES = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)


class _Meta(IntEnum):
    """Optional metadata fields."""

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


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the rows of one table map hold it."""

    type: ColumnType
    #: bytes at most (CHAR, BINARY, VARCHAR, VARBINARY), of the length (BLOB and the like) or of the value
    #: (ENUM, SET)
    size: int = 0
    precision: int = 0
    #: digits behind the point: DECIMAL's scale, or the fraction of a second
    decimals: int = 0
    name: str = ""
    unsigned: bool = False
    #: collation number; 63 is binary
    collation: int = BINARY_COLLATION
    #: ENUM's or SET's values in the order of their definition
    values: tuple[str, ...] = ()
    geometry: str = ""
    #: uuid, inet4 or inet6: what a BINARY column's bytes are, on a server whose table maps do not say so
    address: str = ""


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table in one schema version, as a TABLE_MAP event describes it."""

    schema: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    #: whether the event names its columns; else all names are empty
    named: bool = True
    #: whether it says which numbers have no sign
    signs_known: bool = True
    #: whether it says which charsets strings have
    charsets_known: bool = True


class _Cursor:
    """Reads numbers and strings off bytes; an overrun is a CorruptEvent."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def take(self, size: int) -> bytes:
        begin, self.at = self.at, self.at + size
        if self.at > self.end:
            raise CorruptEvent("A table map ends inside a field.")
        return self.data[begin : self.at]

    def u8(self) -> int:
        return self.take(1)[0]

    def packed(self) -> int:
        first = self.u8()
        if first < 251:  # noqa: PLR2004 - a length-encoded integer of the protocol
            return first
        return int.from_bytes(self.take({252: 2, 253: 3, 254: 8}.get(first, 0)), "little")

    def text(self) -> str:
        return self.take(self.packed()).decode("utf-8", "replace")

    def __bool__(self) -> bool:
        return self.at < self.end


def table_id(body: bytes, post_header_size: int = 8) -> int:
    """Return the table id that opens a TABLE_MAP or rows event: 6 bytes, or 4 of old servers."""
    return int.from_bytes(body[: 4 if post_header_size == 6 else 6], "little")  # noqa: PLR2004


def table_name(body: bytes, post_header_size: int = 8) -> tuple[str, str]:
    """Return schema and table of a TABLE_MAP event without reading the rest."""
    cursor = _Cursor(body, post_header_size)
    schema = cursor.take(cursor.u8()).decode("utf-8")
    cursor.take(1)
    return schema, cursor.take(cursor.u8()).decode("utf-8")


def parse_table_map(
    body: bytes, *, mariadb: bool, post_header_size: int = 8, names_needed: bool = True
) -> TableMap:
    """Return a TABLE_MAP event's content.

    Args:
        body: the event without header and checksum.
        mariadb: whether MariaDB wrote it: its geometry columns count among those with a charset, and MySQL's
            vectors.
        post_header_size: as the format description says.
        names_needed: whether an event without its columns' names is refused.

    Raises:
        UnsupportedEvent: the metadata is minimal, or a column's type is not known.
        CorruptEvent: lengths do not fit.
    """
    cursor = _Cursor(body, post_header_size)
    schema = cursor.take(cursor.u8()).decode("utf-8")
    cursor.take(1)
    table = cursor.take(cursor.u8()).decode("utf-8")
    cursor.take(1)
    types = cursor.take(cursor.packed())
    meta_end = cursor.packed() + cursor.at
    columns = [_column(number, cursor, f"{schema}.{table}") for number in types]
    for place, column in enumerate(columns, start=1):
        if not _possible(column):
            raise CorruptEvent(f"Column {place} of {schema}.{table} is a {column.type.name} of no such size.")
    if cursor.at != meta_end:
        raise UnsupportedEvent(
            f"Columns of {schema}.{table} are stored in a format that is not known.",
            hint="Old temporal types with fractions are such: ALTER TABLE ... FORCE; rewrites them.",
        )
    cursor.take((len(types) + 7) // 8)  # which columns may be null: a row's own bitmap says which are
    return _described(schema, table, columns, cursor, mariadb=mariadb, names_needed=names_needed)


def _column(number: int, cursor: _Cursor, table: str) -> Column:  # noqa: PLR0911 - one branch a type
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
#: the sizes that a type's metadata may give; types that are not named have none, or any
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
    """Return whether a server can have a column of this size: decoders of rows rely on it."""
    if column.type in (ColumnType.TIMESTAMP2, ColumnType.DATETIME2, ColumnType.TIME2):
        return column.decimals <= _FRACTION_MAX
    if column.type is ColumnType.NEWDECIMAL:
        scale, precision = column.decimals, column.precision
        return 0 < precision <= _PRECISION_MAX and scale <= min(precision, _SCALE_MAX)
    return column.type not in _SIZES or column.size in _SIZES[column.type]


def _array_column(cursor: _Cursor, table: str) -> Column:
    """Return the hidden column of a multi-valued index: a JSON array, which some of MySQL 8.0 log."""
    element = cursor.u8()
    if element not in _ELEMENT_META_SIZE:
        raise UnsupportedEvent(
            f"A column of {table} is an array of type {element}, which is not known.", hint=_NEWER_HINT
        )
    cursor.take(_ELEMENT_META_SIZE[element])
    return Column(ColumnType.JSON, size=_ARRAY_LENGTH_SIZE)


def _string_column(kind: ColumnType, meta: bytes) -> Column:
    """Return a CHAR, BINARY, ENUM or SET column; a length over 255 hides two bits in the type's byte."""
    if meta[0] in (ColumnType.ENUM, ColumnType.SET):
        return Column(ColumnType(meta[0]), size=meta[1])
    return Column(kind, size=(((meta[0] << 4) & 0x300) ^ 0x300) + meta[1])


def _described(
    schema: str,
    table: str,
    columns: list[Column],
    cursor: _Cursor,
    *,
    mariadb: bool,
    names_needed: bool,
) -> TableMap:
    meta = _read_optional(cursor)
    named = len(meta.names) == len(columns)
    if names_needed and not named:
        raise UnsupportedEvent(
            f"The rows of {schema}.{table} come without their columns' names.",
            hint="SET GLOBAL binlog_row_metadata = FULL; and start behind what is logged already.",
        )
    if named:
        if len(set(meta.names)) != len(meta.names):
            raise CorruptEvent(f"Two columns of {schema}.{table} have one name.")
        columns = [replace(column, name=name) for column, name in zip(columns, meta.names, strict=True)]
    character = _CHARACTER | {ColumnType.GEOMETRY if mariadb else ColumnType.VECTOR}
    columns = _with_unsigned(columns, meta)
    columns = _with_collations(columns, character, meta.collations)
    columns = _with_collations(columns, {ColumnType.ENUM, ColumnType.SET}, meta.enum_collations)
    columns = _with_values(columns, meta)
    key = tuple(columns[index].name for index in meta.primary_key if named)
    return TableMap(
        schema, table, tuple(columns), key, named, bool(meta.signs) or named, meta.charsets_known or named
    )


@dataclass(slots=True)
class _Collations:
    default: int = BINARY_COLLATION
    #: index among the columns with a charset -> collation, where it is not the default
    exceptions: dict[int, int] = field(default_factory=dict)

    def __getitem__(self, index: int) -> int:
        return self.exceptions.get(index, self.default)


@dataclass(slots=True)
class _Optional:
    names: list[str] = field(default_factory=list)
    signs: bytes = b""
    collations: _Collations = field(default_factory=_Collations)
    enum_collations: _Collations = field(default_factory=_Collations)
    set_values: list[tuple[bytes, ...]] = field(default_factory=list)
    enum_values: list[tuple[bytes, ...]] = field(default_factory=list)
    geometries: list[int] = field(default_factory=list)
    primary_key: list[int] = field(default_factory=list)
    charsets_known: bool = False


def _read_optional(cursor: _Cursor) -> _Optional:  # noqa: C901, PLR0912 - one branch a field
    found = _Optional()
    while cursor:
        kind, size = cursor.u8(), cursor.packed()
        part = _Cursor(cursor.take(size))
        match kind:
            case _Meta.SIGNEDNESS:
                found.signs = part.data
            case _Meta.DEFAULT_CHARSET:
                found.collations, found.charsets_known = _default_collations(part), True
            case _Meta.COLUMN_CHARSET:
                exceptions = dict(enumerate(_integers(part)))
                found.collations, found.charsets_known = _Collations(exceptions=exceptions), True
            case _Meta.ENUM_AND_SET_DEFAULT_CHARSET:
                found.enum_collations = _default_collations(part)
            case _Meta.ENUM_AND_SET_COLUMN_CHARSET:
                found.enum_collations = _Collations(exceptions=dict(enumerate(_integers(part))))
            case _Meta.COLUMN_NAME:
                while part:
                    found.names.append(part.text())
            case _Meta.SET_STR_VALUE:
                found.set_values = list(_value_lists(part))
            case _Meta.ENUM_STR_VALUE:
                found.enum_values = list(_value_lists(part))
            case _Meta.GEOMETRY_TYPE:
                found.geometries = list(_integers(part))
            case _Meta.SIMPLE_PRIMARY_KEY:
                found.primary_key = list(_integers(part))
            case _Meta.PRIMARY_KEY_WITH_PREFIX:
                found.primary_key = list(_integers(part))[::2]
            case _:  # visibility and later additions describe the table, not its rows
                pass
    return found


def _integers(part: _Cursor) -> Iterator[int]:
    while part:
        yield part.packed()


def _default_collations(part: _Cursor) -> _Collations:
    default, *pairs = _integers(part)
    return _Collations(default, dict(zip(pairs[::2], pairs[1::2], strict=True)))


def _value_lists(part: _Cursor) -> Iterator[tuple[bytes, ...]]:
    while part:
        count = part.packed()
        yield tuple(part.take(part.packed()) for _ in range(count))


def _with_unsigned(columns: list[Column], meta: _Optional) -> list[Column]:
    numeric = [index for index, column in enumerate(columns) if column.type in _NUMERIC]
    for bit, index in enumerate(numeric):
        if bit // 8 < len(meta.signs) and meta.signs[bit // 8] & (0x80 >> bit % 8):
            columns[index] = replace(columns[index], unsigned=True)
    return columns


def _with_collations(columns: list[Column], kinds: set[ColumnType], collations: _Collations) -> list[Column]:
    having = [index for index, column in enumerate(columns) if column.type in kinds]
    for place, index in enumerate(having):
        columns[index] = replace(columns[index], collation=collations[place])
    return columns


def _with_values(columns: list[Column], meta: _Optional) -> list[Column]:
    """Give ENUM and SET columns their values, which stand in the column's own charset."""
    enums, sets, geometries = iter(meta.enum_values), iter(meta.set_values), iter(meta.geometries)
    described = []
    for column in columns:
        values: tuple[bytes, ...] = ()
        geometry = ""
        if column.type is ColumnType.ENUM:
            values = next(enums, ())
        elif column.type is ColumnType.SET:
            values = next(sets, ())
        elif column.type is ColumnType.GEOMETRY:
            number = next(geometries, 0)
            geometry = _GEOMETRY_NAMES[number] if number < len(_GEOMETRY_NAMES) else _GEOMETRY_NAMES[0]
        if values or geometry:
            texts = tuple(_value_text(value, column.collation) for value in values)
            column = replace(column, values=texts, geometry=geometry)  # noqa: PLW2901
        described.append(column)
    return described


def _value_text(value: bytes, collation: int) -> str:
    if collation == BINARY_COLLATION:
        return value.decode("utf-8", "replace")
    codec, errors = text_decoder(charset_of(collation))
    try:
        return value.decode(codec, errors)
    except UnicodeDecodeError:
        return value.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class RowsHead:
    """The fixed part of a rows event: what its images are, before any is read."""

    table_id: int
    column_count: int
    #: whether each image holds every column
    full: bool
    #: where the images begin in the body
    images_at: int


_EXTRA_DATA_MIN = 2


def parse_rows_head(body: bytes, *, version: int, update: bool, post_header_size: int) -> RowsHead:
    """Return the fixed part of a rows event.

    Args:
        body: the event without header and checksum.
        version: 1 or 2; version 2 has a field of extra data before the column count.
        update: whether a second bitmap follows, of the image after the change.
        post_header_size: as the format description says.

    Raises:
        CorruptEvent: lengths do not fit.
    """
    cursor = _Cursor(body)
    cursor.take((4 if post_header_size == 6 else 6) + 2)  # noqa: PLR2004
    if version > 1:
        extra = struct.unpack("<H", cursor.take(2))[0]
        if extra < _EXTRA_DATA_MIN:
            raise CorruptEvent("A rows event's extra data is shorter than its own length.")
        cursor.take(extra - 2)
    count = cursor.packed()
    bitmaps = [cursor.take((count + 7) // 8) for _ in range(2 if update else 1)]
    every = (1 << count) - 1
    full = all(int.from_bytes(bitmap, "little") & every == every for bitmap in bitmaps)
    return RowsHead(table_id(body, post_header_size), count, full, cursor.at)
