# ruff: noqa: DTZ001 - DATETIME has no zone
"""Stored values become Arrow values."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct

import pytest
from support.rows import row_images
from support.rows.json_model import decimal_text, json_text
from support.rows.row_images import integer, sized

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.columns import field_of, plan_of
from canal_group.binlog.columns.table_map import parse_table_map
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.native import images
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.chunk import MYSQL_TYPE
from canal_group.merge.values.types.table import ColumnType

LATIN1, UTF8MB4 = 8, 255


#: bytes of stored numbers, and the order they stand in
STORED = {
    ColumnType.YEAR: (1, "little"),
    ColumnType.DATE: (3, "little"),
    ColumnType.TIME: (3, "little"),
    ColumnType.DATETIME: (8, "little"),
    ColumnType.TIMESTAMP: (4, "little"),
    ColumnType.TIMESTAMP2: (4, "big"),
    ColumnType.TIME2: (3, "big"),
}


def values_of(column, stored):
    """Decode values that are given as what is stored: numbers, or a string's bytes."""

    def written(value):
        if value is None:
            return None
        if isinstance(value, bytes):
            return sized(value, 1)
        if column.type in (ColumnType.ENUM, ColumnType.SET):
            return integer(value, column.size)
        size, order = STORED[column.type]
        size += (column.decimals + 1) // 2
        return (value % (1 << 8 * size)).to_bytes(size, order)

    return row_images.values_of(column, [written(value) for value in stored])


def test_years():
    assert values_of(Column(ColumnType.YEAR), [0, 1, 255, None])[0] == [0, 1901, 2155, None]


def test_zero_dates_are_null_and_counted():
    stored = [0, 2026 << 9 | 0 << 5 | 10, 2026 << 9 | 2 << 5 | 31, 2026 << 9 | 2 << 5 | 28, None]
    values, losses = values_of(Column(ColumnType.DATE), stored)
    assert values == [None, None, None, dt.date(2026, 2, 28), None]
    assert losses.zero_dates == 3


def test_zero_timestamps_are_null_and_counted():
    values, losses = values_of(Column(ColumnType.TIMESTAMP2, decimals=0), [0, 1])
    assert values == [None, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)]
    assert losses.zero_dates == 1


@pytest.mark.parametrize(
    ("decimals", "stored", "expected"),
    [
        (0, 0x800000, dt.timedelta()),
        (0, 0x800001, dt.timedelta(seconds=1)),
        (0, 0x7FFFFF, -dt.timedelta(seconds=1)),
        (2, 0x7FFFFFCE, -dt.timedelta(milliseconds=500)),
        (3, 0x7FFFFFEC78, -dt.timedelta(milliseconds=500)),
        (6, 0x7FFFFFFFFFFF, -dt.timedelta(microseconds=1)),
        (6, 0x800000000001, dt.timedelta(microseconds=1)),
    ],
)
def test_times_carry_their_sign_into_the_fraction(decimals, stored, expected):
    assert values_of(Column(ColumnType.TIME2, decimals=decimals), [stored])[0] == [expected]


def test_temporal_types_from_before_mysql_56():
    assert values_of(Column(ColumnType.DATETIME), [20260203040506, 0])[0] == [
        dt.datetime(2026, 2, 3, 4, 5, 6),
        None,
    ]
    assert values_of(Column(ColumnType.TIME), [-8385959, 10203])[0] == [
        -dt.timedelta(hours=838, minutes=59, seconds=59),
        dt.timedelta(hours=1, minutes=2, seconds=3),
    ]
    assert values_of(Column(ColumnType.TIMESTAMP), [1])[0] == [
        dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    ]


def test_enums_and_sets():
    enum = Column(ColumnType.ENUM, size=1, values=("a", "it's"))
    assert values_of(enum, [0, 1, 2, None])[0] == ["", "a", "it's", None]
    assert field_of(enum).metadata[MYSQL_TYPE] == b"enum('a','it''s')"
    with pytest.raises(CorruptEvent, match="ENUM"):
        values_of(enum, [3])
    members = Column(ColumnType.SET, size=8, values=tuple(f"v{i}" for i in range(64)))
    assert values_of(members, [0, 5, 1 << 63])[0] == ["", "v0,v2", "v63"]


def test_undefined_bytes_of_latin1_are_read_as_the_server_reads_them():
    column = Column(ColumnType.VARCHAR, size=5, collation=LATIN1)
    assert values_of(column, [b"\x80\x81\x9d"])[0] == ["€\x81\x9d"]


def test_text_invalid_in_its_charset_is_counted():
    values, losses = values_of(Column(ColumnType.VARCHAR, size=40, collation=UTF8MB4), [b"a\xff", b"b"])
    assert values == ["a�", "b"]
    assert losses.invalid_text == 1


@pytest.mark.parametrize(
    ("collation", "name"),
    [
        (8, "latin1"),
        (45, "utf8mb4"),
        (63, "binary"),
        (255, "utf8mb4"),
        (1070, "utf8mb4"),
        (2048, "utf8mb3"),
        (2304, "utf8mb4"),
    ],
)
def test_collations(collation, name):
    assert charset_of(collation).name == name


def test_a_collation_that_no_server_has_is_refused():
    with pytest.raises(UnsupportedEvent, match="9999"):
        charset_of(9999)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1.5, "1.5"),
        (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (1234567890123456.5, "1234567890123456.5"),
        (1e300, "1e300"),
        (-2.5e-7, "-0.00000025"),
        (1e-16, "1e-16"),
    ],
)
def test_doubles_in_json_print_as_select_prints_them(value, text):
    stored = b"\x0b" + struct.pack("<d", value)
    assert images.json_text(stored) == json_text(stored) == text


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_malformed_number_is_damaged_json(value):
    with pytest.raises(ValueError, match="bad_json"):
        images.json_text(b"\x0b" + struct.pack("<d", value))


def test_decimals_in_json():
    assert decimal_text(bytes.fromhex("8000000c0159"), 10, 3) == "12.345"
    assert decimal_text(bytes.fromhex("7ffffff3fea6"), 10, 3) == "-12.345"
    assert decimal_text(bytes.fromhex("8001"), 4, 4) == "0.0001"


@pytest.mark.parametrize("value", [b"\x00\x01", b"\x0c\x7fab", b"\x09\x01", b"\x0d", b"\x00\xff\xff\xff\xff"])
def test_damaged_json_is_corrupt(value):
    with pytest.raises(CorruptEvent):
        json_text(value)


def table_of(columns):
    """Return the columns of a hand-made MySQL table map; `columns` are (type, metadata bytes)."""
    body = bytes(8) + b"\3app\0\1t\0" + bytes([len(columns)]) + bytes(kind for kind, _ in columns)
    meta = b"".join(each for _, each in columns)
    body += bytes([len(meta)]) + meta + bytes((len(columns) + 7) // 8)
    return parse_table_map(body, mariadb=False).columns


def test_types_that_few_servers_write():
    """A multi-valued index's hidden column is JSON of any element; NEWDATE is a DATE."""
    arrays = [b"\x0f\0\1\0", b"\xf6\x05\x02", b"\x12\x06", b"\x08", b"\x0e"]
    columns = table_of([*((ColumnType.TYPED_ARRAY, meta) for meta in arrays), (14, b""), (3, b"")])
    assert [column.type for column in columns] == [ColumnType.JSON] * 5 + [ColumnType.DATE, ColumnType.LONG]
    assert plan_of(columns[0]) == ("json", 4, 0, ())


@pytest.mark.parametrize(
    ("column", "hint"),
    [((0, b"\5"), "MySQL 4.1"), ((200, b""), "newer than this"), ((20, b"\3"), "newer than this")],
)
def test_types_that_are_refused(column, hint):
    with pytest.raises(UnsupportedEvent) as caught:
        table_of([column])
    assert hint in caught.value.hint


@pytest.mark.parametrize("size", [0, 1, 56, 57, 58, 114, 200])
def test_long_opaque_values_have_line_breaks_as_mysql_prints_them(size):
    value = bytes(range(size))
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    stored = b"\x0f\x0f" + length + value
    shown = json_text(stored)
    kind, _, printed = json.loads(shown).rpartition(":")
    assert (kind, base64.b64decode(printed)) == ("base64:type15", value)
    assert all(len(line) == 76 for line in printed.split("\n")[:-1])
    assert max(map(len, printed.split("\n"))) <= 76
    assert images.json_text(stored) == shown
