# ruff: noqa: DTZ001 - DATETIME has no zone
"""Rows written by a model of the format are read back: any columns, any values, any mix of events."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rows import row_images
from support.rows.json_model import json_text
from support.soak import cases

from binlog.columns.rows import RowsBuilder
from binlog.columns.types.column import Column
from binlog.formats.event_types import ROWS, UPDATES, WRITES, EventType
from binlog.native import images
from merge.errors import CorruptEvent
from merge.values.types.table import ColumnType

LATIN1, ASCII, GBK, UTF16, LATIN2, UTF8MB3, UTF8MB4 = 8, 11, 28, 54, 2, 33, 255
CODECS = {
    ASCII: "ascii",
    GBK: "gbk",
    UTF16: "utf_16_be",
    LATIN2: "iso8859_2",
    UTF8MB3: "utf-8",
    UTF8MB4: "utf-8",
}
WIDTHS = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}
#: text that its charset has; latin1's is cp1252 with C1 controls
TEXT = {
    LATIN1: st.binary(max_size=20).map(lambda b: bytes(x for x in b if x not in range(0x80, 0xA0))),
    ASCII: st.binary(max_size=20).map(lambda b: bytes(x & 0x7F for x in b)),
    GBK: st.text("中文 abc汉字", max_size=9).map(lambda t: t.encode("gbk")),
    UTF16: st.text(max_size=9).map(lambda t: t.encode("utf_16_be")),
    LATIN2: st.text("ąčž abc", max_size=9).map(lambda t: t.encode("iso8859_2")),
    UTF8MB3: st.text(max_size=20).map(str.encode),
    UTF8MB4: st.text(st.characters(codec="utf-8"), max_size=20).map(str.encode),
}
FRACTIONS = st.integers(0, 6)


def truncated(micros, digits):
    """A fraction is stored in pairs of digits."""
    step = 100 ** (3 - (digits + 1) // 2)
    return micros // step * step


@st.composite
def integers(draw):
    kind, unsigned = draw(st.sampled_from(list(WIDTHS))), draw(st.booleans())
    size = WIDTHS[kind]
    low, high = (0, 2 ** (8 * size) - 1) if unsigned else (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1)
    values = st.integers(low, high).map(lambda v: (v, row_images.integer(v, size)))
    return Column(kind, unsigned=unsigned), values


@st.composite
def decimals(draw):
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(30, precision)))
    limit = 10**precision - 1

    def pair(number):
        digits = tuple(int(digit) for digit in str(abs(number)))
        return Decimal((number < 0, digits, -scale)), row_images.decimal(number, precision, scale)

    return Column(ColumnType.NEWDECIMAL, precision=precision, decimals=scale), st.integers(-limit, limit).map(
        pair
    )


@st.composite
def datetimes(draw):
    digits, kind = draw(FRACTIONS), draw(st.sampled_from(["datetime", "timestamp", "time"]))
    if kind == "time":
        micros = st.integers(-3_020_399_999_999, 3_020_399_999_999)

        def pair(number):
            value = dt.timedelta(microseconds=int(math.copysign(truncated(abs(number), digits), number)))
            return value, row_images.time2(value, digits)

        return Column(ColumnType.TIME2, decimals=digits), micros.map(pair)
    if kind == "datetime":
        moments = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)).map(
            lambda m: m.replace(microsecond=truncated(m.microsecond, digits))
        )
        return (
            Column(ColumnType.DATETIME2, decimals=digits),
            moments.map(lambda m: (m, row_images.datetime2(m, digits))),
        )
    moments = st.integers(1, 2**32 - 1).flatmap(
        lambda s: st.integers(0, 999_999).map(
            lambda us: row_images.EPOCH + dt.timedelta(seconds=s, microseconds=truncated(us, digits))
        )
    )
    return (
        Column(ColumnType.TIMESTAMP2, decimals=digits),
        moments.map(lambda m: (m, row_images.timestamp2(m, digits))),
    )


def old_temporal():
    seconds = st.integers(-3_020_399, 3_020_399).map(lambda s: dt.timedelta(seconds=s))
    moments = st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 31)).map(
        lambda m: m.replace(microsecond=0)
    )
    return st.sampled_from(
        [
            (Column(ColumnType.TIME), seconds.map(lambda v: (v, row_images.old_time(v)))),
            (Column(ColumnType.DATETIME), moments.map(lambda v: (v, row_images.old_datetime(v)))),
            (Column(ColumnType.DATE), st.dates().map(lambda v: (v, row_images.date(v)))),
            (
                Column(ColumnType.TIMESTAMP),
                st.integers(1, 2**32 - 1).map(
                    lambda s: (row_images.EPOCH + dt.timedelta(seconds=s), struct.pack("<I", s))
                ),
            ),
        ]
    )


@st.composite
def strings(draw):
    kind = draw(st.sampled_from([ColumnType.VARCHAR, ColumnType.STRING, ColumnType.BLOB]))
    collation = draw(st.sampled_from([*TEXT, 63]))
    size = draw(st.integers(1, 4)) if kind is ColumnType.BLOB else draw(st.sampled_from([80, 255, 256, 1020]))
    length = size if kind is ColumnType.BLOB else 1 if size < 256 else 2
    values = st.binary(max_size=80) if collation == 63 else TEXT[collation]

    def pair(stored):
        if collation != 63:
            codec = "latin-1" if collation == LATIN1 else CODECS[collation]
            return stored.decode(codec), row_images.sized(stored, length)
        padded = stored.ljust(size, b"\0") if kind is ColumnType.STRING else stored
        return padded, row_images.sized(stored, length)

    return Column(kind, size=size, collation=collation), values.map(pair)


@st.composite
def enums_and_sets(draw):
    values = tuple(draw(st.lists(st.text("abc'ü", min_size=1, max_size=5), min_size=1, max_size=64)))
    if draw(st.booleans()):
        size = draw(st.integers(1, 2))
        index = st.integers(0, len(values))
        column = Column(ColumnType.ENUM, size=size, values=values, collation=UTF8MB4)
        return column, index.map(lambda i: (("", *values)[i], row_images.integer(i, size)))
    size = next(size for size in (1, 2, 3, 4, 8) if size * 8 >= len(values))
    column = Column(ColumnType.SET, size=size, values=values, collation=UTF8MB4)
    bits = st.integers(0, 2 ** len(values) - 1)
    return column, bits.map(
        lambda b: (",".join(v for i, v in enumerate(values) if b >> i & 1), row_images.integer(b, size))
    )


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=200),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=6), inner, max_size=6),
    max_leaves=30,
)


@st.composite
def others(draw):
    bits = draw(st.integers(1, 64))
    bit = Column(ColumnType.BIT, size=bits)
    floats = st.floats(width=32, allow_nan=False)
    return draw(
        st.sampled_from(
            [
                (Column(ColumnType.FLOAT, size=4), floats.map(lambda v: (v, struct.pack("<f", v)))),
                (
                    Column(ColumnType.DOUBLE, size=8),
                    st.floats(allow_nan=False).map(lambda v: (v, struct.pack("<d", v))),
                ),
                (
                    Column(ColumnType.YEAR),
                    st.integers(0, 255).map(lambda v: (v + 1900 if v else 0, bytes([v]))),
                ),
                (
                    bit,
                    st.integers(0, 2**bits - 1).map(lambda v: (v, v.to_bytes((bits + 7) // 8, "big"))),
                ),
                (
                    Column(ColumnType.GEOMETRY, size=4),
                    st.binary(max_size=50).map(lambda v: (v, row_images.sized(v, 4))),
                ),
                (
                    Column(ColumnType.VECTOR, size=4),
                    st.lists(floats, max_size=9).map(
                        lambda v: (v, row_images.sized(struct.pack(f"<{len(v)}f", *v), 4))
                    ),
                ),
                (
                    Column(ColumnType.JSON, size=4),
                    JSON.map(row_images.json_binary).map(lambda v: (json_text(v), row_images.sized(v, 4))),
                ),
            ]
        )
    )


COLUMN = st.one_of(integers(), decimals(), datetimes(), old_temporal(), strings(), enums_and_sets(), others())


@st.composite
def tables(draw):
    """Return columns, and events: type, and per row the images as pairs of model values and bytes."""
    columns = draw(st.lists(COLUMN, min_size=1, max_size=20))
    row = st.tuples(*(st.none().map(lambda _: (None, None)) | values for _, values in columns))
    events = []
    for _ in range(draw(st.integers(0, 5))):
        event_type = draw(st.sampled_from(sorted(ROWS)))
        images_a_row = 2 if event_type in UPDATES else 1
        rows = draw(st.lists(st.lists(row, min_size=images_a_row, max_size=images_a_row), max_size=20))
        events.append((event_type, rows))
    return [column for column, _ in columns], events


def body_of(event_type, columns, rows):
    stored = [row_images.image([b for _, b in image]) for row in rows for image in row]
    return row_images.rows_body(event_type, len(columns), stored, extra=b"\0\1")


def expected(event_type, row):
    models = [{f"c{index}": model for index, (model, _) in enumerate(image)} for image in row]
    if event_type in WRITES:
        return 1, None, models[0]
    return (2, *models) if event_type in UPDATES else (3, models[0], None)


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
