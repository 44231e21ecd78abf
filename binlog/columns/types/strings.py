"""Strings: CHAR, VARCHAR, TEXT, their binary forms, those that MariaDB compresses, ENUM and SET."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from binlog.charsets.charsets import charset_of
from binlog.columns.text import text_rule
from binlog.columns.types.column import Column, ColumnType, Extra, TypeRow, sized
from binlog.native.shapes import ColumnPlan

#: longest CHAR or VARCHAR, in bytes, whose stored length has one byte
SHORT_MAX = 255
#: a BLOB's length may have so many bytes
LENGTHS = range(1, 5)
_TEXTS = {1: "tinytext", 2: "text", 3: "mediumtext", 4: "longtext"}
_BLOBS = {1: "tinyblob", 2: "blob", 3: "mediumblob", 4: "longblob"}
_ENUM_SIZES, _SET_SIZES = (1, 2), (1, 2, 3, 4, 8)


def _arrow(column: Column) -> Any:
    if column.address:
        return pa.utf8()
    if column.binary:
        return pa.binary()
    text_rule(charset_of(column.collation))  # raises if its charset cannot be decoded
    return pa.utf8()


def _characters(column: Column, size: int) -> int:
    return size // charset_of(column.collation).width


def _char(column: Column) -> str:
    size = _characters(column, column.size)
    return column.address or f"{'binary' if column.binary else 'char'}({size})"


def _varchar(column: Column) -> str:
    return f"{'varbinary' if column.binary else 'varchar'}({_characters(column, column.size)})"


def _packed_varchar(column: Column) -> str:
    # The size includes the byte that says how it is compressed.
    return f"{'varbinary' if column.binary else 'varchar'}({_characters(column, column.size - 1)})"


def _blob(column: Column) -> str:
    return (_BLOBS if column.binary else _TEXTS)[column.size]


def _length(column: Column) -> int:
    return 1 if column.size <= SHORT_MAX else 2


def _char_plan(column: Column) -> ColumnPlan:
    """Return the plan of a CHAR or BINARY; trailing zeros of the latter are not stored."""
    if column.binary:
        return "binary", _length(column), column.size, ()
    return "string", _length(column), 0, ()


def _read_string(kind: ColumnType, meta: bytes) -> Column:
    """Return a CHAR, BINARY, ENUM or SET column; two bits of a length over 255 are in the type's byte."""
    if meta[0] in (ColumnType.ENUM, ColumnType.SET):
        return Column(ColumnType(meta[0]), size=meta[1])
    return Column(kind, size=(((meta[0] << 4) & 0x300) ^ 0x300) + meta[1])


def _quoted(values: tuple[str, ...]) -> str:
    return ",".join("'" + value.replace("'", "''") + "'" for value in values)


def _listed(kind: ColumnType, sql: str, arrow: Any, sizes: tuple[int, ...]) -> TypeRow:
    return TypeRow(
        kind,
        lambda column: f"{sql}({_quoted(column.values)})",
        lambda _: arrow,
        lambda column: (sql, column.size, 0, tuple(value.encode() for value in column.values)),
        meta_size=2,
        # No server writes this type byte: the metadata of a STRING says it, see `_read_string`.
        read=lambda kind, meta: Column(kind, size=meta[0]),
        possible=lambda column: column.size in sizes,
        extra=Extra.VALUES,
    )


ROWS = (
    *(
        TypeRow(kind, _char, _arrow, _char_plan, meta_size=2, read=_read_string, extra=Extra.CHARSET)
        for kind in (ColumnType.STRING, ColumnType.VAR_STRING)
    ),
    TypeRow(
        ColumnType.VARCHAR,
        _varchar,
        _arrow,
        lambda column: ("string", _length(column), 0, ()),
        meta_size=2,
        read=sized,
        extra=Extra.CHARSET,
    ),
    TypeRow(
        ColumnType.VARCHAR_COMPRESSED,
        _packed_varchar,
        _arrow,
        lambda column: ("packed", _length(column), 0, ()),
        meta_size=2,
        read=sized,
        extra=Extra.CHARSET,
    ),
    TypeRow(
        ColumnType.BLOB,
        _blob,
        _arrow,
        lambda column: ("string", column.size, 0, ()),
        meta_size=1,
        read=sized,
        possible=lambda column: column.size in LENGTHS,
        extra=Extra.CHARSET,
    ),
    TypeRow(
        ColumnType.BLOB_COMPRESSED,
        _blob,
        _arrow,
        lambda column: ("packed", column.size, 0, ()),
        meta_size=1,
        read=sized,
        possible=lambda column: column.size in LENGTHS,
        extra=Extra.CHARSET,
    ),
    _listed(ColumnType.ENUM, "enum", pa.dictionary(pa.int32(), pa.utf8()), _ENUM_SIZES),
    _listed(ColumnType.SET, "set", pa.utf8(), _SET_SIZES),
)

#: `DATA_TYPE` in information_schema -> type
NAMES = {
    "char": ColumnType.STRING,
    "binary": ColumnType.STRING,
    "varchar": ColumnType.VARCHAR,
    "varbinary": ColumnType.VARCHAR,
    **dict.fromkeys((*_TEXTS.values(), *_BLOBS.values()), ColumnType.BLOB),
    "enum": ColumnType.ENUM,
    "set": ColumnType.SET,
    # MariaDB stores these as BINARY.
    "uuid": ColumnType.STRING,
    "inet4": ColumnType.STRING,
    "inet6": ColumnType.STRING,
}
