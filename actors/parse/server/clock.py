"""Source clock: the source's time of day, known from here.

The distance between the source's clock and ours is measured by asking the source for its time: the answer was
true at some moment of the round trip, so half of it bounds the error. Our clock is the steady one
(`actors.process.clock`): nobody sets it, and it counts the time in which this machine slept. The time of day
that this machine shows is used for people only, see `skew_us`.

Clocks drift, and a source's clock is set by others. So a measurement is good for moments that lie no further
than `AGE_MAX_US` from it, in either direction; whoever relies on another moment measures again. Who reads on
measures again much sooner, so that a clock that is set makes no false promise for long.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any, Final

import pymysql

from actors.process.clock import clock_us as steady_us

#: two clocks a hundred millionths apart drift by 1 ms in this time, microseconds
AGE_MAX_US: Final = 10_000_000
#: a source's clock that somebody sets is noticed within this time, microseconds
STALE_US: Final = 2_000_000

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - as naive as what the server answers, both UTC
_MICROSECOND = dt.timedelta(microseconds=1)
_SAMPLES = 3


class SourceClock:
    """A source's clock, measured at the moment when this object is made.

    Args:
        offset_us: source's time (microseconds since 1970 UTC) minus that of our steady clock.
        uncertainty_us: how far `offset_us` may be off, in either direction.
        clock_us: our steady clock, microseconds since any moment.
        skew_us: source's time minus the time of day that this machine shows, for people.
    """

    def __init__(
        self,
        offset_us: int,
        uncertainty_us: int,
        clock_us: Callable[[], int] = steady_us,
        *,
        skew_us: int = 0,
    ) -> None:
        self.uncertainty_us = uncertainty_us
        self.skew_us = skew_us
        self._offset_us = offset_us
        self._clock_us = clock_us
        self._measured_us = clock_us()

    @classmethod
    def measure(
        cls,
        connection: pymysql.Connection[Any],
        clock_us: Callable[[], int] = steady_us,
        time_ns: Callable[[], int] = time.time_ns,
    ) -> SourceClock:
        """Return the clock of the source at the other end of a connection.

        Asks a few times and keeps the answer with the shortest round trip.

        Raises:
            pymysql.Error: the connection broke.
        """
        best: tuple[int, int, int] | None = None
        for _ in range(_SAMPLES):
            with connection.cursor() as cursor:
                before_us = clock_us()
                cursor.execute("SELECT UTC_TIMESTAMP(6)")
                row = cursor.fetchone()
                after_us = clock_us()
            assert row is not None
            source_us = (row[0] - _EPOCH) // _MICROSECOND
            uncertainty_us = (after_us - before_us + 1) // 2 + 1
            skew_us = source_us - time_ns() // 1000 + uncertainty_us
            sample = (uncertainty_us, source_us - (before_us + after_us) // 2, skew_us)
            best = min(best, sample) if best else sample
        assert best is not None
        uncertainty_us, offset_us, skew_us = best
        return cls(offset_us, uncertainty_us, clock_us, skew_us=skew_us)

    def now_us(self) -> int:
        """Return our steady clock's time, microseconds: a moment that `source_us` understands."""
        return self._clock_us()

    def source_us(self, moment_us: int) -> int:
        """Return the source's time at a moment of our steady clock, microseconds since 1970 UTC."""
        return moment_us + self._offset_us

    def source_now_us(self) -> int:
        """Return the source's time in microseconds since 1970 UTC."""
        return self.source_us(self._clock_us())

    def knows(self, moment_us: int) -> bool:
        """Return whether a moment of our steady clock lies so near to the measurement that it may be used."""
        return abs(moment_us - self._measured_us) <= AGE_MAX_US

    @property
    def stale(self) -> bool:
        """Whether it has to be measured again before it says anything of this moment."""
        return abs(self._clock_us() - self._measured_us) > STALE_US
