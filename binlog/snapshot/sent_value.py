"""Sent values: how a column's values arrive in the binary protocol, and one of them as an SQL literal.

A literal says a value completely: two values of a column have the same literal only if the server sent the
same bytes. It compares with the column as another value of the column does: in its collation, by its type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.columns import plan_of
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.snapshot.key import literal
from canal_group.merge.values.types.table import BY_NAME, TABLE, ColumnType

#: sent as BIGINT UNSIGNED: among strings, a value that an ENUM does not have looks like an empty one
_NUMBERED = {ColumnType.BIT, ColumnType.ENUM, ColumnType.SET}
_BIGINT_BYTES = 8
_REAL = {ColumnType.FLOAT, ColumnType.DOUBLE}
#: kind of a plan -> bytes of its values as they are sent, if that is their size in columns too
_WIDTHS = {"int24": 4, "uint24": 4, "year": 2}
#: type byte in table maps -> in results
_MOMENTS = {
    ColumnType.DATE: ColumnType.DATE,
    **{row.code: row.old for row in TABLE if row.old is not None},
}
_CLOCK_AT = 4


@dataclass(frozen=True, slots=True)
class SentValue:
    """How values of one column are sent."""

    column: Column
    #: what is selected, `{}` is the column's name in quotes
    select: str
    #: type byte of its column in a result; those of strings are not told from each other
    type: ColumnType
    #: returns the next value's bytes, without its length
    take: Callable[[ByteCursor], bytes]
    #: returns the literal of a value's bytes
    literal: Callable[[bytes], str]

    @classmethod
    def of(cls, column: Column) -> SentValue:
        """Return how a column's values are sent."""
        kind, size, *_ = plan_of(column)
        select, sent, width = "{}", column.type, size if kind == "plain" else _WIDTHS.get(kind, 0)
        made: Callable[[bytes], str] = literal
        if sent in _NUMBERED:
            # MariaDB's cast alone is as wide as the column.
            select, sent, width = "CAST({} AS UNSIGNED) | 0", ColumnType.LONGLONG, _BIGINT_BYTES
            made = _unsigned
        elif sent in _REAL:
            made = _real
        elif width:
            made = _unsigned if column.unsigned else _signed
        elif sent in _MOMENTS:
            sent = _MOMENTS[sent]
            made = _LITERALS[sent]
        elif sent is ColumnType.NEWDECIMAL:
            made = _decimal
        elif column.address:
            select = f"CAST({{}} AS BINARY({BY_NAME[column.address].size}))"
        elif not column.binary:
            made = partial(literal, charset=charset_of(column.collation).name)
        return cls(column, select, sent, _fixed(width) if width else _packed, made)


def _fixed(size: int) -> Callable[[ByteCursor], bytes]:
    return lambda cursor: cursor.take(size)


def _packed(cursor: ByteCursor) -> bytes:
    return cursor.take(cursor.packed())


def _unsigned(value: bytes) -> str:
    return literal(int.from_bytes(value, "little"))


def _signed(value: bytes) -> str:
    return literal(int.from_bytes(value, "little", signed=True))


def _real(value: bytes) -> str:
    (number,) = struct.unpack("<f" if len(value) == 4 else "<d", value)  # noqa: PLR2004 - bytes of a FLOAT
    return literal(float(number))


def _decimal(value: bytes) -> str:
    try:
        return literal(Decimal(value.decode("ascii")))
    except (UnicodeDecodeError, InvalidOperation) as error:
        raise CorruptEvent("A DECIMAL of a key is not a number.") from error


def _date(value: bytes) -> str:
    return literal(_day(value))


def _datetime(value: bytes) -> str:
    return literal(f"{_day(value)} {_clock(value[_CLOCK_AT:])}")


def _time(value: bytes) -> str:
    sign, days = (value[0], int.from_bytes(value[1:5], "little")) if value else (0, 0)
    return literal(f"{'-' if sign else ''}{_clock(value[5:], days)}")


def _day(value: bytes) -> str:
    year, month, day = struct.unpack("<HBB", value[:_CLOCK_AT].ljust(_CLOCK_AT, b"\0"))
    return f"{year:04d}-{month:02d}-{day:02d}"


def _clock(value: bytes, days: int = 0) -> str:
    hour, minute, second, fraction = struct.unpack("<BBBI", value.ljust(7, b"\0"))
    return f"{24 * days + hour:02d}:{minute:02d}:{second:02d}.{fraction:06d}"


_LITERALS = {
    ColumnType.DATE: _date,
    ColumnType.TIME: _time,
    ColumnType.DATETIME: _datetime,
    ColumnType.TIMESTAMP: _datetime,
}
