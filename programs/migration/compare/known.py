"""Known differences: values that canal is known to write in another way, although they are the same.

Each has a name, under which it is counted.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Final

#: relative difference of two texts of one FLOAT
_FLOAT_PART: Final = 1e-6
#: greatest difference of a time zone from UTC, and the step between time zones, seconds
_ZONE_S_MAX: Final = 14 * 3600
_ZONE_STEP_S: Final = 15 * 60
#: columns that servers of Aliyun add to tables without a primary key
HIDDEN_COLUMNS: Final = frozenset({"__#alibaba_rds_row_id#__", "_drds_implicit_id_"})
_MEMBERS = re.compile(r"'((?:[^']|'')*)'")
_NO_DATE = re.compile(r"\d{4}-00|\d{4}-\d\d-00|0000-")


def known_difference(mysql_type: str, ours: str | None, theirs: str | None) -> str | None:
    """Return the name of the known difference that two values have; None: they really differ.

    Args:
        mysql_type: the column's type, such as `bigint unsigned`; of either stream.
        ours: our value.
        theirs: canal's.
    """
    word = mysql_type.lower().partition("(")[0].partition(" ")[0]
    if ours is None or theirs is None:
        text = theirs if ours is None else ours
        zero = word in ("date", "datetime", "timestamp") and text is not None and _NO_DATE.match(text)
        return "zero dates, which are NULL here" if zero else None
    if word in ("enum", "set"):
        return _named(word, mysql_type, ours, theirs)
    same = _BY_TYPE.get(word)
    return same(ours, theirs) if same is not None else None


def _number(ours: str, theirs: str) -> str | None:
    try:
        return "how a number is written" if Decimal(ours) == Decimal(theirs) else None
    except InvalidOperation:
        return None


def _float(ours: str, theirs: str) -> str | None:
    try:
        same = math.isclose(float(ours), float(theirs), rel_tol=_FLOAT_PART)
    except ValueError:
        return None
    return "how a FLOAT is rounded" if same else None


def _double(ours: str, theirs: str) -> str | None:
    try:
        return "how a number is written" if float(ours) == float(theirs) else None
    except ValueError:
        return None


def _json(ours: str, theirs: str) -> str | None:
    try:
        return "how JSON is written" if json.loads(ours) == json.loads(theirs) else None
    except (RecursionError, ValueError):
        return None


def _moment(ours: str, theirs: str) -> str | None:
    mine, other = _parsed(ours), _parsed(theirs)
    if mine is None or other is None:
        return None
    return "fractions of seconds that are zero" if mine == other else None


def _timestamp(ours: str, theirs: str) -> str | None:
    mine, other = _parsed(ours), _parsed(theirs)
    if mine is None or other is None:
        return None
    apart_s = abs((mine - other).total_seconds())
    if not apart_s:
        return "fractions of seconds that are zero"
    in_zone = apart_s <= _ZONE_S_MAX and not apart_s % _ZONE_STEP_S
    return "TIMESTAMP in canal's time zone, in UTC here" if in_zone else None


def _parsed(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None


def _time(ours: str, theirs: str) -> str | None:
    bare = [text.rstrip("0").rstrip(".") if "." in text else text for text in (ours, theirs)]
    return "fractions of seconds that are zero" if bare[0] == bare[1] else None


def _bytes(ours: str, theirs: str) -> str | None:
    return "zero bytes at the end of BINARY" if ours.rstrip("\0") == theirs.rstrip("\0") else None


def _named(word: str, mysql_type: str, ours: str, theirs: str) -> str | None:
    """Canal has an ENUM's number and a SET's bits; its type says which texts these are."""
    if not theirs.isdecimal():
        return None
    members = [each.replace("''", "'") for each in _MEMBERS.findall(mysql_type)]
    number = int(theirs)
    if not members or "\\" in mysql_type:
        same = not ours.isdecimal()
    elif word == "enum":
        same = number <= len(members) and ours == ["", *members][number]
    else:
        same = ours == ",".join(each for bit, each in enumerate(members) if number >> bit & 1)
    return "ENUM and SET as numbers, as texts here" if same else None


_BY_TYPE: Final[dict[str, Callable[[str, str], str | None]]] = {
    "float": _float,
    "double": _double,
    "decimal": _number,
    "json": _json,
    "datetime": _moment,
    "timestamp": _timestamp,
    "time": _time,
    "binary": _bytes,
}
