"""The clock of everything that must not act late."""

from __future__ import annotations

import time
from typing import Final

#: it never steps back, and counts a machine's sleep where it can
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock_s() -> float:
    """Return seconds on a clock that never steps back, and counts a machine's sleep where it can."""
    return time.clock_gettime(_CLOCK)


def clock_us() -> int:
    """Return the same clock's time in whole microseconds."""
    return time.clock_gettime_ns(_CLOCK) // 1000
