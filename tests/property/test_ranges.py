"""Gathered ranges are what Arrow's take makes of the same rows, whatever their type and chunks."""

import decimal
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canal_group.merge.rows.ranges import Ranges, ascending, repeated

TEXTS = ["", "a", "größer", "x" * 40, None]
KINDS = [
    (pa.int8(), [0, -1, 127, None]),
    (pa.uint16(), [0, 1, 65535, None]),
    (pa.int32(), [0, -(2**31), None]),
    (pa.uint64(), [0, 2**64 - 1, None]),
    (pa.float64(), [0.5, -1e300, None]),
    (pa.bool_(), [True, False, None]),
    (pa.date32(), [date(2024, 2, 29), None]),
    (pa.timestamp("us"), [datetime(2024, 2, 29, 1, 2, 3), None]),  # noqa: DTZ001  a DATETIME has no zone
    (pa.decimal128(14, 4), [decimal.Decimal("1.5"), None]),
    (pa.decimal256(65, 30), [decimal.Decimal("-1.5"), None]),
    (pa.binary(3), [b"abc", b"\0\0\0", None]),
    (pa.utf8(), TEXTS),
    (pa.binary(), [b"", b"\xff\0", None]),
    (pa.large_utf8(), TEXTS),
    (pa.list_(pa.utf8()), [[], ["a", None], None]),
    (pa.map_(pa.utf8(), pa.utf8()), [[], [("a", "b")], None]),
    (pa.null(), [None]),
    (pa.dictionary(pa.int32(), pa.utf8()), TEXTS),
    (
        pa.struct([("n", pa.int64()), ("t", pa.utf8()), ("b", pa.bool_()), ("l", pa.list_(pa.int8()))]),
        [{"n": 1, "t": "a", "b": True, "l": [1]}, {"n": None, "t": None, "b": False, "l": None}, None],
    ),
]


@st.composite
def columns(draw):
    """A column in chunks that are slices of longer arrays, and ranges of it in any order."""
    kind, values = draw(st.sampled_from(KINDS))
    chunks, ranges, begin = [], [], 0
    for _ in range(draw(st.integers(0, 4))):
        size = draw(st.integers(0, 70))
        skipped, nulls = draw(st.integers(0, 9)), draw(st.booleans())
        known = values if nulls or len(values) == 1 else values[:-1]
        picks = draw(st.lists(st.sampled_from(known), min_size=skipped + size, max_size=skipped + size))
        chunks.append(pa.array(picks, kind).slice(skipped))
        for _ in range(draw(st.integers(0, 4)) if size else 0):
            first = draw(st.integers(0, size - 1))
            ranges.append((begin + first, draw(st.integers(1, size - first))))
        begin += size
    ranges = draw(st.permutations(ranges))
    pairs = np.array(ranges, np.int64).reshape(-1, 2)
    return pa.chunked_array(chunks, kind), pairs[:, 0].copy(), pairs[:, 1].copy()


@given(columns())
def test_gathered_is_taken(given_columns):
    column, first, length = given_columns
    table = pa.table({"column": column}).unify_dictionaries()
    found = Ranges(first, length).table(table)
    found.validate(full=True)
    wanted = table.take(pa.array(ascending(first, length)))
    assert found.schema == table.schema
    assert found.column("column").to_pylist() == wanted.column("column").to_pylist()


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@pytest.mark.parametrize("nulls", [False, True])
def test_values_of_each_kind_are_gathered_with_their_nulls_and_without(kind, values, nulls):
    known = values if nulls or len(values) == 1 else values[:-1]
    chunks = [pa.array((known * 9)[:9], kind).slice(1), pa.array([], kind), pa.array(known[::-1] * 5, kind)]
    table = pa.table({"column": pa.chunked_array(chunks, kind)}).unify_dictionaries()
    first, length = np.array([9, 0, 3]), np.array([len(table) - 9, 8, 1])
    found = Ranges(first, length).table(table)
    found.validate(full=True)
    assert found.to_pylist() == table.take(pa.array(ascending(first, length))).to_pylist()


@given(st.lists(st.tuples(st.sampled_from(TEXTS[:-1]), st.integers(0, 5))), st.integers(0, 3))
def test_texts_are_repeated(pairs, skipped):
    texts = pa.array(["skipped"] * skipped + [text for text, _ in pairs], pa.utf8()).slice(skipped)
    found = repeated(texts, np.array([count for _, count in pairs], np.int64))
    found.validate(full=True)
    assert found.to_pylist() == [text for text, count in pairs for _ in range(count)]


@pytest.mark.parametrize(("first", "length"), [(2, 2), (-1, 1), (5, 1)])
def test_a_range_that_leaves_its_chunk_is_refused(first, length):
    column = pa.chunked_array([pa.array([1, 2, 3]), pa.array([4, 5])])
    with pytest.raises((AssertionError, IndexError)):
        Ranges(np.array([first]), np.array([length])).column(column)
