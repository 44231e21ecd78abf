"""The clock for deadlines."""

from __future__ import annotations

import time
from typing import Final

#: never steps back; includes the time that the machine is suspended, if the system supports it
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock_s() -> float:
    """Return seconds on a clock that never steps back; it includes suspend time if the system can."""
    return time.clock_gettime(_CLOCK)
