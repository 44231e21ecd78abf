"""Durations as people read them."""

from __future__ import annotations

#: units, the largest first, in seconds; one is used from twice its length on
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def duration(seconds: float) -> str:
    """Return a duration in one unit, rounded down: `93 s`, `25 min`, `3 h`."""
    for length_s, unit in _UNITS:
        if seconds >= 2 * length_s:
            return f"{int(seconds // length_s)} {unit}"
    return f"{int(seconds)} s"
