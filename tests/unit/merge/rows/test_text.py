"""Column values as text, against literal expectations and against Python's own formatting."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rows.number_texts import NUMBERS, double_text

from canal_group.merge.rows.text import text

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - DATETIME has no zone


def micros(hours, minutes=0, seconds=0, fraction=0):
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction


CASES = {
    **{name: (kind, name, [None, *given], [None, *ours]) for name, (kind, given, ours) in NUMBERS.items()},
    "tinyint": (pa.int8(), "tinyint", [-128, 0, None, 127], ["-128", "0", None, "127"]),
    "bit": (pa.uint64(), "bit(64)", [5, 2**64 - 1], ["5", "18446744073709551615"]),
    "year": (pa.int16(), "year", [2024, 0, None], ["2024", "0000", None]),
    "year(4)": (pa.int16(), "YEAR(4)", [1901], ["1901"]),
    "date": (
        pa.date32(),
        "date",
        [date(2024, 2, 29), date(1, 1, 1), None, date(9999, 12, 31)],
        ["2024-02-29", "0001-01-01", None, "9999-12-31"],
    ),
    "datetime": (pa.timestamp("us"), "datetime", [0, 1, None], ["1970-01-01 00:00:00"] * 2 + [None]),
    "datetime(3)": (
        pa.timestamp("us"),
        "datetime(3)",
        [1_700_000_000_123_000, -1_000, None],
        ["2023-11-14 22:13:20.123", "1969-12-31 23:59:59.999", None],
    ),
    "datetime(1)": (pa.timestamp("us"), "datetime(1)", [100_000], ["1970-01-01 00:00:00.1"]),
    "datetime(6)": (pa.timestamp("us"), "datetime(6)", [1], ["1970-01-01 00:00:00.000001"]),
    "datetime of unknown type": (pa.timestamp("us"), "", [1], ["1970-01-01 00:00:00.000001"]),
    "timestamp": (pa.timestamp("us", "UTC"), "timestamp", [1_000_000], ["1970-01-01 00:00:01"]),
    "timestamp(2)": (pa.timestamp("us", "UTC"), "timestamp(2)", [10_000], ["1970-01-01 00:00:00.01"]),
    "time": (
        pa.duration("us"),
        "time",
        [0, micros(1, 2, 3), -micros(1, 2, 3), micros(838, 59, 59), -micros(838, 59, 59), None],
        ["00:00:00", "01:02:03", "-01:02:03", "838:59:59", "-838:59:59", None],
    ),
    "time(6)": (
        pa.duration("us"),
        "time(6)",
        [-1, micros(100, 0, 0, 20), micros(0, 0, 59, 999_999), micros(0, 59, 59, 999_999)],
        ["-00:00:00.000001", "100:00:00.000020", "00:00:59.999999", "00:59:59.999999"],
    ),
    "time of unknown type": (pa.duration("us"), "", [micros(1, 2, 3, 4)], ["01:02:03.000004"]),
    "time(1)": (pa.duration("us"), "time(1)", [micros(0, 0, 9, 500_000)], ["00:00:09.5"]),
    "binary": (
        pa.binary(),
        "blob",
        [b"abc", b"", None, b"\x00\x7f\x80\xff", "é".encode()],
        ["abc", "", None, "\x00\x7f\x80\xff", "Ã©"],
    ),
    "ascii binary": (pa.binary(), "varbinary(9)", [b"abc", None], ["abc", None]),
    "fixed binary": (pa.binary(2), "binary(2)", [b"a\xe9", None], ["aé", None]),
    "large binary": (pa.large_binary(), "longblob", [b"\xe9"], ["é"]),
    "geometry": (pa.binary(), "geometry", [b"\xe6\x10\x00\x00\x01"], ["æ\x10\x00\x00\x01"]),
    "enum": (pa.dictionary(pa.int32(), pa.utf8()), "enum('a','b')", ["b", None, "a"], ["b", None, "a"]),
    "set": (pa.utf8(), "set('a','b')", ["a,b", "", None], ["a,b", "", None]),
    "json": (pa.utf8(), "json", ['{"a": 1}', None], ['{"a": 1}', None]),
    "yearly text": (pa.utf8(), "varchar(4)", ["x"], ["x"]),
    "vector": (
        pa.list_(pa.float32()),
        "vector(2)",
        [[1, 2], None, [], [0.5, -1e20]],
        ["[1,2]", None, "[]", "[0.5,-1e20]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_print_as_the_server_prints_them(name):
    kind, mysql_type, values, expected = CASES[name]
    array = pa.array(values, kind)
    assert text(array, mysql_type).type == pa.utf8()
    assert text(array, mysql_type).to_pylist() == expected


@pytest.mark.parametrize("name", CASES)
def test_slices_chunks_and_nothing_print_alike(name):
    kind, mysql_type, values, expected = CASES[name]
    array = pa.array([*values, *values, *values], kind)
    n = len(values)
    assert text(array[n - 1 : 2 * n], mysql_type).to_pylist() == [expected[-1], *expected]
    chunked = pa.chunked_array([array[1:n], array[:0], pa.array(values, kind)])
    assert text(chunked, mysql_type).to_pylist() == [*expected[1:], *expected]
    for nothing in (array[:0], pa.chunked_array([], kind), pa.array([], kind)):
        assert text(nothing, mysql_type).to_pylist() == []
    assert text(pa.nulls(3, kind), mysql_type).to_pylist() == [None] * 3


def test_enums_of_two_versions_print_alike():
    chunked = pa.chunked_array(
        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
    )
    assert text(chunked, "enum('a','b','c')").to_pylist() == ["a", "b", "c"]


doubles = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(
        lambda digits, power: float(f"{digits}e{power}"), st.integers(-(10**17), 10**17), st.integers(-40, 10)
    ),
)


@given(st.lists(st.none() | doubles, max_size=8))
def test_doubles_print_in_mysqls_notation_and_read_back(values):
    printed = text(pa.array(values, pa.float64()), "double").to_pylist()
    assert printed == [None if value is None else double_text(value) for value in values]
    assert [None if one is None else float(one) for one in printed] == values


@given(st.lists(st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=8))
def test_floats_read_back(values):
    printed = text(pa.array(values, pa.float32()), "float").to_pylist()
    assert [None if one is None else float(np.float32(one)) for one in printed] == values


@given(st.integers(0, 20), st.lists(st.none() | st.integers(-(10**20), 10**20), max_size=8))
def test_decimals_print_with_their_scale(scale, unscaled):
    values = [None if one is None else Decimal(one).scaleb(-scale) for one in unscaled]
    printed = text(pa.array(values, pa.decimal128(38, scale)), "decimal").to_pylist()
    assert printed == [None if value is None else f"{value:.{scale}f}" for value in values]


@given(st.integers(0, 6), st.lists(st.none() | st.integers(-62_135_596_800, 253_402_300_799), max_size=8))
def test_datetimes_print_as_python_formats_them(digits, seconds):
    fraction = 123_456 // 10 ** (6 - digits) * 10 ** (6 - digits)
    values = [None if one is None else one * 1_000_000 + fraction for one in seconds]
    expected = []
    for value in values:
        moment = None if value is None else EPOCH + timedelta(microseconds=value)
        full = moment and f"{moment.year:04}-{moment:%m-%d %H:%M:%S}.{moment.microsecond:06}"
        expected.append(full and (full[: 20 + digits] if digits else full[:19]))
    for kind, name in [(pa.timestamp("us"), "datetime"), (pa.timestamp("us", "UTC"), "timestamp")]:
        mysql_type = f"{name}({digits})" if digits else name
        assert text(pa.array(values, kind), mysql_type).to_pylist() == expected


@given(
    st.integers(0, 6),
    st.lists(st.none() | st.integers(-micros(838, 59, 59), micros(838, 59, 59)), max_size=8),
)
def test_times_print_as_python_formats_them(digits, values):
    expected = []
    for value in values:
        seconds, fraction = divmod(abs(value or 0), 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        shown = f".{fraction:06}"[: digits + 1] if digits else ""
        expected.append(None if value is None else f"{'-' * (value < 0)}{clock}{shown}")
    mysql_type = f"time({digits})" if digits else "time"
    assert text(pa.array(values, pa.duration("us")), mysql_type).to_pylist() == expected


@given(st.lists(st.none() | st.binary(max_size=12), max_size=8))
def test_binary_prints_as_latin_1(values):
    printed = text(pa.array(values, pa.binary()), "blob").to_pylist()
    assert printed == [None if value is None else value.decode("latin-1") for value in values]


@given(st.lists(st.none() | st.lists(st.floats(-9, 9, width=32), max_size=3), max_size=6))
def test_vectors_are_json(values):
    printed = text(pa.array(values, pa.list_(pa.float32())), "vector").to_pylist()
    read = [
        None if one is None else [float(np.float32(number)) for number in json.loads(one)] for one in printed
    ]
    assert read == values


def test_timestamps_are_in_utc_for_any_column_zone():
    noon = datetime(2024, 6, 1, 12, tzinfo=UTC)
    column = pa.array([noon], pa.timestamp("us", "Europe/Berlin"))
    assert text(column, "timestamp").to_pylist() == ["2024-06-01 12:00:00"]
