"""Moments: dates and times in the server's order, with dates that no calendar has.

A source may hold dates with zero or impossible parts: 0000-00-00, 2026-00-15, 2026-02-31. Arrow has none,
so they are null in a column. Under the null, which of them it is stays in the column's slot: for a DATE the
smallest number of the slot's type, more `year << 9 | month << 5 | day`; for other types that times the
microseconds of a day, more the time of day. Under the null of a NULL is 0. Consumers see null; conditions
order such dates as the server does.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_DAY_US: Final = 86_400_000_000
_LEAST: Final = {np.dtype(np.int32): -(1 << 31), np.dtype(np.int64): -(1 << 63)}
#: a date's number at its slot's least is below this, of both types: 15 bits of the year, and of its rest
_END: Final = 1 << 24


def is_moment(kind: Any) -> bool:
    """Return whether a type is that of DATE, DATETIME or TIMESTAMP columns."""
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def nulls_of(array: Any) -> Any:
    """Return which values are NULL at the source: those that are null, but for dates that no calendar has."""
    nulls = array.is_null()
    odd = odd_of(array)
    return nulls if odd is None else pa.array(nulls.to_numpy(zero_copy_only=False) & ~odd)


def has_odd(array: Any) -> bool:
    """Return whether an array has a date that no calendar has."""
    return odd_of(array) is not None


def keys_of(array: Any) -> Any:
    """Return numbers that are in the server's order of dates and times, null for NULL.

    Args:
        array: (n,) of a type of `is_moment`.

    Returns:
        (n,) int64 Array.
    """
    slots, odd = _slots(array), odd_of(array)
    unit_us = _DAY_US if pa.types.is_date32(array.type) else 1
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    days, clock_us = np.divmod(np.where(valid, slots, 0).astype(np.int64), _DAY_US // unit_us)
    dates = days.astype("M8[D]")
    months = dates.astype("M8[M]")
    year = dates.astype("M8[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12 + 1
    day = (dates - months.astype("M8[D]")).astype(np.int64) + 1
    keys = (year << 9 | month << 5 | day) * _DAY_US + clock_us * unit_us
    if odd is not None:
        keys = np.where(odd, (slots.astype(np.int64) - _LEAST[slots.dtype]) * unit_us, keys)
        valid = valid | odd
    return pa.array(keys, pa.int64(), mask=~valid)


def filtered(rows: pa.RecordBatch, kept: NDArray[np.bool_]) -> Any:
    """Return some of a table's rows; Arrow's own filter forgets what is under nulls."""
    result = rows.filter(pa.array(kept))
    for side in ("before", "after"):
        index = rows.schema.get_field_index(side)
        image, shorter = rows.column(index), result.column(index)
        fields = list(image.type)
        columns = image.flatten()
        if not any(is_moment(column.type) and has_odd(column) for column in columns):
            continue
        columns = [
            kept_of(old, kept) if is_moment(old.type) else new
            for old, new in zip(columns, shorter.flatten(), strict=True)
        ]
        whole = pa.StructArray.from_arrays(columns, fields=fields, mask=shorter.is_null())
        result = result.set_column(index, rows.schema.field(index), whole)
    return result


def kept_of(array: Any, kept: NDArray[np.bool_]) -> Any:
    """Return some of a column's values, as `filtered` does."""
    shorter = array.filter(pa.array(kept))
    if not is_moment(array.type) or not has_odd(array):
        return shorter
    valid = np.packbits(shorter.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    slots = np.ascontiguousarray(_slots(array)[kept])
    return pa.Array.from_buffers(array.type, len(shorter), [pa.py_buffer(valid), pa.py_buffer(slots)])


def _slots(array: Any) -> Any:
    width = np.int32 if pa.types.is_date32(array.type) else np.int64
    if not len(array):
        return np.zeros(0, width)
    return np.frombuffer(array.buffers()[1], width)[array.offset : array.offset + len(array)]


def odd_of(array: Any) -> NDArray[np.bool_] | None:
    """Return which values are dates that no calendar has; None: every date is valid."""
    if not array.null_count:
        return None
    slots = _slots(array)
    end = _END if pa.types.is_date32(array.type) else _END * _DAY_US
    odd: NDArray[np.bool_] = slots < _LEAST[slots.dtype] + end
    odd &= array.is_null().to_numpy(zero_copy_only=False)
    return odd if odd.any() else None
