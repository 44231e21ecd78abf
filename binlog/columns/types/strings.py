"""Strings: CHAR, VARCHAR, TEXT, their binary forms, those that MariaDB compresses, ENUM and SET."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.text import text_rule
from canal_group.binlog.columns.types.column import Column, Extra, Stored, sized
from canal_group.binlog.native.shapes import ColumnPlan
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import TABLE, ColumnType, TypeRow

#: longest CHAR or VARCHAR, in bytes, whose stored length has one byte
SHORT_MAX = 255
#: possible bytes of a BLOB's length
LENGTHS = range(1, 5)
#: names of types by their storage, whether they are of bytes, and the bytes of their values' length
_NAMES: dict[tuple[Storage, bool, int], str] = {
    (row.storage, not row.of_bytes, row.length_size): row.name
    for row in TABLE
    if row.storage in (Storage.CHAR, Storage.VARCHAR, Storage.BLOB) and row.hidden_in is None
}
#: possible bytes of a value
_SIZES = {Storage.ENUM: (1, 2), Storage.SET: (1, 2, 3, 4, 8)}


def listed_size(storage: Storage, values: int) -> int:
    """Return the bytes of a value of an ENUM or a SET.

    Args:
        storage: which of the two; an ENUM is the number of a value, a SET has a bit for each.
        values: how many values the column has.
    """
    bits = values.bit_length() if storage is Storage.ENUM else values
    sizes = _SIZES[storage]
    return next((size for size in sizes if 8 * size >= bits), sizes[-1])


def _arrow(column: Column) -> Any:
    if column.binary:
        return pa.binary()
    text_rule(charset_of(column.collation))  # raises if its charset cannot be decoded
    return pa.utf8()


def _with_size(storage: Storage, column: Column, size: int) -> str:
    return f"{_NAMES[storage, column.binary, 0]}({size // charset_of(column.collation).width})"


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


def _char(row: TypeRow) -> Stored:
    return Stored(
        row.code,
        lambda column: column.address or _with_size(row.storage, column, column.size),
        _arrow,
        _char_plan,
        meta_size=2,
        read=_read_string,
        extra=Extra.CHARSET,
    )


def _varchar(row: TypeRow) -> Stored:
    return Stored(
        row.code,
        lambda column: _with_size(row.storage, column, column.size),
        _arrow,
        lambda column: ("string", _length(column), 0, ()),
        meta_size=2,
        read=sized,
        extra=Extra.CHARSET,
    )


def _blob(row: TypeRow) -> Stored:
    return Stored(
        row.code,
        lambda column: _NAMES[row.storage, column.binary, column.size],
        _arrow,
        lambda column: ("string", column.size, 0, ()),
        meta_size=1,
        read=sized,
        possible=lambda column: column.size in LENGTHS,
        extra=Extra.CHARSET,
    )


def packed(row: TypeRow) -> Stored:
    """Return how values of a row's compressed type are stored."""
    assert row.packed is not None, "the row has a compressed type"
    plain = STORED[row.storage](row)
    stored = replace(plain, type=row.packed, plan=lambda column: ("packed", *plain.plan(column)[1:]))
    if row.storage is Storage.BLOB:
        return stored
    # The size includes the byte that says how it is compressed.
    return replace(stored, sql=lambda column: _with_size(row.storage, column, column.size - 1))


def _quoted(values: tuple[str, ...]) -> str:
    return ",".join("'" + value.replace("'", "''") + "'" for value in values)


def _listed(row: TypeRow) -> Stored:
    return Stored(
        row.code,
        lambda column: f"{row.name}({_quoted(column.values)})",
        lambda _: row.arrow,
        lambda column: (row.name, column.size, 0, tuple(value.encode() for value in column.values)),
        meta_size=2,
        # No server writes this type byte: the metadata of a STRING says it, see `_read_string`.
        read=lambda kind, meta: Column(kind, size=meta[0]),
        possible=lambda column: column.size in _SIZES[row.storage],
        extra=Extra.VALUES,
    )


#: storage -> how values of a row of it are stored
STORED: dict[Storage, Callable[[TypeRow], Stored]] = {
    Storage.CHAR: _char,
    Storage.VARCHAR: _varchar,
    Storage.BLOB: _blob,
    Storage.ENUM: _listed,
    Storage.SET: _listed,
}
