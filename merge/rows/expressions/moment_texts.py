"""Dates and times as text, with dates that no calendar has, see `canal_group.merge.values.rows.moments`."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.rows.text import text
from canal_group.merge.values.rows.moments import keys_of, odd_of

_DAY_US: Final = 86_400_000_000
_TEXT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")
_TIME_TEXT: Final = re.compile(r"(-?)(\d{2,3}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")


def moment_texts(array: Any, mysql_type: str) -> Any:
    """Return the texts of dates and times, also of dates that no calendar has.

    Args:
        array: (n,) of a type of `is_moment`.
        mysql_type: the column's type as the source writes it.
    """
    plain, odd = text(array, mysql_type), odd_of(array)
    if odd is None:
        return plain
    width = len(text(pa.array([dt.date(1970, 1, 1)]).cast(array.type), mysql_type)[0].as_py())
    # They are mostly one and the same, the zero date.
    keys = keys_of(array).filter(pa.array(odd)).dictionary_encode()
    texts = pa.array([_odd_text(key)[:width] for key in keys.dictionary.to_pylist()], pa.utf8())
    return pc.replace_with_mask(plain, pa.array(odd), texts.take(keys.indices))


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
    """Return a constant [-]HH:MM:SS[.f] as a duration; None if it is not one."""
    match = _TIME_TEXT.fullmatch(constant)
    if match is None:
        return None
    us = ((int(match[2]) * 60 + int(match[3])) * 60 + int(match[4])) * 1_000_000
    us += int((match[5] or "").ljust(6, "0"))
    return pa.scalar(-us if match[1] else us, pa.duration("us"))
