# ruff: noqa: DTZ001 - DATETIME has no zone
"""A transaction as old servers log it."""

from __future__ import annotations

import datetime as dt
import struct

from canal_group.binlog.columns.table_lookup import NoLookup
from canal_group.merge.values.types.table import ColumnType

#: INT, VARCHAR(20), CHAR(5), TIMESTAMP, DATETIME, TIME, DATE, YEAR, ENUM of one byte, BLOB, DECIMAL(5,2)
COLUMNS = [
    (ColumnType.LONG, b""),
    (ColumnType.VARCHAR, b"\x14\0"),
    (ColumnType.STRING, b"\xfe\x05"),
    (ColumnType.TIMESTAMP, b""),
    (ColumnType.DATETIME, b""),
    (ColumnType.TIME, b""),
    (ColumnType.DATE, b""),
    (ColumnType.YEAR, b""),
    (ColumnType.STRING, b"\xf7\x01"),
    (ColumnType.BLOB, b"\x02"),
    (ColumnType.NEWDECIMAL, b"\x05\x02"),
]
ROW = b"".join(
    (
        struct.pack("<i", -5),
        b"\x03\xc3\xa9!",
        b"\x02ab",
        struct.pack("<I", 1_234_567_890),
        struct.pack("<Q", 20090213233130),
        (-11213 & 0xFFFFFF).to_bytes(3, "little"),
        ((2009 << 9) | (2 << 5) | 13).to_bytes(3, "little"),
        bytes([109]),
        b"\x02",
        b"\x02\0\xff\xfe",
        b"\x80\x7b\x2d",
    )
)
VALUES = [
    -5,
    "é!".encode(),
    b"ab",
    dt.datetime(2009, 2, 13, 23, 31, 30, tzinfo=dt.UTC),
    dt.datetime(2009, 2, 13, 23, 31, 30),
    -dt.timedelta(hours=1, minutes=12, seconds=13),
    dt.date(2009, 2, 13),
    2009,
    2,
    b"\xff\xfe",
]


def transaction(file, **options):
    file.query("BEGIN").table_map(COLUMNS, **options)
    return file.insert(COLUMNS, [ROW, ROW], **options).xid()


class Known(NoLookup):
    """Knows one table."""

    def __init__(self, facts):
        self.facts = facts

    def columns(self, table):
        return self.facts if (table.schema, table.table) == ("app", "t") else None
