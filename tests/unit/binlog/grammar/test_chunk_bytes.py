"""Chunks count what rows hold, whatever few bytes of events these come from."""

from __future__ import annotations

import struct
import zlib

import pytest
from support.binlog.binlog_bytes import File, events_of
from support.binlog.decoding import FILE, Reading
from support.defaults import chunk_limits
from support.rows import row_images

from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.grammar import chunk_builder
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent
from canal_group.merge.values.position import Position
from canal_group.merge.values.types.table import ColumnType

#: a SET of 64 members of 200 characters, which is stored in 8 bytes
_SET = [(254, b"\xf8\x08")]
_MEMBERS = [f"{number:0200}".encode() for number in range(64)]
_VALUE = ",".join(member.decode() for member in _MEMBERS)
_CHUNK_BYTES = 100_000


def _field(number, data):
    return bytes([number, 0xFD]) + len(data).to_bytes(3, "little") + data


def _set_file(*events):
    """Return a file with a transaction whose rows events have such values; events are lists of their bits."""
    values = bytes([len(_MEMBERS)]) + b"".join(bytes([len(each)]) + each for each in _MEMBERS)
    tail = _field(4, b"\x01s") + _field(5, values) + _field(10, b"\x2d")
    file = File("8.0.36", SIZES + bytes(3), checksum=False)
    file.query("BEGIN").table_map(_SET, tail=tail)
    for bits in events:
        file.insert(_SET, [struct.pack("<Q", each) for each in bits])
    return file.xid()


SIZES = bytes([56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 84, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 41])
ALL = (1 << 64) - 1


def _read(file, **options):
    reading = Reading(checksum=0, limits=chunk_limits(bytes_max=_CHUNK_BYTES), **options)
    return reading.feed(events_of(file.data)).close()


def test_an_event_of_large_values_fills_many_chunks():
    reading = _read(_set_file([ALL] * 100))
    assert [row["after"]["s"] for row in reading.rows] == [_VALUE] * 100
    assert [row["_row"] for row in reading.rows] == list(range(100))
    sizes = [sum(header["bytes"] for header in chunk.headers) for chunk in reading.chunks]
    assert max(sizes) < _CHUNK_BYTES + 2 * len(_VALUE)
    for chunk, size in zip(reading.chunks, sizes, strict=True):
        assert size >= len(_VALUE) * sum(header["rows"] for header in chunk.headers)


def test_small_values_of_the_same_column_share_a_chunk():
    assert len(_read(_set_file([1] * 100)).chunks) == 1


@pytest.mark.parametrize("rows", [1, 6, 7, 8, 14, 99])
def test_a_stream_goes_on_inside_an_event_that_was_cut(rows):
    file = _set_file([1, *[ALL] * 98, 2])
    start = Position(FILE, 4, rows_into_transaction=rows)
    whole = _read(file)
    assert [row["after"] for row in _read(file, start=start).rows] == [row["after"] for row in whole.rows][
        rows:
    ]


def test_a_damaged_row_at_the_end_lets_none_of_its_event_out():
    """Else an operator who leaves the event out would have rows of it, and no mark in their place."""
    file = _set_file([1], [ALL] * 100)
    events = events_of(file.data)
    damaged = events[-2][:-4]
    events[-2] = damaged[:9] + struct.pack("<I", len(damaged)) + damaged[13:]
    reading = Reading(checksum=0, limits=chunk_limits(bytes_max=_CHUNK_BYTES))
    with pytest.raises(CorruptEvent, match="end inside a value"):
        reading.feed(events, spliced=True)
    reading.close()
    assert [row["after"]["s"] for row in reading.rows] == [_MEMBERS[0].decode()]


def test_a_row_that_is_too_large_is_named_before_it_is_made():
    limits = chunk_limits(bytes_max=_CHUNK_BYTES, row_bytes_max=10_000)
    reading = Reading(checksum=0, limits=limits)
    file = _set_file([1, ALL])
    with pytest.raises(UnsupportedEvent) as stopped:
        reading.feed(events_of(file.data))
    text = str(stopped.value)
    assert "A row of app.t holds more than 10000 bytes" in text
    assert f"its value of column s alone has {len(_VALUE)}" in text
    assert f"shard s1, WRITE_ROWS_V1 (23) at {FILE}:" in text
    assert "Skip the event" in stopped.value.hint
    assert stopped.value.details["skippable"] == 1


@pytest.mark.parametrize("kind", [ColumnType.ENUM, ColumnType.SET])
def test_listed_values_count_as_their_text(kind):
    column = Column(kind, size=1, values=("a" * 2, "b" * 500))
    none = _held([column], [b"\0"])
    assert _held([column], [b"\x01"]) - none == 2
    assert _held([column], [b"\x02"]) - none == 500


def test_padding_counts():
    column = Column(ColumnType.STRING, size=200, collation=63)
    assert _held([column], [b"\x01x"]) >= 200


def test_a_compressed_value_counts_as_it_is_unpacked():
    column = Column(ColumnType.BLOB_COMPRESSED, size=4, collation=63)
    text = bytes(100_000)
    packed = b"\x83" + len(text).to_bytes(3, "big") + zlib.compress(text)
    assert _held([column], [row_images.sized(packed, 4)]) >= len(text)


def test_absent_columns_count():
    """A minimal image of two bytes has the slots of all columns."""
    columns, body = [Column(ColumnType.LONGLONG)] * 1000, bytes(6) + b"\1\0"
    body += b"\xfc\xe8\x03" + b"\1" + bytes(124) + b"\0" + bytes(8)
    builder = RowsBuilder(row_images.schema_of(columns), Losses())
    builder.add(EventType.DELETE_ROWS_V1, body, post_header_size=8, header=0, row_begin=0)
    assert builder.held >= 1000 * 8


def test_the_objects_of_many_columns_count():
    file = File("8.0.36", SIZES + bytes(3), checksum=False)
    columns, names = [(1, b"")] * 100, _field(4, b"".join(b"\x02%02d" % number for number in range(100)))
    file.query("BEGIN")
    for number in range(10):
        file.table_map(columns, number=number, table=f"t{number}", tail=names)
        file.insert(columns, [bytes(100)], number=number)
    headers = Reading(checksum=0).feed(events_of(file.xid().data)).close().headers
    counted = 100 * 10 - chunk_builder.COLUMNS_FREE
    assert sum(int(header["bytes"]) for header in headers) >= counted * chunk_builder.COLUMN_BYTES


def test_text_counts_as_it_is_converted():
    """A byte of cp1252 is up to three of UTF-8."""
    file = File("8.0.36", SIZES + bytes(3), checksum=False)
    columns, text = [(252, b"\x02")], b"\x80" * 1000
    tail = _field(4, b"\x01s") + _field(2, b"\x08")
    file.query("BEGIN").table_map(columns, tail=tail).insert(columns, [row_images.sized(text, 2)])
    (header,) = _read(file.xid()).headers
    assert header["bytes"] >= 3 * len(text)


def _held(columns, values):
    builder = RowsBuilder(row_images.schema_of(columns), Losses())
    body = row_images.rows_body(EventType.WRITE_ROWS, len(columns), [row_images.image(values)])
    builder.add(EventType.WRITE_ROWS, body, post_header_size=10, header=0, row_begin=0)
    held = builder.held
    members = sum(len(each) + 4 for column in columns for each in ("", *column.values))
    assert builder.finish().get_total_buffer_size() <= held + members + 16
    return held
