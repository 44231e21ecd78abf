"""Text of column values, as MySQL prints them and canal hands them out. Vectorised: no Python per value.

    integers, BIT          decimal digits; YEAR with four
    DECIMAL                plain, with the column's scale: 0.0000001, never 1E-7
    FLOAT, DOUBLE          the shortest text that reads back as the same value, in MySQL's notation: 1, 0.1,
                           100000000000000, 1e15, 0.000000000000001, 1e-16. (MySQL itself rounds FLOAT to six
                           digits when it prints; that would lose data and is not copied.)
    DATE                   YYYY-MM-DD
    DATETIME, TIMESTAMP    YYYY-MM-DD HH:MM:SS[.f], TIMESTAMP in UTC
    TIME                   [-]HH:MM:SS[.f], three digits of hours where it has them
    ENUM, SET, JSON, text  as they are
    binary, GEOMETRY       each byte is the ISO-8859-1 character of its number, as in canal
    VECTOR                 [1,2.5]

Fractional digits of a time are those of the column's type: datetime(3) has three, datetime none.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: digits of a fraction of a second where the column's type is not known
FRACTION_MAX = 6

_SCIENTIFIC = r"^(?P<sign>-?)(?P<first>\d)(?:\.(?P<rest>\d+))?e\+?(?P<exponent>-?\d+)$"
#: MySQL's my_gcvt: exponents it still prints without e (its MAX_DECPT_FOR_F_FORMAT is 15)
_PLAIN_EXPONENT_MIN, _PLAIN_EXPONENT_MAX = -15, 14


def text(values: Any, mysql_type: str = "") -> Any:
    """Return the text of each value.

    Args:
        values: (n,) Array or ChunkedArray of one of the Arrow types that a table's columns have.
        mysql_type: the column's type as the source writes it, such as `datetime(3)`; empty if not known.

    Returns:
        (n,) utf8 Array, null where the value is null.

    Raises:
        pyarrow.ArrowNotImplementedError: a type that no column has.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return text(values.cast(kind.value_type), mysql_type)
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    for is_kind, printed in _PRINTERS:
        if is_kind(kind):
            return printed(array, mysql_type)
    return array.cast(pa.utf8())


def _integer(array: Any, mysql_type: str) -> Any:
    digits = array.cast(pa.utf8())
    return pc.utf8_lpad(digits, 4, "0") if mysql_type.lower().startswith("year") else digits


def _decimal(array: Any, _: str) -> Any:
    kind = array.type
    make = pa.decimal256 if pa.types.is_decimal256(kind) else pa.decimal128
    # the same digits as an integer: with a scale, Arrow prints small numbers as 1E-7
    whole = pa.Array.from_buffers(
        make(kind.precision, 0), len(array), array.buffers(), array.null_count, array.offset
    ).cast(pa.utf8())
    if not kind.scale:
        return whole
    digits = pc.utf8_lpad(pc.utf8_ltrim(whole, "-"), kind.scale + 1, "0")
    return pc.binary_join_element_wise(
        _sign(pc.starts_with(whole, "-")),
        pc.utf8_slice_codeunits(digits, 0, -kind.scale),
        ".",
        pc.utf8_slice_codeunits(digits, -kind.scale, None),
        "",
    )


def _floating(array: Any, _: str) -> Any:
    shortest = array.cast(pa.utf8())
    scientific = pc.fill_null(pc.match_substring(shortest, "e"), False)
    if not pc.any(scientific).as_py():
        return shortest
    return pc.replace_with_mask(shortest, scientific, _mysql_notation(shortest.filter(scientific)))


def _mysql_notation(scientific: Any) -> Any:
    """Return Arrow's `1.5e+14` as MySQL writes it: plain where my_gcvt does, else `1.5e20`."""
    parts = pc.extract_regex(scientific, _SCIENTIFIC)
    sign, first, rest = (pc.struct_field(parts, name) for name in ("sign", "first", "rest"))
    exponent = pc.struct_field(parts, "exponent").cast(pa.int64())
    digits = pc.binary_join_element_wise(first, rest, "")
    point = pc.if_else(pc.equal(rest, ""), "", ".")
    result = pc.binary_join_element_wise(sign, first, point, rest, "e", exponent.cast(pa.utf8()), "")

    zeros = pc.binary_repeat("0", pc.max_element_wise(pc.subtract(-1, exponent), 0))
    small = pc.and_(pc.greater_equal(exponent, _PLAIN_EXPONENT_MIN), pc.less(exponent, 0))
    result = pc.if_else(small, pc.binary_join_element_wise(sign, "0.", zeros, digits, ""), result)
    for power in pc.unique(exponent).to_pylist():
        if 0 <= power <= _PLAIN_EXPONENT_MAX + 1:
            whole = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, power + 1, "0"), 0, power + 1)
            fraction = pc.utf8_slice_codeunits(digits, power + 1, None)
            point = pc.if_else(pc.equal(fraction, ""), "", ".")
            # one digit over its limit, my_gcvt stays plain if digits follow the point
            plain = pc.or_(power <= _PLAIN_EXPONENT_MAX, pc.not_equal(fraction, ""))
            plain = pc.and_(plain, pc.equal(exponent, power))
            result = pc.if_else(plain, pc.binary_join_element_wise(sign, whole, point, fraction, ""), result)
    return result


def _timestamp(array: Any, mysql_type: str) -> Any:
    naive = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64()).view(pa.timestamp("us"))
    return pc.utf8_slice_codeunits(naive.cast(pa.utf8()), 0, 19 + _fraction_chars(mysql_type))


def _time(array: Any, mysql_type: str) -> Any:
    signed = array.cast(pa.duration("us")).view(pa.int64())
    micros = pc.abs(signed)
    seconds, minutes, hours = (pc.divide(micros, unit) for unit in (1_000_000, 60_000_000, 3_600_000_000))
    clock = pc.binary_join_element_wise(
        _digits(hours, 2),
        _digits(_rest(minutes, hours, 60), 2),
        _digits(_rest(seconds, minutes, 60), 2),
        ":",
    )
    fraction = pc.binary_join_element_wise(clock, _digits(_rest(micros, seconds, 1_000_000), 6), ".")
    cut = FRACTION_MAX + 1 - _fraction_chars(mysql_type)
    shown = pc.utf8_slice_codeunits(fraction, 0, -cut) if cut else fraction
    return pc.binary_join_element_wise(_sign(pc.less(signed, 0)), shown, "")


def _fraction_chars(mysql_type: str) -> int:
    """Return the characters of a fraction of a second, its point included; 0 for none."""
    if not mysql_type:
        return FRACTION_MAX + 1
    match = re.match(r"\w+\s*\((\d+)\)", mysql_type)
    digits = int(match[1]) if match else 0
    return digits + 1 if digits else 0


def _rest(amount: Any, units: Any, size: int) -> Any:
    return pc.subtract(amount, pc.multiply(units, size))


def _digits(numbers: Any, width: int) -> Any:
    return pc.utf8_lpad(numbers.cast(pa.utf8()), width, "0")


def _sign(negative: Any) -> Any:
    return pc.if_else(negative, "-", "")


def _latin1(fixed_or_large: Any, _: str) -> Any:
    """Return bytes as text, one character each; those from 0x80 on take two bytes of UTF-8."""
    array = fixed_or_large.cast(pa.binary())
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset :][: len(array) + 1]
    if not len(array):
        return pa.array([], pa.utf8())
    data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    high = data >= 0x80  # noqa: PLR2004 - the end of ASCII
    if not high.any():
        return array.cast(pa.utf8())
    ends = np.cumsum(1 + high, dtype=np.int64)
    encoded = np.empty(ends[-1], dtype=np.uint8)
    encoded[ends - 1] = np.where(high, 0x80 | (data & 0x3F), data)
    encoded[ends[high] - 2] = 0xC0 | (data[high] >> 6)
    starts = np.concatenate(([0], ends))[offsets - offsets[0]].astype(np.int32)
    whole = pa.Array.from_buffers(pa.utf8(), len(array), [None, pa.py_buffer(starts), pa.py_buffer(encoded)])
    return pc.if_else(array.is_valid(), whole, None)


def _vector(array: Any, _: str) -> Any:
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), text(array.flatten(), ""))
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return pc.if_else(array.is_valid(), joined, None)


_PRINTERS = (
    (pa.types.is_integer, _integer),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _floating),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_duration, _time),
    (pa.types.is_binary, _latin1),
    (pa.types.is_large_binary, _latin1),
    (pa.types.is_fixed_size_binary, _latin1),
    (pa.types.is_list, _vector),
)
