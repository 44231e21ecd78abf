"""The clock of everything that must not act late."""

from __future__ import annotations

import time


def clock_s() -> float:
    """Return seconds on a clock that never steps back, and counts a machine's sleep where it can."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
