"""Promises: what a stream may say of transactions that are still to come.

`CaughtUp(frontier_us)` says: no later transaction of this source will have a smaller commit
time. It is made only where all of this holds:

1. The socket and our buffer were empty at a moment D, and we then waited for bytes.
2. A heartbeat came after that. A source sends heartbeats only when it has sent all it has. It does not say
   when it sent this one: the time of its arrival proves nothing, because it may have lain behind a backlog in
   the socket for as long as we were busy. But one that was not there at D arrived after D, and everything
   sent before it arrived before it.
3. So whatever comes now was committed after D, give or take: the heartbeat's own journey and the error of the
   measured clock (`uncertainty_us` covers half a round trip), and commits that were stamped but not yet
   readable (`margin_us`).
4. The source's clock was measured near D: D is a moment of our steady clock, and a measurement turns it into
   the source's time. One that is old by then proves nothing (the process slept, the control connection hung):
   no promise is made until the clock was measured again. The time of day of this machine has no part in it.

Hence frontier = D by the source's clock - margin - uncertainty. Where the source stamps whole seconds only, a
commit of the current second is stamped with its start: the frontier is floored to the second. It never steps
back, and none is made inside a transaction.

By GTID a source also sends heartbeats while it passes over transactions that need not be sent. They tell how
far it came, and what follows may be old: such a stream takes a heartbeat at its word only where it stands
already.

What a promise cannot cover: a commit that takes longer than the margin from its stamp to the binlog. A disk
that stalls makes such commits, and on MariaDB, which stamps the start of the statement that commits, so do
long statements. They come late, and whoever merges sees that. Likewise a source whose own clock is set back,
until it is measured again; and a MariaDB replica that lags, whose transactions have the stamps of their
origin (a MySQL one stamps its own commit, and that stamp is the one that counts).
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.parse.grammar.transactions import SECOND_US
from actors.parse.server.clock import SourceClock

#: how long a commit may take from its stamp to the binlog, by default, microseconds
MARGIN_US = 50_000


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """No later transaction of this source will have a commit time smaller than `frontier_us`."""

    frontier_us: int


class LowWatermarks:
    """Makes the promises of one stream, whose owner knows where it stands; see the module's rules.

    Args:
        clock: the source's clock; may be set anew at any time.
        margin_us: how long a commit may take from its stamp to the binlog.
    """

    def __init__(self, clock: SourceClock, margin_us: int = MARGIN_US) -> None:
        self.clock = clock
        self._margin_us = margin_us
        self._empty_at_us: int | None = None

    def found_empty(self, moment_us: int) -> None:
        """Take note that nothing had arrived at a moment of our steady clock, see `SourceClock.now_us`."""
        self._empty_at_us = moment_us

    def make(self, *, whole_seconds: bool) -> CaughtUp | None:
        """Return the promise that a heartbeat proves, once all before it was read; None: it proves none.

        Args:
            whole_seconds: whether the source stamps commits with whole seconds only.
        """
        clock, empty_at_us = self.clock, self._empty_at_us
        if empty_at_us is None or not clock.knows(empty_at_us):
            return None
        frontier_us = clock.source_us(empty_at_us) - self._margin_us - clock.uncertainty_us
        if whole_seconds:
            frontier_us -= frontier_us % SECOND_US
        return CaughtUp(frontier_us)
