# ruff: noqa: DTZ001 - DATETIME has no zone
"""Random columns and values, and their bytes by a model of the format."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal

from hypothesis import strategies as st
from support.rows import row_images
from support.rows.json_model import json_text

from canal_group.binlog.columns.types.column import Column
from canal_group.binlog.formats.event_types import ROWS, UPDATES, WRITES
from canal_group.merge.values.types.table import ColumnType

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


def expected(event_type, row):
    models = [{f"c{index}": model for index, (model, _) in enumerate(image)} for image in row]
    if event_type in WRITES:
        return 1, None, models[0]
    return (2, *models) if event_type in UPDATES else (3, models[0], None)
