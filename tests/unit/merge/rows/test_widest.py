"""The widest of several types against the values of each."""

from __future__ import annotations

import itertools
from datetime import date
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from canal_group.merge.rows.joined import widest

INTEGERS = {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()}
ENUM = pa.dictionary(pa.int32(), pa.utf8())
OTHERS = (
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.duration("us"),
    pa.utf8(),
    pa.binary(),
    ENUM,
    pa.list_(pa.float32()),
)


@st.composite
def decimals(draw: st.DrawFn) -> Any:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(30, precision)))
    return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)


TYPES = st.one_of(st.sampled_from(sorted(INTEGERS, key=str)), st.sampled_from(OTHERS), decimals())


def bounds(kind: Any) -> list[Any]:
    """The least and the greatest value of a type, where these say whether another one takes all."""
    if kind in INTEGERS:
        signed = pa.types.is_signed_integer(kind)
        bits = kind.bit_width - signed
        return [-(2**bits) if signed else 0, 2**bits - 1]
    if pa.types.is_decimal(kind):
        digits = "9" * (kind.precision - kind.scale) + "." + "9" * kind.scale
        return [Decimal(f"-{digits}"), Decimal(digits)]
    return {
        pa.float32(): [-1.5, 2.0**24 - 1],
        pa.float64(): [-0.1, 2.0**53 - 1],
        pa.date32(): [date(1, 1, 1), date(9999, 12, 31)],
        pa.timestamp("us"): [-62_135_596_800_000_000, 253_402_300_799_999_999],
        ENUM: ["a", ""],
        pa.utf8(): ["a", "\U0001f600"],
    }.get(kind, [])


@given(st.lists(TYPES, min_size=1, max_size=4), st.randoms())
def test_it_takes_every_value_and_does_not_depend_on_the_order(types: list[Any], random: Any) -> None:
    joined_type = widest(types)
    shuffled = list(types)
    random.shuffle(shuffled)
    assert widest(shuffled) == joined_type
    assert widest([*types, types[0]]) == joined_type
    if joined_type is None:
        return
    for kind in types:
        assert widest([joined_type, kind]) == joined_type, "it is the widest already"
        if joined_type == pa.float64() and kind in (pa.int64(), pa.uint64()):
            continue  # refused value by value
        values = pa.array(bounds(kind), kind)
        if pa.types.is_dictionary(kind):
            values = values.cast(pa.utf8())
        target = joined_type.value_type if pa.types.is_dictionary(joined_type) else joined_type
        assert values.cast(target).cast(values.type).equals(values)


@pytest.mark.parametrize("one", INTEGERS)
@pytest.mark.parametrize("two", INTEGERS)
def test_of_two_integers_no_narrower_one_takes_both(one: Any, two: Any) -> None:
    low, high = (pick(*bounds(one), *bounds(two)) for pick in (min, max))
    fitting = [each for each in INTEGERS if bounds(each)[0] <= low and high <= bounds(each)[1]]
    narrowest = min(fitting, key=lambda each: (each.bit_width, each not in (one, two)), default=None)
    assert widest([one, two]) == (pa.decimal128(20, 0) if narrowest is None else narrowest)


@pytest.mark.parametrize(
    ("types", "together"),
    [
        ([pa.int8(), pa.float32()], pa.float32()),
        ([pa.uint16(), pa.float32()], pa.float32()),
        ([pa.int32(), pa.float32()], pa.float64()),
        ([pa.int64(), pa.float32()], pa.float64()),
        ([pa.int8(), pa.decimal128(4, 2)], pa.decimal128(5, 2)),
        ([pa.decimal128(38, 0), pa.decimal128(10, 10)], pa.decimal256(48, 10)),
        ([pa.decimal256(65, 0), pa.decimal128(30, 30)], None),
        ([pa.decimal128(4, 2), pa.float64()], None),
        ([pa.date32(), pa.timestamp("us")], pa.timestamp("us")),
        ([pa.date32(), pa.timestamp("us", tz="UTC")], None),
        ([pa.utf8(), ENUM], pa.utf8()),
        ([ENUM, ENUM], ENUM),
        ([pa.utf8(), pa.binary()], None),
        ([pa.duration("us"), pa.timestamp("us")], None),
        ([pa.int8(), pa.bool_()], None),
    ],
)
def test_pairs_spelled_out(types: list[Any], together: Any) -> None:
    for order in itertools.permutations(types):
        assert widest(order) == together
