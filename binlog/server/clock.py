"""Source clock: the source's time of day, measured from here.

The offset between the source's clock and ours is measured by a query for the source's time. The answer was
true at some moment of the round trip, so half of the round trip bounds the error. Our clock is the steady one
(`canal_group.binlog.steady_clock`): it is never set, and it counts the time in which this machine slept. This
machine's time of day is only shown to people, see `skew_us`.

Clocks drift, and operators set a source's clock. So a measurement is valid for moments at most `AGE_MAX_US`
before or after it; any other moment needs a new measurement. A stream measures much more often, so that a
clock that was set does not make false low watermarks for long.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any, Final

import pymysql

from canal_group.binlog.server.source import SourceAddress, query_one, translated
from canal_group.binlog.steady_clock import steady_us

#: two clocks whose rates differ by 100 ppm drift apart by 1 ms in this time, microseconds
AGE_MAX_US: Final = 10_000_000
#: a change of the source's clock is noticed within this time, microseconds
STALE_US: Final = 2_000_000

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - as naive as what the server answers, both UTC
_MICROSECOND = dt.timedelta(microseconds=1)
_SAMPLES = 3


class SourceClock:
    """A source's clock, as measured when this object was made.

    Args:
        offset_us: source's time (microseconds since 1970 UTC) minus that of our steady clock.
        uncertainty_us: the largest error of `offset_us`, in either direction.
        clock_us: our steady clock, microseconds since an arbitrary moment.
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
        address: SourceAddress,
        connection: pymysql.Connection[Any],
        clock_us: Callable[[], int] = steady_us,
        time_ns: Callable[[], int] = time.time_ns,
    ) -> SourceClock:
        """Return the clock of the source at the other end of a connection.

        Asks a few times and keeps the answer with the shortest round trip.

        Raises:
            SourceUnavailable, SourceUnfit: the connection broke, or the server refuses.
        """
        best: tuple[int, int, int] | None = None
        for _ in range(_SAMPLES):
            before_us = clock_us()
            row = query_one(address, connection, "SELECT UTC_TIMESTAMP(6) AS now")
            after_us = clock_us()
            source_us = (row["now"] - _EPOCH) // _MICROSECOND
            uncertainty_us = (after_us - before_us + 1) // 2 + 1
            skew_us = source_us - time_ns() // 1000 + uncertainty_us
            sample = (uncertainty_us, source_us - (before_us + after_us) // 2, skew_us)
            best = min(best, sample) if best else sample
        assert best is not None
        uncertainty_us, offset_us, skew_us = best
        return cls(offset_us, uncertainty_us, clock_us, skew_us=skew_us)

    def now_us(self) -> int:
        """Return our steady clock's time, microseconds: a moment to pass to `source_us`."""
        return self._clock_us()

    def source_us(self, moment_us: int) -> int:
        """Return the source's time at a moment of our steady clock, microseconds since 1970 UTC."""
        return moment_us + self._offset_us

    def source_now_us(self) -> int:
        """Return the source's time in microseconds since 1970 UTC."""
        return self.source_us(self._clock_us())

    def knows(self, moment_us: int) -> bool:
        """Return whether the measurement is valid at a moment of our steady clock."""
        return abs(moment_us - self._measured_us) <= AGE_MAX_US

    @property
    def stale(self) -> bool:
        """Whether the clock must be measured again before it is used for the present moment."""
        return abs(self._clock_us() - self._measured_us) > STALE_US


def clock_of(address: SourceAddress, connection: pymysql.Connection[Any]) -> SourceClock:
    """Return the clock of the source at the other end of a connection.

    Raises:
        SourceUnavailable: the connection broke.
    """
    with translated(address):
        return SourceClock.measure(address, connection)
