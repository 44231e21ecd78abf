"""Whole numbers from outside: one function reads each of them, within the bounds of what the number counts.

Python's numbers have any size. Beyond 64 bits numpy, Arrow and the wire fail, far from the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

#: characters of a refused value that an error shows
_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest number that a reader accepts; of a text, how many characters."""

    least: int
    most: int
    #: what the number counts; empty: the field's name says so
    unit: str = ""


#: fits into 64 bits with a sign
WHOLE: Final = Bounds(0, (1 << 63) - 1)
#: up to the end of the year 9999: a later time cannot be shown
TIMES_US: Final = Bounds(0, 253_402_300_799_999_999, "microseconds since 1970")
#: a binlog has 32 bits for a second, and for a server id
TIMES_S: Final = Bounds(0, (1 << 32) - 1, "seconds since 1970")
SERVER_IDS: Final = Bounds(0, (1 << 32) - 1)
#: row changes of one transaction
ROWS: Final = Bounds(0, (1 << 48) - 1, "row changes")
#: row changes of a stream: 64 bits have room for as many again after the greatest
SEQUENCES: Final = Bounds(0, 1 << 62, "row changes")


def whole(value: Any, bounds: Bounds = WHOLE) -> int:
    """Return a whole number within its bounds; `int` would also accept 1.5, true and "7".

    Raises:
        ValueError: the value is another one; the message shows its beginning.
    """
    if type(value) is not int or not bounds.least <= value <= bounds.most:
        counts = f" ({bounds.unit})" if bounds.unit else ""
        raise ValueError(f"{shown(value)} is not a whole number from {bounds.least} to {bounds.most}{counts}")
    return value


def shown(value: Any) -> str:
    """Return the beginning of a value's text, for an error."""
    if type(value) is int and value.bit_length() > WHOLE.most.bit_length():
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
