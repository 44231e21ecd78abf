"""The compiled texts of values: buffers that do not fit are refused, and numbers print as slow words say."""

from __future__ import annotations

import random
import struct
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from canal_group.merge.rows.native.text import Values
from canal_group.merge.rows.text import text

FIXED = {
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "uint64": 8,
    "float": 4,
    "double": 8,
    "decimal": 16,
    "wide_decimal": 32,
    "time": 8,
}
DAY_US = 86_400_000_000


def buffer(*values, kind=np.int32):
    return pa.py_buffer(np.array(values, kind))


def strings(ends, data=b"abcdef", *, kind="text", rows=None, offset=0, valid=None):
    text_data = pa.py_buffer(data) if data is not None else None
    return Values(kind, len(ends) - 1 if rows is None else rows, offset, [valid, buffer(*ends), text_data])


def printed(values):
    ends, data = values.texts()
    return [data[begin:end].tobytes().decode() for begin, end in pairwise(ends)]


def test_texts_of_a_slice_are_its_own():
    assert printed(strings([0, 2, 2, 6], rows=2, offset=1)) == ["", "cdef"]
    assert printed(strings([0, 1, 3], b"a\xe9b", kind="latin1")) == ["a", "éb"]
    assert printed(strings([0], None)) == []


def test_a_null_has_no_text_for_any_memory():
    moments = buffer(0, -(1 << 63), kind=np.int64)
    assert printed(Values("datetime", 2, 0, [pa.py_buffer(b"\x01"), moments])) == ["1970-01-01 00:00:00", ""]
    indexes = buffer(0, 1 << 30)
    values = Values("dictionary", 2, 0, [pa.py_buffer(b"\x01"), indexes], members=strings([0, 3]))
    assert printed(values) == ["abc", ""]


@pytest.mark.parametrize("ends", [(0, 2, 7), (-1, 2, 3), (0, 4, 2), (1 << 30, (1 << 30) + 1)])
@pytest.mark.parametrize("kind", ["text", "latin1"])
def test_texts_outside_of_their_bytes_are_refused(ends, kind):
    with pytest.raises(ValueError, match=r"a text|without the values"):
        strings(ends, kind=kind)


@pytest.mark.parametrize(
    "changed",
    [{"rows": 3}, {"rows": 2, "offset": 1}, {"rows": -1}, {"offset": -1}, {"rows": 1 << 40}, {"data": None}],
)
def test_offsets_that_are_not_there_are_refused(changed):
    with pytest.raises(ValueError, match="a column"):
        strings([0, 1, 2], **changed)


@pytest.mark.parametrize("kind", FIXED)
def test_values_that_are_not_there_are_refused(kind):
    memory = pa.py_buffer(bytes(4 * FIXED[kind]))
    Values(kind, 3, 1, [None, memory])
    for rows, offset, buffers in (
        (4, 1, [None, memory]),
        (1, 4, [None, memory]),
        (1, 0, [None, None]),
        (4, 0, [pa.py_buffer(b""), memory]),
    ):
        with pytest.raises(ValueError, match="a column without"):
            Values(kind, rows, offset, buffers)


def test_a_validity_bitmap_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="a column without"):
        Values("int8", 9, 0, [pa.py_buffer(b"\xff"), pa.py_buffer(bytes(9))])


@pytest.mark.parametrize(
    ("kind", "digits"), [("decimal", 39), ("wide_decimal", 77), ("datetime", 7), ("time", -1), ("int8", 1)]
)
def test_digits_that_a_kind_cannot_have_are_refused(kind, digits):
    with pytest.raises(ValueError, match="a number of digits"):
        Values(kind, 0, 0, [None, None], digits=digits)


@pytest.mark.parametrize("index", [-1, 1, 2, -(1 << 31)])
def test_values_that_a_dictionary_does_not_have_are_refused(index):
    members = strings([0, 3, 4], valid=pa.py_buffer(b"\x01"))
    with pytest.raises(ValueError, match="its dictionary does not have"):
        Values("dictionary", 1, 0, [None, buffer(index)], members=members)


def test_a_dictionary_has_texts_and_nothing_else_has():
    for kind, members in (("dictionary", None), ("int32", strings([0, 1]))):
        with pytest.raises(ValueError, match="a dictionary without"):
            Values(kind, 1, 0, [None, buffer(0)], members=members)


@pytest.mark.parametrize("day", [-719_529, 2_932_897, -106_751_991, 106_751_991])
def test_dates_of_other_years_are_refused(day):
    with pytest.raises(ValueError, match="no year from 0 to 9999"):
        Values("datetime", 1, 0, [None, buffer(day * DAY_US, kind=np.int64)])


def test_every_day_of_the_calendar_prints_as_python_prints_it():
    # The first and the last days, and those around every turn of a month of four centuries.
    first, last = date(1, 1, 1), date(9999, 12, 31)
    days = {first, last, last - timedelta(1), first + timedelta(1)}
    for year in (*range(1, 402), *range(1_896, 2_106), 9_998):
        for month in range(1, 13):
            days |= {
                date(year, month, 1),
                date(year, month, 1) - timedelta(1 if (year, month) > (1, 1) else 0),
            }
    ordered = sorted(days)
    micros = np.array([(day - date(1970, 1, 1)).days for day in ordered], np.int64) * DAY_US
    texts = text(pa.array(micros).cast(pa.timestamp("us")), "datetime").to_pylist()
    assert texts == [f"{day.isoformat()} 00:00:00" for day in ordered]
    leap = text(pa.array([-719_528 * DAY_US, -719_469 * DAY_US]).cast(pa.timestamp("us")), "datetime")
    assert leap.to_pylist() == ["0000-01-01 00:00:00", "0000-02-29 00:00:00"]


def test_numbers_of_every_length_print_alike():
    values = [sign * (10**power + more) for power in range(19) for more in (-1, 0, 1) for sign in (1, -1)]
    assert text(pa.array(values, pa.int64())).to_pylist() == [str(value) for value in values]
    large = [10**power + more for power in range(20) for more in (-1, 0, 1)]
    assert text(pa.array(large, pa.uint64())).to_pylist() == [str(value) for value in large]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_doubles_have_the_digits_that_arrow_prints(kind):
    chance, width = random.Random(7), kind.bit_width // 8
    # Below a power of two the next number is half as far away as above it.
    fraction_bits, exponents = (52, 0x7FF) if width == 8 else (23, 0xFF)
    powers = [exponent << fraction_bits for exponent in range(exponents)]
    bits = [chance.getrandbits(8 * width) for _ in range(20_000)]
    bits += [each + more for each in powers[1:] for more in (-1, 0, 1)]
    bits += [1 << bit for bit in range(8 * width)] + [(1 << bit) - 1 for bit in range(8 * width + 1)]
    values = pa.array(np.frombuffer(b"".join(each.to_bytes(width, "little") for each in bits), f"<f{width}"))
    assert _digits(text(values, "")) == _digits(values.cast(pa.utf8()))


def _digits(texts):
    """Digits without point, zeros at both ends and exponent, and the number that they are."""
    return [
        (each.partition("e")[0].replace(".", "").strip("-0"), struct.pack("<d", float(each)))
        for each in texts.to_pylist()
    ]
