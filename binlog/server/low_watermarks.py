"""Low watermarks: the smallest commit time that a source's later transactions can have.

`CaughtUp(frontier_us)` says: no later transaction of this source will have a smaller commit time. It is made
only if all of this holds:

1. The socket and our buffer were empty at a moment D, and we then waited for bytes.
2. A heartbeat arrived after that. A source sends heartbeats only when it has sent all it has. The time at
   which a heartbeat is read proves nothing: it may have waited in the socket, after a backlog, while we were
   busy. But a heartbeat that was not there at D arrived after D, and everything sent before it arrived before
   it.
3. So whatever comes now was committed after D, within two tolerances. `uncertainty_us` (half a round trip)
   covers the heartbeat's travel time and the error of the measured clock. `margin_us` covers commits that
   were stamped but not yet readable.
4. The source's clock was measured close to D. D is a moment of our steady clock; a measurement converts it to
   the source's time. If the measurement is old by then (the process slept, the control connection hung), no
   low watermark is made until the clock is measured again. This machine's time of day is not used.

Therefore frontier = D by the source's clock - margin - uncertainty. If the source stamps whole seconds only,
a commit of the current second carries the start of that second, so the frontier is floored to the second. No
low watermark is made inside a transaction.

If the commit times of origins are read (`commit_time: origin`) and the source replicates, the frontier is
lowered by what replication may still hide, see `canal_group.merge.values.commit_time`, and then floored to
the second, because an origin may be a server that stamps whole seconds.

By GTID a source also sends heartbeats while it skips transactions that need not be sent. Such a heartbeat
carries the offset that the source has reached, and what follows may be old. So a stream by GTID uses a
heartbeat only if it carries the offset that the stream is already positioned at.

A low watermark does not cover these cases; their transactions come late, and the merger detects that:

- a commit that takes longer than the margin from its timestamp to the binlog: on a disk that stalls, or after
  a long statement on MariaDB, which stamps the start of the statement that commits;
- a source whose clock is set back, until it is measured again;
- a MariaDB replica that lags: its transactions carry the timestamps of their origin. (A MySQL replica stamps
  its own commit, and that timestamp counts.) With `commit_time: origin`, only what lags by more than
  `replica_lag_max_s` comes late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from canal_group.binlog.grammar.transactions import SECOND_US
from canal_group.binlog.server.clock import SourceClock


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """No later transaction of this source will have a commit time smaller than `frontier_us`."""

    frontier_us: int


class LowWatermarks:
    """Makes the low watermarks of one stream; see the module's rules.

    The stream itself ensures that it is not inside a transaction.

    Args:
        measure: measures the source's clock; called now, and whenever the last measurement is old.
        margin_us: how long a commit may take from its timestamp to the binlog.
        withheld_us: returns by how much they are lowered for what replication may still hide.
    """

    def __init__(
        self,
        measure: Callable[[], SourceClock],
        margin_us: int,
        withheld_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self._measure = measure
        self._margin_us = margin_us
        self._withheld_us = withheld_us
        #: the last measurement
        self.clock = measure()

    def keep_time(self) -> None:
        """Measure the source's clock if the last measurement is old.

        Raises:
            SourceUnavailable: the source does not answer.
        """
        if self.clock.stale:
            self.clock = self._measure()

    def make(self, moment_us: int, *, whole_seconds: bool) -> CaughtUp | None:
        """Return the low watermark that a moment proves; None: the clock was not measured close to it.

        Args:
            moment_us: of our steady clock: everything that was committed by then was read.
            whole_seconds: whether the source stamps commits in whole seconds only.
        """
        clock, withheld_us = self.clock, self._withheld_us()
        if not clock.knows(moment_us):
            return None
        frontier_us = clock.source_us(moment_us) - self._margin_us - clock.uncertainty_us - withheld_us
        if whole_seconds or withheld_us:
            frontier_us -= frontier_us % SECOND_US
        return CaughtUp(frontier_us)
