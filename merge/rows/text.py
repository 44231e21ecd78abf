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
    lists of numbers       [1,2.5]

Fractional digits of a time are those of the column's type: datetime(3) has three, datetime none.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.rows.native.text import Values
from canal_group.merge.values.types.table import row_of

#: digits of a fraction of a second where the column's type is unknown
FRACTION_MAX = 6

#: the type of ENUM
_ENUM: Final = pa.dictionary(pa.int32(), pa.utf8())
#: kinds of `Values`
_KINDS: Final = {
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "uint8",
    pa.uint16(): "uint16",
    pa.uint32(): "uint32",
    pa.uint64(): "uint64",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.utf8(): "text",
    pa.binary(): "latin1",
}
#: the same by a decimal's bits
_DECIMALS: Final = {128: "decimal", 256: "wide_decimal"}


def text(values: Any, mysql_type: str = "") -> Any:
    """Return the text of each value.

    Args:
        values: (n,) Array or ChunkedArray of one of the Arrow types that a table's columns have.
        mysql_type: the column's type as the source writes it, such as `datetime(3)`; empty if unknown.

    Returns:
        (n,) utf8 Array, null where the value is null.

    Raises:
        pyarrow.ArrowNotImplementedError: a type that no column has.
        ValueError: a date of no year from 0 to 9999.
    """
    array = _one(values)
    if array.type == pa.utf8():
        return array
    compiled = _compiled(array, mysql_type)
    return _printed(array, mysql_type) if compiled is None else _texts(array, compiled)


def values_of(values: Any, mysql_type: str) -> Values:
    """Return the values of a column, for a compiled loop that prints them as `text` does.

    Args:
        values: as for `text`.
        mysql_type: as for `text`.
    """
    array = _one(values)
    compiled = _compiled(array, mysql_type)
    if compiled is not None:
        return compiled
    printed = _printed(array, mysql_type)
    return Values("text", len(printed), printed.offset, printed.buffers())


def converted(values: Any, kind: Any, mysql_type: str = "") -> Any:
    """Return values in another type: texts as `text` writes them, everything else as Arrow converts it.

    Args:
        values: as for `text`.
        kind: the Arrow type.
        mysql_type: as for `text`.

    Returns:
        (n,) Array or ChunkedArray.

    Raises:
        pyarrow.ArrowException: a value does not fit the type.
    """
    if values.type.equals(kind):
        return values
    if kind == pa.utf8():
        return pa.chunked_array([text(values, mysql_type)])
    if pa.types.is_dictionary(values.type) and not pa.types.is_dictionary(kind):
        values = values.cast(values.type.value_type)
    return values.cast(kind)


def _one(values: Any) -> Any:
    """Return values as one array; those of a dictionary that differs from chunk to chunk without it."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    if values.num_chunks > 1 and pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _compiled(array: Any, mysql_type: str) -> Values | None:
    """Return the values for a compiled loop; None for types that none prints."""
    kind, members, digits = _KINDS.get(array.type), None, 0
    if pa.types.is_integer(array.type) and _digits_min(mysql_type):
        return None
    if pa.types.is_decimal(array.type):
        kind, digits = _DECIMALS[array.type.bit_width], array.type.scale
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz))
        kind, digits = "datetime", _fraction_digits(mysql_type)
    elif pa.types.is_duration(array.type):
        kind, array, digits = "time", array.cast(pa.duration("us")), _fraction_digits(mysql_type)
    elif array.type == _ENUM and not array.dictionary.null_count:
        kind, members = "dictionary", values_of(array.dictionary, "")
        array = array.indices
    if kind is None:
        return None
    buffers = array.buffers()
    if not array.null_count:
        buffers[0] = None
    return Values(kind, len(array), array.offset, buffers, digits=digits, members=members)


def _printed(array: Any, mysql_type: str) -> Any:
    """Return the texts of values of rarer types."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return text(array.cast(kind.value_type), mysql_type)
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return text(array.cast(pa.binary()), mysql_type)
    if pa.types.is_list(kind):
        return _listed(array)
    digits = array.cast(pa.utf8())
    return pc.utf8_lpad(digits, _digits_min(mysql_type), "0") if pa.types.is_integer(kind) else digits


def _texts(array: Any, values: Values) -> Any:
    begins, data = values.texts()
    valid = array.is_valid() if array.null_count else None
    return pa.Array.from_buffers(
        pa.utf8(),
        len(array),
        [None if valid is None else valid.buffers()[1], pa.py_buffer(begins), pa.py_buffer(data)],
    )


def _digits_min(mysql_type: str) -> int:
    row = row_of(mysql_type)
    return 0 if row is None else row.digits_min


def _fraction_digits(mysql_type: str) -> int:
    if not mysql_type:
        return FRACTION_MAX
    match = re.match(r"\w+\s*\((\d+)\)", mysql_type)
    return int(match[1]) if match else 0


def _listed(array: Any) -> Any:
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), text(array.flatten(), ""))
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return pc.if_else(array.is_valid(), joined, None)
