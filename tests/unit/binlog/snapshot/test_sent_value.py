"""How values are sent, and as which literals; how definitions of results are compared with a table's."""

from __future__ import annotations

import struct

import pytest
from support.rows.sent_rows import sized

from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.binlog.snapshot.page_reader import fits
from canal_group.binlog.snapshot.sent_value import SentValue
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.types.table import ColumnType

LATIN1, UTF8MB4 = 8, 45
CLOCK = struct.pack("<BBBI", 23, 59, 58, 1)


@pytest.mark.parametrize(
    ("column", "sent", "literal"),
    [
        (Column(ColumnType.LONGLONG), b"\xff" * 8, "-1"),
        (Column(ColumnType.LONGLONG, unsigned=True), b"\xff" * 8, "18446744073709551615"),
        (Column(ColumnType.INT24), b"\0\0\x80\xff", "-8388608"),
        (Column(ColumnType.YEAR), struct.pack("<H", 2155), "2155"),
        (Column(ColumnType.BIT, size=9), struct.pack("<Q", 257), "257"),
        (Column(ColumnType.FLOAT, size=4), struct.pack("<f", 5592405.5), "5592405.5e0"),
        (Column(ColumnType.FLOAT, size=4), struct.pack("<f", 0.1), "0.10000000149011612e0"),
        (Column(ColumnType.DOUBLE, size=8), struct.pack("<d", 1e300), "1e+300"),
        (Column(ColumnType.NEWDECIMAL, precision=5, decimals=2), sized(b"-1.50"), "-1.50"),
        (Column(ColumnType.DATE), sized(b""), "'0000-00-00'"),
        (Column(ColumnType.DATE), sized(struct.pack("<HBB", 2020, 0, 9)), "'2020-00-09'"),
        (
            Column(ColumnType.DATETIME2, decimals=6),
            sized(struct.pack("<HBB", 9999, 12, 31) + CLOCK),
            "'9999-12-31 23:59:58.000001'",
        ),
        (Column(ColumnType.TIMESTAMP2), sized(b""), "'0000-00-00 00:00:00.000000'"),
        (Column(ColumnType.TIME2), sized(b""), "'00:00:00.000000'"),
        (Column(ColumnType.TIME2), sized(b"\1" + struct.pack("<I", 34) + CLOCK), "'-839:59:58.000001'"),
        (Column(ColumnType.VARCHAR, size=9, collation=LATIN1), sized(b"a'\xe9"), "_latin1 X'6127e9'"),
        (Column(ColumnType.VARCHAR, size=9, collation=UTF8MB4), sized(b""), "_utf8mb4 X''"),
        (Column(ColumnType.VARCHAR, size=9), sized(b"\0'\xff"), "X'0027ff'"),
        (Column(ColumnType.STRING, size=16, address="uuid"), sized(bytes(16)), f"X'{'00' * 16}'"),
        (Column(ColumnType.VARCHAR, size=999), sized(bytes(300)), f"X'{'00' * 300}'"),
    ],
)
def test_a_value_is_a_literal(column, sent, literal):
    """The cursor is at the next value then."""
    value, cursor = SentValue.of(column), ByteCursor(sent + b"next")
    assert value.literal(value.take(cursor)) == literal
    assert cursor.take(4) == b"next"


def defined(kind, collation=63, flags=0):
    names = b"".join(map(sized, (b"def", b"app", b"t", b"t", b"c", b"c")))
    return names + b"\x0c" + struct.pack("<HIBHB", collation, 10, kind, flags, 0) + b"\0\0"


@pytest.mark.parametrize(
    ("column", "definition", "same"),
    [
        (Column(ColumnType.LONG), defined(3), True),
        (Column(ColumnType.LONG), defined(3, flags=32), False),
        (Column(ColumnType.LONG, unsigned=True), defined(3, flags=32), True),
        (Column(ColumnType.LONG), defined(8), False),
        (Column(ColumnType.YEAR), defined(13, flags=32), True),
        (Column(ColumnType.SET, size=1, values=("a",)), defined(8, flags=32), True),
        (Column(ColumnType.SET, size=1, values=("a",)), defined(254), False),
        (Column(ColumnType.DATETIME2), defined(12), True),
        (Column(ColumnType.DATETIME2), defined(7), False),
        (Column(ColumnType.VARCHAR, size=9, collation=UTF8MB4), defined(253, 255), True),
        (Column(ColumnType.VARCHAR, size=9, collation=UTF8MB4), defined(252, 46), True),
        (Column(ColumnType.VARCHAR, size=9, collation=UTF8MB4), defined(253, LATIN1), False),
        (Column(ColumnType.VARCHAR, size=9, collation=UTF8MB4), defined(3), False),
        (Column(ColumnType.STRING, size=16, address="uuid"), defined(253), True),
        (Column(ColumnType.JSON, size=4), defined(245), True),
        (Column(ColumnType.JSON, size=4), defined(252), False),
        (Column(ColumnType.GEOMETRY, size=4), defined(255), True),
    ],
)
def test_a_column_of_a_result_is_compared_with_its_definition(column, definition, same):
    assert fits(definition, SentValue.of(column)) == same


def test_a_definition_that_ends_early_is_refused():
    definition = defined(3)
    for size in range(len(definition) - 2):
        with pytest.raises(CorruptEvent):
            fits(definition[:size], SentValue.of(Column(ColumnType.LONG)))
