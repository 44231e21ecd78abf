"""Rows as a server sends them to a SELECT in the binary protocol, of the values of `random_rows`."""

from __future__ import annotations

import datetime as dt
import struct

from canal_group.binlog.columns.columns import plan_of
from canal_group.merge.values.types.table import ColumnType

NUMBERED = {ColumnType.BIT, ColumnType.ENUM, ColumnType.SET}


def packed(number):
    if number < 251:
        return bytes([number])
    size, mark = next((size, mark) for size, mark in ((2, 252), (3, 253), (8, 254)) if number < 256**size)
    return bytes([mark]) + number.to_bytes(size, "little")


def sized(value):
    return packed(len(value)) + value


def sent_row(columns, values):
    """Return a row's payload.

    Args:
        columns: of the table.
        values: for each a value, and its bytes in an image; None twice for null.
    """
    nulls = sum(4 << index for index, (value, _) in enumerate(values) if value is None)
    sent = b"".join(
        sent_value(column, *pair) for column, pair in zip(columns, values, strict=True) if pair[0] is not None
    )
    return b"\0" + nulls.to_bytes((len(columns) + 9) // 8, "little") + sent


def sent_value(column, value, stored):  # noqa: PLR0911 - one branch a form
    kind, size, scale, _ = plan_of(column)
    if kind == "plain":
        return stored
    if kind in ("int24", "uint24"):
        return value.to_bytes(4, "little", signed=value < 0)
    if kind == "year":
        return struct.pack("<H", value)
    if column.type in NUMBERED:
        return int.from_bytes(stored, "big" if kind == "bit" else "little").to_bytes(8, "little")
    if kind == "decimal":
        return sized(f"{value:f}".encode())
    if isinstance(value, dt.timedelta):
        return time(value)
    if isinstance(value, dt.date):
        return moment(value)
    if kind == "json":
        return sized(value.encode())
    if kind == "binary":
        return sized(stored[size:].ljust(scale, b"\0"))
    return sized(stored[size:])


def time(value):
    micros = value // dt.timedelta(microseconds=1)
    seconds, fraction = divmod(abs(micros), 10**6)
    clock = struct.pack(
        "<?IBBB", micros < 0, seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60
    )
    return sized((clock + struct.pack("<I", fraction) if fraction else clock) if micros else b"")


def moment(value):
    parts = struct.pack("<HBB", value.year, value.month, value.day)
    if isinstance(value, dt.datetime):
        clock = struct.pack("<BBB", value.hour, value.minute, value.second)
        fraction = struct.pack("<I", value.microsecond) if value.microsecond else b""
        parts += clock + fraction if fraction or any(clock) else b""
    return sized(parts)
