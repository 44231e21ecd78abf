"""Commit times: which server's time orders what is read from a replica, and what that time does not say.

A transaction that was replicated has two commit times: that of the server where it was committed first, its
*origin*, and that of the server that is read.

1. `replica`: the time of the server that is read. Its binlog is in that order, so once all of it was read, no
   later transaction has an earlier time.
2. `origin`: the time of the origin. What the replica lags is not in its binlog yet, and its times are in the
   past. So the low watermark of a server that replicates is lowered by the greatest lag that the operator
   allows for (`replica_lag_max_us`); what lags more comes LATE and is counted. A server that replicates no
   other is an origin itself: its low watermark is not lowered.
3. A shard's own order has priority over either time, as everywhere. A replica of several sources, or one that
   commits out of their order, writes a transaction after one with a later origin time; its key is that of the
   other. It is not LATE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

#: a commit time after every other: the low watermark of a shard that has ended, and the latest believed
#: commit time while no reading of the source's clock is known, microseconds since 1970 UTC
END_OF_TIME_US: Final = (1 << 63) - 1

CommitTimeOf: TypeAlias = Literal["replica", "origin"]


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """The commit times that order a group; see the module's rules."""

    of: CommitTimeOf
    #: only with `origin`: the longest time from a commit at the origin to the binlog of the replica that is
    #: read, and the difference between their clocks, microseconds
    replica_lag_max_us: int = 0

    @property
    def original(self) -> bool:
        """Whether the origins' times count."""
        return self.of == "origin"

    def withheld_us(self, *, replicates: bool) -> int:
        """Return by how much a source's low watermark is lowered, microseconds.

        Args:
            replicates: whether the source may replicate others.
        """
        return self.replica_lag_max_us if self.original and replicates else 0


#: commit times on the server that is read, also for transactions from other servers
OF_THE_SERVER_READ: Final = CommitTimes("replica")
