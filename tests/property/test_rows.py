"""Rows written by a model of the format are read back: any columns, any values, any mix of events."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rows import row_images
from support.rows.json_model import json_text
from support.rows.random_rows import ASCII, CODECS, JSON, LATIN1, TEXT, UTF8MB3, UTF8MB4, expected, tables
from support.soak import cases

from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.native import images
from canal_group.merge.errors import CorruptEvent
from canal_group.merge.values.types.table import ColumnType


def body_of(event_type, columns, rows):
    stored = [row_images.image([b for _, b in image]) for row in rows for image in row]
    return row_images.rows_body(event_type, len(columns), stored, extra=b"\0\1")


@settings(max_examples=cases(300), deadline=None)
@given(tables())
def test_what_is_written_is_read(table):
    columns, events = table
    batch, losses = row_images.rows_of(
        columns, [(kind, body_of(kind, columns, rows)) for kind, rows in events]
    )
    found = [(row["_op"], row["before"], row["after"]) for row in batch.to_pylist()]
    assert found == [expected(kind, row) for kind, rows in events for row in rows]
    assert batch["_header"].to_pylist() == [at for at, (_, rows) in enumerate(events) for _ in rows]
    assert (losses.zero_dates, losses.invalid_text) == (0, 0)


@settings(max_examples=cases(200), deadline=None)
@given(tables(), st.data())
def test_a_refused_event_changes_nothing(table, data):
    """1. Each event is first offered cut short. 2. What was refused leaves no trace in what is read."""
    columns, events = table
    losses = row_images.Losses()
    builder = RowsBuilder(row_images.schema_of(columns), losses)
    for header, (kind, rows) in enumerate(events):
        body = body_of(kind, columns, rows)
        options = {"post_header_size": 10, "header": header, "row_begin": 0}
        if rows:
            first = len(body_of(kind, columns, rows[:-1]))
            cut = data.draw(st.integers(first + 1, len(body) - 1)) if first + 1 < len(body) else 0
            with pytest.raises(CorruptEvent):
                builder.add(kind, body[:cut], **options)
        builder.add(kind, body, **options)
    found = [(row["_op"], row["before"], row["after"]) for row in builder.finish().to_pylist()]
    assert found == [expected(kind, row) for kind, rows in events for row in rows]


@settings(max_examples=cases(200), deadline=None)
@given(tables(), st.integers(1, 2_000))
def test_an_event_that_is_read_in_parts_has_the_same_rows(table, held_max):
    columns, events = table
    losses = row_images.Losses()
    whole = RowsBuilder(row_images.schema_of(columns), losses)
    parts = RowsBuilder(row_images.schema_of(columns), losses)
    for header, (kind, rows) in enumerate(events):
        body, at, count, held = body_of(kind, columns, rows), 0, 0, 0
        options = {"post_header_size": 10, "header": header}
        whole.add(kind, body, row_begin=0, **options)
        while not count or at:
            count += parts.add(kind, body, row_begin=count, held_max=held_max, rest_at=at, **options)
            at, held = parts.rest_at, held + parts.held
            assert not at or parts.held >= held_max
            if not rows:
                break
        assert (count, held) == (len(rows), whole.held)
    assert parts.finish().equals(whole.finish())


@settings(max_examples=cases(200), deadline=None)
@given(tables())
def test_rows_count_what_they_hold(table):
    """Beside the values, each buffer may have the offset of its end, and a byte that is not full."""
    columns, events = table
    builder, counted = RowsBuilder(row_images.schema_of(columns), row_images.Losses()), 0
    for header, (kind, rows) in enumerate(events):
        builder.add(kind, body_of(kind, columns, rows), post_header_size=10, header=header, row_begin=0)
        counted += builder.held
    held = builder.finish().get_total_buffer_size()
    buffers = 8 * 2 * len(columns) + sum(len(each) + 4 for column in columns for each in ("", *column.values))
    assert held <= counted + builder.grown + buffers
    assert counted <= 3 * held + buffers


@settings(max_examples=cases(200), deadline=None)
@given(tables(), st.integers(0, 5), st.data())
def test_skipped_and_discarded_rows_leave_no_trace(table, skip, data):
    """1. Of some events, the first rows are skipped. 2. Each event may be taken back, and comes again."""
    columns, events = table
    losses = row_images.Losses()
    builder = RowsBuilder(row_images.schema_of(columns), losses)
    for header, (kind, rows) in enumerate(events):
        body = body_of(kind, columns, rows)
        options = {"post_header_size": 10, "header": header, "row_begin": 0, "skip": skip}
        if data.draw(st.booleans()):
            builder.add(kind, body, **options)
            builder.discard(header)
        assert builder.add(kind, body, **options) == len(rows)
    found = [(row["_op"], row["_row"], row["before"], row["after"]) for row in builder.finish().to_pylist()]
    wanted = [
        (expected(kind, row)[0], at, *expected(kind, row)[1:])
        for kind, rows in events
        for at, row in enumerate(rows)
        if at >= skip
    ]
    assert found == wanted


@settings(max_examples=cases(500), deadline=None)
@given(JSON)
def test_json_is_printed_like_the_model_prints_it(value):
    stored = row_images.json_binary(value)
    assert images.json_text(stored) == json_text(stored)
    assert json.loads(images.json_text(stored)) == value


def opaque_decimal(precision, scale, number):
    number = abs(number) % 10**precision * (-1 if number < 0 else 1)
    return bytes([precision, scale]) + row_images.decimal(number, precision, scale)


OPAQUE = st.one_of(
    st.tuples(st.sampled_from([7, 10, 11, 12]), st.binary(min_size=8, max_size=8)),
    st.tuples(st.sampled_from([0, 15, 252, 255]), st.binary(max_size=200)),
    st.tuples(st.integers(1, 65), st.integers(0, 30), st.integers(-(10**65), 10**65)).map(
        lambda t: (246, opaque_decimal(t[0], min(t[1], t[0]), t[2]))
    ),
)


@settings(max_examples=cases(500), deadline=None)
@given(st.lists(OPAQUE, max_size=5))
def test_opaque_json_is_printed_like_the_model_prints_it(values):
    stored = row_images.json_binary(values)
    assert images.json_text(stored) == json_text(stored)


@settings(max_examples=cases(1000), deadline=None)
@given(JSON, st.data())
def test_damaged_json_is_text_or_refused(value, data):
    stored = bytearray(row_images.json_binary(value))
    for _ in range(data.draw(st.integers(1, 4))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    try:
        text = images.json_text(bytes(stored))
    except ValueError:
        return
    assert text == json_text(bytes(stored)), "what is printed is what the model prints"


def test_json_that_points_at_itself_ends():
    """An array of two entries, both of which are the array itself."""
    itself = b"\2" + struct.pack("<HH", 2, 10) + b"\2\0\0" * 2
    with pytest.raises(ValueError, match="bad_json"):
        images.json_text(itself)


@pytest.mark.parametrize(("depth", "fine"), [(100, True), (101, False)])
def test_json_is_as_deep_as_the_server_allows(depth, fine):
    value = []
    for _ in range(depth):
        value = [value]
    stored = row_images.json_binary(value)
    if fine:
        assert images.json_text(stored) == json_text(stored)
    else:
        for read, error in ((images.json_text, ValueError), (json_text, CorruptEvent)):
            with pytest.raises(error):
                read(stored)


@settings(max_examples=cases(300), deadline=None)
@given(st.sampled_from([*TEXT]), st.lists(st.none() | st.binary(max_size=12), max_size=8))
def test_text_of_any_bytes_is_what_pythons_codec_makes_of_it(collation, stored):
    column = Column(ColumnType.VARCHAR, size=80, collation=collation)
    found, losses = row_images.values_of(column, [None if v is None else bytes([len(v)]) + v for v in stored])
    for value, text in zip(stored, found, strict=True):
        if value is None:
            assert text is None
        elif collation == LATIN1:
            assert text == "".join(bytes([b]).decode("cp1252", "canal_group_c1") for b in value)
        else:
            assert text == value.decode(CODECS[collation], "replace")
    if collation in (ASCII, UTF8MB3, UTF8MB4):
        assert losses.invalid_text == sum(
            not valid(value, CODECS[collation]) for value in stored if value is not None
        )


def valid(value, codec):
    try:
        value.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def test_versions_of_layout():
    """Version 1 has no extra data; old servers write table ids of 4 bytes."""
    column = Column(ColumnType.TINY)
    body = row_images.rows_body(EventType.WRITE_ROWS_V1, 1, [row_images.image([b"\5"])], id_size=4)
    builder = RowsBuilder(row_images.schema_of([column]), row_images.Losses())
    assert builder.add(EventType.WRITE_ROWS_V1, body, post_header_size=6, header=0, row_begin=0) == 1
    assert builder.finish().to_pylist()[0]["after"] == {"c0": 5}
