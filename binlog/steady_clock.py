"""The steady clock: it is never set."""

from __future__ import annotations

import time
from typing import Final

#: includes the time that the machine is suspended, if the system supports it
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_us() -> int:
    """Return microseconds since an arbitrary moment."""
    return time.clock_gettime_ns(_CLOCK) // 1000
