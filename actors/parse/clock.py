"""Source clock: the source's time of day, known from here.

The offset between the two clocks is measured by asking the source for its time: the answer was true at some
moment of the round trip, so half of it bounds the error. Clocks drift; whoever relies on this one for long
measures again.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pymysql

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - as naive as what the server answers, both UTC
_MICROSECOND = dt.timedelta(microseconds=1)
_SAMPLES = 3


class SourceClock:
    """A source's clock.

    Args:
        skew_us: source's time minus ours.
        uncertainty_us: how far `skew_us` may be off, in either direction.
        time_ns: our time, nanoseconds since 1970 UTC.
    """

    def __init__(self, skew_us: int, uncertainty_us: int, time_ns: Callable[[], int] = time.time_ns) -> None:
        self.skew_us = skew_us
        self.uncertainty_us = uncertainty_us
        self._time_ns = time_ns
        self._measured_us = self.local_now_us()

    @classmethod
    def measure(
        cls, connection: pymysql.Connection[Any], time_ns: Callable[[], int] = time.time_ns
    ) -> SourceClock:
        """Return the clock of the source at the other end of a connection.

        Asks a few times and keeps the answer with the shortest round trip.

        Raises:
            pymysql.Error: the connection broke.
        """
        best: tuple[int, int] | None = None
        for _ in range(_SAMPLES):
            with connection.cursor() as cursor:
                before_us = time_ns() // 1000
                cursor.execute("SELECT UTC_TIMESTAMP(6)")
                row = cursor.fetchone()
                after_us = time_ns() // 1000
            assert row is not None
            source_us = (row[0] - _EPOCH) // _MICROSECOND
            # A local clock that was set back in between makes the sample worthless, not negative.
            uncertainty_us = abs(after_us - before_us + 1) // 2 + 1
            sample = (uncertainty_us, source_us - (before_us + after_us) // 2)
            best = min(best, sample) if best else sample
        assert best is not None
        return cls(best[1], best[0], time_ns)

    def local_now_us(self) -> int:
        """Return our time in microseconds since 1970 UTC."""
        return self._time_ns() // 1000

    def source_now_us(self) -> int:
        """Return the source's time in microseconds since 1970 UTC."""
        return self.local_now_us() + self.skew_us

    @property
    def age_us(self) -> int:
        """Microseconds since it was measured, by our clock."""
        return self.local_now_us() - self._measured_us
