"""Moments: dates and times in the server's order, with dates that no calendar has.

A source may hold dates with zero or impossible parts: 0000-00-00, 2026-00-15, 2026-02-31. Arrow has none,
so they are null in a column. Under the null, which of them it is stays in the column's slot: for a DATE the
smallest number of the slot's type, more `year << 9 | month << 5 | day`; for other types that times the
microseconds of a day, more the time of day. Under the null of a NULL is 0. Consumers see null; conditions
order such dates as the server does.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from merge.rows.text import text

_DAY_US: Final = 86_400_000_000
_LEAST: Final = {np.dtype(np.int32): -(1 << 31), np.dtype(np.int64): -(1 << 63)}
#: a date's number at its slot's least is below this, of both types: 15 bits of the year, and of its rest
_END: Final = 1 << 24
_TEXT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")
_TIME_TEXT: Final = re.compile(r"(-?)(\d{2,3}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")


def is_moment(kind: Any) -> bool:
    """Return whether a type is that of DATE, DATETIME or TIMESTAMP columns."""
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def nulls_of(array: Any) -> Any:
    """Return which values are NULL at the source: those that are null, but for dates that no calendar has."""
    nulls = array.is_null()
    odd = _odd(array)
    return nulls if odd is None else pa.array(nulls.to_numpy(zero_copy_only=False) & ~odd)


def has_odd(array: Any) -> bool:
    """Return whether an array has a date that no calendar has."""
    return _odd(array) is not None


def keys_of(array: Any) -> Any:
    """Return numbers that are in the server's order of dates and times, null for NULL.

    Args:
        array: (n,) of a type of `is_moment`.

    Returns:
        (n,) int64 Array.
    """
    slots, odd = _slots(array), _odd(array)
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


def moment_texts(array: Any, mysql_type: str) -> Any:
    """Return the texts of dates and times, also of those that no calendar has.

    Args:
        array: (n,) of a type of `is_moment`.
        mysql_type: the column's type as the source writes it.
    """
    found, odd = text(array, mysql_type), _odd(array)
    if odd is None:
        return found
    width = len(text(pa.array([dt.date(1970, 1, 1)]).cast(array.type), mysql_type)[0].as_py())
    # They are mostly one and the same, the zero date.
    keys = keys_of(array).filter(pa.array(odd)).dictionary_encode()
    texts = pa.array([_odd_text(key)[:width] for key in keys.dictionary.to_pylist()], pa.utf8())
    return pc.replace_with_mask(found, pa.array(odd), texts.take(keys.indices))


def _odd_text(key: int) -> str:
    date, clock_us = divmod(key, _DAY_US)
    second, us = divmod(clock_us, 1_000_000)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{us:06}"
    return f"{date >> 9:04}-{date >> 5 & 15:02}-{date & 31:02} {clock}"


def moment_of(constant: str) -> tuple[int, Any] | None:
    """Return the key of a constant, and the constant as an Arrow scalar; None if it is not a date.

    Args:
        constant: YYYY-MM-DD, with HH:MM:SS and up to six digits after a point. 0000-00-00 has no scalar.
    """
    match = _TEXT.fullmatch(constant)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    us = int((match[7] or "").ljust(6, "0"))
    key = (year << 9 | month << 5 | day) * _DAY_US
    if not year and not month and not day:
        return (key, None) if not (hour or minute or second or us) else None
    try:
        moment = np.datetime64(f"{match[1]}-{match[2]}-{match[3]}T{hour:02}:{minute:02}:{second:02}", "us")
    except ValueError:
        return None
    if not year:
        return None
    clock_us = ((hour * 60 + minute) * 60 + second) * 1_000_000 + us
    return key + clock_us, pa.scalar(int(moment.astype(np.int64)) + us, pa.timestamp("us"))


def time_of(constant: str) -> Any:
    """Return a constant [-]HH:MM:SS[.f] as a duration; None if it is none."""
    match = _TIME_TEXT.fullmatch(constant)
    if match is None:
        return None
    us = ((int(match[2]) * 60 + int(match[3])) * 60 + int(match[4])) * 1_000_000
    us += int((match[5] or "").ljust(6, "0"))
    return pa.scalar(-us if match[1] else us, pa.duration("us"))


def filtered(rows: pa.RecordBatch, kept: NDArray[np.bool_]) -> Any:
    """Return some of a table's rows; Arrow's own filter forgets what is under nulls."""
    result = rows.filter(pa.array(kept))
    for side in ("before", "after"):
        place = rows.schema.get_field_index(side)
        image, shorter = rows.column(place), result.column(place)
        fields = list(image.type)
        columns = image.flatten()
        if not any(is_moment(column.type) and has_odd(column) for column in columns):
            continue
        columns = [
            kept_of(old, kept) if is_moment(old.type) else new
            for old, new in zip(columns, shorter.flatten(), strict=True)
        ]
        whole = pa.StructArray.from_arrays(columns, fields=fields, mask=shorter.is_null())
        result = result.set_column(place, rows.schema.field(place), whole)
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
    """Return what the slots of an array hold, also under nulls."""
    width = np.int32 if pa.types.is_date32(array.type) else np.int64
    if not len(array):
        return np.zeros(0, width)
    return np.frombuffer(array.buffers()[1], width)[array.offset : array.offset + len(array)]


def _odd(array: Any) -> NDArray[np.bool_] | None:
    """Return which values are dates that no calendar has; None: none is."""
    if not array.null_count:
        return None
    slots = _slots(array)
    end = _END if pa.types.is_date32(array.type) else _END * _DAY_US
    odd: NDArray[np.bool_] = slots < _LEAST[slots.dtype] + end
    odd &= array.is_null().to_numpy(zero_copy_only=False)
    return odd if odd.any() else None
