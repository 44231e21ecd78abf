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
lowered by what replication may still hide, see `merge.values.commit_time`, and then floored to the second,
because an origin may be a server that stamps whole seconds.

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

from dataclasses import dataclass

from binlog.grammar.transactions import SECOND_US
from binlog.server.clock import SourceClock


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """No later transaction of this source will have a commit time smaller than `frontier_us`."""

    frontier_us: int


class LowWatermarks:
    """Makes the low watermarks of one stream; see the module's rules.

    The stream itself ensures that it is not inside a transaction.

    Args:
        clock: the source's clock; may be replaced at any time.
        margin_us: how long a commit may take from its timestamp to the binlog.
    """

    def __init__(self, clock: SourceClock, margin_us: int) -> None:
        self.clock = clock
        self._margin_us = margin_us
        self._empty_at_us: int | None = None

    def found_empty(self, moment_us: int) -> None:
        """Note that nothing had arrived at a moment of our steady clock, see `SourceClock.now_us`."""
        self._empty_at_us = moment_us

    def make(self, *, whole_seconds: bool, withheld_us: int = 0) -> CaughtUp | None:
        """Return the low watermark that a heartbeat proves, once all before it was read; None if none.

        Args:
            whole_seconds: whether the source stamps commits in whole seconds only.
            withheld_us: by how much it is lowered for what replication may still hide.
        """
        clock, empty_at_us = self.clock, self._empty_at_us
        if empty_at_us is None or not clock.knows(empty_at_us):
            return None
        frontier_us = clock.source_us(empty_at_us) - self._margin_us - clock.uncertainty_us - withheld_us
        if whole_seconds or withheld_us:
            frontier_us -= frontier_us % SECOND_US
        return CaughtUp(frontier_us)
