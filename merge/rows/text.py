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
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from merge.rows.native.text import count_high, write_datetimes, write_decimals, write_latin1, write_times

#: room that a compiled loop asks for, bytes a value
TIME_CHARS: Final = 24
DATETIME_CHARS: Final = 32
DECIMAL_CHARS: Final = 80
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
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        words = np.frombuffer(array.buffers()[1] or b"", np.uint64).reshape(-1, 2)
        return _written(array, write_decimals, words[array.offset :][: len(array)], kind.scale, DECIMAL_CHARS)
    # the same digits as an integer: with a scale, Arrow prints small numbers as 1E-7
    whole = pa.Array.from_buffers(
        pa.decimal256(kind.precision, 0), len(array), array.buffers(), array.null_count, array.offset
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
    micros = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
    return _written(array, write_datetimes, _values(micros), _fraction_digits(mysql_type), DATETIME_CHARS)


def _time(array: Any, mysql_type: str) -> Any:
    micros = array.cast(pa.duration("us")).view(pa.int64())
    return _written(array, write_times, _values(micros), _fraction_digits(mysql_type), TIME_CHARS)


def _values(numbers: Any) -> NDArray[np.int64]:
    """Return the numbers, 0 where one is null: what a null's memory holds is nobody's."""
    found: NDArray[np.int64] = pc.fill_null(numbers, 0).to_numpy()
    return found


def _written(array: Any, write: Callable[..., None], values: Any, digits: int, chars: int) -> Any:
    """Return the texts that a compiled loop writes, null where the value is null."""
    begins = np.empty(len(array) + 1, np.int32)
    data = np.empty(len(array) * chars, np.uint8)
    write(values, digits, begins, data)
    return _texts(array, begins, data)


def _texts(array: Any, begins: NDArray[np.int32], data: NDArray[np.uint8]) -> Any:
    valid = array.is_valid() if array.null_count else None
    return pa.Array.from_buffers(
        pa.utf8(),
        len(array),
        [None if valid is None else valid.buffers()[1], pa.py_buffer(begins), pa.py_buffer(data)],
    )


def _fraction_digits(mysql_type: str) -> int:
    """Return the digits of a fraction of a second."""
    if not mysql_type:
        return FRACTION_MAX
    match = re.match(r"\w+\s*\((\d+)\)", mysql_type)
    return int(match[1]) if match else 0


def _sign(negative: Any) -> Any:
    return pc.if_else(negative, "-", "")


def _latin1(fixed_or_large: Any, _: str) -> Any:
    """Return bytes as text, one character each; those from 0x80 on take two bytes of UTF-8."""
    array = fixed_or_large.cast(pa.binary())
    if not len(array):
        return pa.array([], pa.utf8())
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset :][: len(array) + 1]
    data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)
    shown = data[offsets[0] : offsets[-1]]
    high = count_high(shown)
    if not high:
        return array.cast(pa.utf8())
    begins = np.empty(len(array) + 1, np.int32)
    encoded = np.empty(len(shown) + high, np.uint8)
    write_latin1(offsets, data, begins, encoded)
    return _texts(array, begins, encoded)


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
