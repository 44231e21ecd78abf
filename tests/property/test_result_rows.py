"""Rows of a SELECT become the columns that rows of an event become, and bytes of no server's do no harm."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rows import row_images
from support.rows.random_rows import tables
from support.rows.sent_rows import sent_row, sized
from support.soak import cases

from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.native.packets import PacketBuffer
from canal_group.binlog.native.result_rows import read_row, read_rows
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.chunk import Op
from canal_group.merge.values.rows.moments import keys_of
from canal_group.merge.values.types.table import ColumnType

pytestmark = pytest.mark.property
FULL = 0xFFFFFF


def packets(payloads):
    """Return payloads in packets that are numbered from 1 on."""
    found, number = b"", 1
    for payload in payloads:
        for at in range(0, len(payload) + 1, FULL):
            part = payload[at : at + FULL]
            found += len(part).to_bytes(3, "little") + bytes([number % 256]) + part
            number += 1
    return found


def read(schema, payloads, step=1 << 20, bytes_max=1 << 30):
    """Return rows, losses and the last payload of payloads that arrive some bytes at a time."""
    losses = Losses()
    rows, buffer, data = RowsBuilder(schema, losses), PacketBuffer(), packets([*payloads, b"\xfe\0\0\2\0"])
    last = b""
    while True:
        taken, row = read_rows(buffer, rows, bytes_max)
        last = row or last
        if taken:
            continue
        packet = buffer.take()
        if packet is None:
            buffer.make_room()
            with memoryview(buffer) as free:
                size = min(step, len(data), len(free))
                free[:size] = data[:size]
            buffer.received(size)
            data = data[size:]
        elif packet[:1] == b"\xfe":
            return rows.finish(), losses, last
        else:
            read_row(packet, rows)
            last = packet


def logged(columns, rows):
    images = [row_images.image([stored for _, stored in row]) for row in rows]
    return row_images.rows_of(
        columns,
        [
            (
                EventType.WRITE_ROWS,
                row_images.rows_body(EventType.WRITE_ROWS, len(columns), images, extra=b"\0\1"),
            )
        ],
    )


def require_same(selected, logged):
    """Rows are the same, but for what happened to them."""
    assert selected.drop_columns("_op").equals(logged.drop_columns("_op"))
    assert selected.column("_op").to_pylist() == [Op.READ] * len(selected)


@settings(max_examples=cases(300), deadline=None)
@given(tables(), st.integers(1, 3000))
def test_rows_are_those_of_an_event(table, step):
    columns, events = table
    rows = [row[-1] for _, several in events for row in several]
    selected, _, last = read(row_images.schema_of(columns), [sent_row(columns, row) for row in rows], step)
    expected, _ = logged(columns, rows)
    assert selected.schema.equals(expected.schema, check_metadata=True)
    require_same(selected, expected)
    assert last == (sent_row(columns, rows[-1]) if rows else b"")


DATE, DATETIME, STAMP = (
    Column(kind, decimals=6 * (kind != ColumnType.DATE))
    for kind in (ColumnType.DATE, ColumnType.DATETIME2, ColumnType.TIMESTAMP2)
)


@settings(max_examples=cases(100), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 9999),
            st.integers(0, 12),
            st.integers(0, 31),
            st.integers(0, 86_399),
            st.integers(0, 999_999),
        )
    )
)
def test_dates_that_no_calendar_has_keep_their_order(dates):
    """Under their null is which of them it is, as where they come from an event."""
    stored, sent = [], []
    for year, month, day, second, micros in dates:
        clock = second // 3600 << 12 | second // 60 % 60 << 6 | second % 60
        whole = (1 << 17 | (year * 13 + month)) << 22 | day << 17 | clock
        image = (
            (year << 9 | month << 5 | day).to_bytes(3, "little"),
            whole.to_bytes(5, "big") + micros.to_bytes(3, "big"),
            bytes(7),
        )
        stored.append([(image, each) for each in image])
        parts = struct.pack("<HBB", year, month, day)
        sent.append(
            b"\0\0"
            + sized(parts)
            + sized(parts + struct.pack("<BBBI", second // 3600, second // 60 % 60, second % 60, micros))
            + sized(b"")
        )
    columns = [DATE, DATETIME, STAMP]
    selected, losses, _ = read(row_images.schema_of(columns), sent)
    expected, expected_losses = logged(columns, stored)
    require_same(selected, expected)
    assert losses == expected_losses
    for one, other in zip(
        selected.column("after").flatten(), expected.column("after").flatten(), strict=True
    ):
        assert keys_of(one).equals(keys_of(other))


@settings(max_examples=cases(300), deadline=None)
@given(tables(), st.data())
def test_damaged_rows_are_refused_or_read(table, data):
    """What is refused leaves nothing behind; what is read are valid columns."""
    columns, events = table
    rows = [row[-1] for _, several in events for row in several] or [[(None, None)] * len(columns)]
    payload = bytearray(sent_row(columns, data.draw(st.sampled_from(rows))))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(
            st.sampled_from([0, 1, 4, 11, 127, 250, 251, 252, 253, 254, 255])
        )
    payload = bytes(payload)[: data.draw(st.integers(1, len(payload)))] + data.draw(st.binary(max_size=3))
    builder = RowsBuilder(row_images.schema_of(columns), Losses())
    read_row(sent_row(columns, rows[0]), builder)
    try:
        read_row(payload, builder)
    except CorruptEvent:
        assert len(builder) == 1
    found = builder.finish()
    found.validate(full=True)
    assert found.slice(0, 1).equals(read(row_images.schema_of(columns), [sent_row(columns, rows[0])])[0])


def test_a_row_of_several_packets_is_one():
    columns = [Column(ColumnType.BLOB, size=4)]
    value = bytes(FULL - 3)
    for size in (len(value), len(value) + 1, 2 * FULL):
        row = [(b"", row_images.sized(bytes(size), 4))]
        found, _, last = read(row_images.schema_of(columns), [sent_row(columns, row)] * 2)
        assert [len(each["c0"]) for each in found.column("after").to_pylist()] == [size, size]
        assert last == sent_row(columns, row)


def test_a_page_ends_at_its_bytes():
    columns = [Column(ColumnType.LONGLONG, unsigned=True)]
    row = sent_row(columns, [(7, (7).to_bytes(8, "little"))])
    buffer, rows = PacketBuffer(), RowsBuilder(row_images.schema_of(columns), Losses())
    data = packets([row] * 10)
    with memoryview(buffer) as free:
        free[: len(data)] = data
    buffer.received(len(data))
    read_row(row, rows)
    size = rows.held
    assert size >= 8
    assert read_rows(buffer, rows, 3 * size - 1) == (3 * size, row)
    assert read_rows(buffer, rows, 0) == (0, b"")
    assert read_rows(buffer, rows, 1 << 20) == (7 * size, row)
    assert len(rows) == 11


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "1",
        "1.2",
        "1.234",
        "100.00",
        "1.2x",
        "1..0",
        "--1.00",
        "1.00-",
        "+1.00",
        "99999999999999999999.00",
    ],
)
def test_a_decimal_that_its_column_does_not_have_is_refused(text):
    rows = RowsBuilder(
        row_images.schema_of([Column(ColumnType.NEWDECIMAL, precision=4, decimals=2)]), Losses()
    )
    with pytest.raises(CorruptEvent, match="DECIMAL"):
        read_row(b"\0\0" + sized(text.encode()), rows)
    read_row(b"\0\0" + sized(b"-0012.50"), rows)
    assert [str(each["c0"]) for each in rows.finish().column("after").to_pylist()] == ["-12.50"]


ENUM = Column(ColumnType.ENUM, size=1, values=("a", "b"))
TIME = Column(ColumnType.TIME2, decimals=6)
NUMBER = Column(ColumnType.LONGLONG)
NOON = struct.pack("<HBBBBBI", 2020, 2, 29, 12, 0, 0, 1)


@pytest.mark.parametrize(
    ("column", "sent", "fault"),
    [
        (ENUM, (3).to_bytes(8, "little"), "ENUM"),
        (ENUM, (1 << 40).to_bytes(8, "little"), "ENUM"),
        (NUMBER, bytes(9), "contradict"),
        (Column(ColumnType.VECTOR, size=4), sized(bytes(5)), "VECTOR"),
        (DATE, sized(struct.pack("<HBB", 2020, 13, 1)), "impossible digits"),
        (DATE, sized(struct.pack("<HBB", 10_000, 1, 1)), "impossible digits"),
        (DATE, sized(bytes(5)), "impossible digits"),
        (DATETIME, sized(NOON[:4] + b"\x18" + NOON[5:]), "impossible digits"),
        (DATETIME, sized(NOON[:7] + (10**6).to_bytes(4, "little")), "impossible digits"),
        (TIME, sized(struct.pack("<BIBBB", 0, 35, 0, 0, 0)), "impossible digits"),
        (TIME, sized(struct.pack("<BIBBB", 0, 34, 24, 0, 0)), "impossible digits"),
    ],
)
def test_values_that_no_column_has_are_refused(column, sent, fault):
    rows = RowsBuilder(row_images.schema_of([column]), Losses())
    with pytest.raises(CorruptEvent, match=fault):
        read_row(b"\0\0" + sent, rows)
    assert len(rows) == 0


def test_a_row_that_ends_early_is_refused():
    columns = [NUMBER, DATETIME, TIME, Column(ColumnType.BLOB, size=4), ENUM]
    clock = struct.pack("<BIBBBI", 1, 1, 2, 3, 4, 5)
    values = [bytes(8), sized(NOON), sized(clock), sized(bytes(300)), bytes(8)]
    rows = RowsBuilder(row_images.schema_of(columns), Losses())
    whole = b"\0\0" + b"".join(values)
    for size in range(len(whole)):
        with pytest.raises(CorruptEvent, match="end inside"):
            read_row(whole[:size], rows)
    read_row(whole, rows)
    assert len(rows) == 1
