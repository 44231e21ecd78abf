"""Shard keys: the keys of one shard's transactions, in the order in which they come in.

Rules:

1. A key is `max(previous key, commit_us)`: a shard's own order has priority over its clock.
2. A transaction that commits before its shard's low watermark gets its key raised to the low watermark and is
   flagged LATE. Its commit time is not changed. For a shard that does not count, the greatest key that went
   out replaces a smaller low watermark.
3. A commit time that is further ahead of the source's clock than `ahead_max_us` is not believed: the
   transaction takes the previous key and is flagged FUTURE. The latest reading of the clock decides, also for
   earlier headers that are not out yet, and for low watermarks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag, Headers

#: numpy takes a number of its own at once, and looks for attributes of an enum's member each time
_BEGIN, _FUTURE = np.uint16(Flag.BEGIN), np.uint16(Flag.FUTURE)


@dataclass(slots=True)
class Counters:
    """What was counted among the headers of a shard, or of several; a status shows each under its name."""

    #: transactions flagged LATE so far, and their row changes
    late: int = 0
    late_rows: int = 0
    #: transactions flagged FUTURE so far
    future: int = 0

    def __add__(self, other: Counters) -> Counters:
        mine, others = asdict(self), asdict(other)
        return Counters(**{name: mine[name] + others[name] for name in mine})


@dataclass(slots=True)
class ShardKeys:
    """The keys and low watermark of one shard; see the module's rules."""

    #: key of the last header that came in
    last_key_us: int = 0
    #: the shard's low watermark, or a greater bound set by the group; headers that commit before it are LATE
    low_watermark_us: int = 0
    #: the greater of its latest believed commit time and its low watermark, as the shard reported them
    heard_us: int = 0
    #: the greatest low watermark that the shard itself reported
    told_us: int = 0
    #: latest commit time believed
    believed_us: int = END_OF_TIME_US
    #: False: the group's watermark ignores this shard's frontier
    counts: bool = True
    #: whether the last transaction that came in (perhaps still open) is flagged LATE, and FUTURE
    late: bool = False
    future: bool = False
    counters: Counters = field(default_factory=Counters)

    @property
    def frontier_us(self) -> int:
        """The frontier: no later transaction of the shard gets a smaller key."""
        return max(self.last_key_us, self.low_watermark_us)

    def give(self, headers: Headers, out_us: int) -> None:
        """Set the keys and flags of the next headers, in place.

        Args:
            headers: (n,) HEADER of the shard, n > 0, in its order.
            out_us: greatest key that went out of any shard.
        """
        floor_us = self.low_watermark_us if self.counts else max(self.low_watermark_us, out_us)
        late = (headers["commit_us"] < floor_us) & (headers["flags"] & Flag.PAGE == 0)
        if self.late or late.any():
            late = of_transaction(headers, late, carried=self.late)
            self.late = bool(late[-1])
            self.counters.late += int((late & begins_of(headers)).sum())
            self.counters.late_rows += int(headers["rows"][late].sum())
            headers["flags"][late] |= np.uint16(Flag.LATE)
        self._give(headers, max(floor_us, self.last_key_us), self.believed_us, carried=self.future)

    def disbelieves(self, believed_us: int, out_us: int) -> bool:
        """Return whether a pending key or the low watermark is after `believed_us`."""
        return self.frontier_us > max(believed_us, out_us)

    def give_again(self, waiting: Headers, believed_us: int, out_us: int) -> None:
        """Give pending headers new keys if their commit times are no longer believed, in place.

        Args:
            waiting: (n,) HEADER, all pending ones of the shard, in its order.
            believed_us: commit times up to this one are believed.
            out_us: greatest key that went out of any shard.
        """
        believed_us = max(believed_us, out_us)
        first = int(np.searchsorted(waiting["key_us"], believed_us, side="right"))
        if first < len(waiting):
            self.last_key_us = int(waiting["key_us"][first - 1]) if first else out_us
            lowest_us = max(out_us, self.low_watermark_us, self.last_key_us)
            self._give(waiting[first:], lowest_us, believed_us, carried=False)
            self.heard_us = min(self.heard_us, self.frontier_us)

    def low_watermark(self, frontier_us: int) -> bool:
        """Take a low watermark; return whether it is greater than the last one, else nothing changes."""
        more = frontier_us > self.told_us
        self.told_us = max(self.told_us, frontier_us)
        self.low_watermark_us = max(self.low_watermark_us, frontier_us)
        self.heard_us = max(self.heard_us, frontier_us)
        return more

    def take_low_watermark_back(self, believed_us: int, source_us: int, out_us: int) -> None:
        """Lower a low watermark that is after `believed_us`: its clock was corrected since."""
        if max(believed_us, out_us) < self.low_watermark_us < END_OF_TIME_US:
            self.low_watermark_us = self.told_us = max(out_us, source_us)
            self.heard_us = min(self.heard_us, self.frontier_us)

    def _give(self, headers: Headers, lowest_us: int, believed_us: int, *, carried: bool) -> None:
        """Set keys, and set FUTURE where commit times are not believed.

        Args:
            headers: as in `give`; `last_key_us` is the key of the header before them.
            lowest_us: smallest key of the transactions that begin among them.
            believed_us: commit times up to this one are believed.
            carried: whether the transaction that began before them is flagged FUTURE.
        """
        begins = begins_of(headers)
        flagged = (headers["flags"] & _FUTURE) != 0
        commit_us = headers["commit_us"]
        future = flagged | (commit_us > believed_us)
        if carried or future.any():
            future = of_transaction(headers, future, carried=carried)
            self.counters.future += int((future & begins & ~flagged).sum())
            headers["flags"][future] |= _FUTURE
            commit_us = np.where(future, lowest_us, commit_us)
        self.future = bool(future[-1])
        keys = np.where(begins, np.maximum(commit_us, lowest_us), self.last_key_us)
        headers["key_us"] = np.maximum.accumulate(keys)
        self.last_key_us = int(headers["key_us"][-1])
        self.heard_us = max(self.heard_us, int(commit_us.max()))


def begins_of(headers: Headers) -> NDArray[np.bool_]:
    """Return which headers begin a transaction."""
    begins: NDArray[np.bool_] = (headers["flags"] & _BEGIN) != 0
    return begins


def of_transaction(headers: Headers, begun: NDArray[np.bool_], *, carried: bool) -> NDArray[np.bool_]:
    """Return for each header the value of its transaction's first fragment.

    Args:
        headers: (n,) HEADER of one shard, in its order.
        begun: (n,) values; only those of headers that begin a transaction are used.
        carried: value of the transaction that began in an earlier run.
    """
    first = np.maximum.accumulate(np.where(begins_of(headers), np.arange(len(headers)), -1))
    found: NDArray[np.bool_] = np.where(first >= 0, begun[first], carried)
    return found
