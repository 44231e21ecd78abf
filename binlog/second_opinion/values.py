"""Values: whether ours and mysql-replication's are the same, or of a class that it reads differently.

mysql-replication gives SET columns as sets, BIT as digits, TIMESTAMP without a time zone, JSON as Python
objects, and strings of charsets that it does not decode as bytes. These are compared by their meaning.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, Final

from canal_group.merge.values.types.table import TABLE

#: the answer for different values; other answers name the class of values that is not compared
DIFFERENT: Final = "different"
EQUAL: Final = ""
CHARSETS: Final = "text of charsets other than UTF-8 and ASCII"

_ADDRESSES: Final = frozenset(row.name for row in TABLE if row.code is row.hidden_in)
_SIGNS: Final = frozenset(1 << bits for bits in (8, 16, 24, 32, 64))
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - as mysql-replication has it


def compared(ours: Any, theirs: Any, mysql_type: str, *, named: bool) -> str:
    """Return EQUAL, DIFFERENT, or the class of values that mysql-replication reads otherwise.

    Args:
        ours: as Arrow gives it to Python.
        theirs: as mysql-replication gives it.
        mysql_type: the column's type as the source writes it, such as `datetime(3)`.
        named: whether the table map has full metadata.
    """
    kind = mysql_type.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    if ours is None or theirs is None:
        return _null(ours, theirs, kind, named=named)
    if _same(ours, theirs, kind):
        return EQUAL
    return _class_of(ours, theirs, kind, named=named)


def _null(ours: Any, theirs: Any, kind: str, *, named: bool) -> str:
    if ours is theirs:
        return EQUAL
    if theirs is None and kind == "set" and ours == "":
        return EQUAL
    if theirs is None and isinstance(ours, int | str) and not named:
        return "ENUM and SET without full metadata"
    if ours is None and kind == "timestamp" and theirs == _EPOCH:
        return "the zero TIMESTAMP"
    if kind == "json" and theirs is None and json.loads(ours) is None:
        return EQUAL
    return DIFFERENT


def _same(ours: Any, theirs: Any, kind: str) -> bool:  # noqa: PLR0911 - one branch a type
    if kind == "json":
        return bool(json.loads(ours) == _plain(theirs))
    if kind == "bit" and isinstance(theirs, str):
        return bool(ours == int(theirs, 2))
    if isinstance(theirs, set):
        return set(ours.split(",")) == theirs
    if isinstance(theirs, dt.datetime) and getattr(ours, "tzinfo", None) is not None:
        return bool(ours == theirs.replace(tzinfo=dt.UTC))
    if isinstance(theirs, str) and isinstance(ours, bytes):
        theirs = theirs.encode()
    if isinstance(theirs, bytes):
        if isinstance(ours, str):
            return ours.encode() == theirs
        # The binlog lacks the trailing zeros of BINARY(n).
        return bool(ours == (theirs.ljust(len(ours), b"\0") if kind == "binary" else theirs))
    return bool(ours == theirs)


def _class_of(ours: Any, theirs: Any, kind: str, *, named: bool) -> str:  # noqa: PLR0911 - one branch a class
    if kind in _ADDRESSES:
        return "UUID, INET4 and INET6"
    if kind == "year" and (ours, theirs) == (0, 1900):
        return "YEAR 0000"
    if kind == "time" and ours < dt.timedelta(0) and (ours.microseconds or theirs > dt.timedelta(0)):
        return "negative TIME with a fraction or in the old format"
    if kind == "json" and _opaque(theirs):
        return "JSON with opaque values"
    if isinstance(ours, str) and isinstance(theirs, bytes):
        return CHARSETS
    if not named and isinstance(ours, int) and isinstance(theirs, int) and abs(ours - theirs) in _SIGNS:
        return "unsigned numbers without full metadata"
    return DIFFERENT


def _plain(value: Any) -> Any:
    """Return mysql-replication's JSON document, in which keys and strings are bytes, as `json` reads one."""
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _opaque(value: Any) -> bool:
    """Return whether a document holds values that are not JSON: dates, decimals or bytes."""
    if isinstance(value, dict):
        return any(map(_opaque, value.values()))
    if isinstance(value, list):
        return any(map(_opaque, value))
    if isinstance(value, bytes):
        try:
            value.decode()
        except UnicodeDecodeError:
            return True
        return False
    return not isinstance(value, bool | int | float | str | None)
