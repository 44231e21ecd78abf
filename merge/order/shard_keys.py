"""The keys of one shard's transactions, in the order in which they come in.

Rules:

1. A key is `max(previous key, commit_us)`: a shard's own order wins over its clock.
2. A transaction that commits behind its shard's promise gets its key raised to the promise and is flagged
   LATE. Its commit time stays as it was. For a shard that does not count, what is out stands for its promise.
3. A commit time that lies further ahead of the source's clock than `ahead_max_us` is not believed: the
   transaction takes the previous key and is flagged FUTURE. The latest reading of the clock decides, also
   about what came in before it and is not out, and about promises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from merge.values.header import Flag, Headers

#: a commit time after every other: what is promised by a shard that has ended, and believed without a clock
END_OF_TIME_US = int(np.iinfo(np.int64).max)


@dataclass(slots=True)
class ShardKeys:
    """What is known of one shard's keys; see the module's rules."""

    #: key of the last header that came in
    last_key_us: int
    #: what the shard promised; headers that commit before it are late
    low_watermark_us: int
    #: how far its own word goes: its greatest commit time or promise
    heard_us: int
    #: the greatest promise that it gave itself
    told_us: int = 0
    #: commit times up to this one are believed
    believed_us: int = END_OF_TIME_US
    #: False: the group goes on without this shard's frontier
    counts: bool = True
    #: whether the last transaction that came in (perhaps still open) is flagged LATE, and FUTURE
    late: bool = False
    future: bool = False
    #: transactions flagged LATE so far, and their row changes
    late_transactions: int = 0
    late_rows: int = 0
    #: transactions flagged FUTURE so far
    future_transactions: int = 0

    @property
    def frontier_us(self) -> int:
        """No later transaction has a smaller key."""
        return max(self.last_key_us, self.low_watermark_us)

    def give(self, headers: Headers, out_us: int) -> None:
        """Set the keys and flags of the next headers, in place.

        Args:
            headers: (n,) HEADER of the shard, n > 0, in its order.
            out_us: greatest key that went out of any shard.
        """
        floor_us = self.low_watermark_us if self.counts else max(self.low_watermark_us, out_us)
        late = _of_transaction(headers, headers["commit_us"] < floor_us, carried=self.late)
        self.late = bool(late[-1])
        self.late_transactions += int((late & _begins(headers)).sum())
        self.late_rows += int(headers["rows"][late].sum())
        headers["flags"][late] |= np.uint16(Flag.LATE)
        self._give(headers, max(floor_us, self.last_key_us), self.believed_us, carried=self.future)

    def disbelieves(self, believed_us: int, out_us: int) -> bool:
        """Return whether a key or promise that is not out lies after `believed_us`."""
        return self.frontier_us > max(believed_us, out_us)

    def give_again(self, waiting: Headers, believed_us: int, out_us: int) -> None:
        """Give headers that wait new keys where their commit times are not believed any more, in place.

        Args:
            waiting: (n,) HEADER, all of the shard that came in and are not out, in its order.
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
        """Take a promise; return whether it is more than the last one. A smaller one changes nothing."""
        more = frontier_us > self.told_us
        self.told_us = max(self.told_us, frontier_us)
        self.low_watermark_us = max(self.low_watermark_us, frontier_us)
        self.heard_us = max(self.heard_us, frontier_us)
        return more

    def take_low_watermark_back(self, believed_us: int, source_us: int, out_us: int) -> None:
        """Lower a promise that lies after `believed_us`: a clock made it that was set right since."""
        if max(believed_us, out_us) < self.low_watermark_us < END_OF_TIME_US:
            self.low_watermark_us = self.told_us = max(out_us, source_us)
            self.heard_us = min(self.heard_us, self.frontier_us)

    def _give(self, headers: Headers, lowest_us: int, believed_us: int, *, carried: bool) -> None:
        """Set keys, and FUTURE where commit times are not believed.

        Args:
            headers: as `give` takes them; `last_key_us` is the key of the header before them.
            lowest_us: what transactions that begin among them are raised to.
            believed_us: commit times up to this one are believed.
            carried: whether the transaction that began before them is flagged FUTURE.
        """
        begins = _begins(headers)
        flagged = (headers["flags"] & Flag.FUTURE) != 0
        commit_us = headers["commit_us"]
        future = flagged | (commit_us > believed_us)
        if carried or future.any():
            future = _of_transaction(headers, future, carried=carried)
            self.future_transactions += int((future & begins & ~flagged).sum())
            headers["flags"][future] |= np.uint16(Flag.FUTURE)
            commit_us = np.where(future, lowest_us, commit_us)
        self.future = bool(future[-1])
        keys = np.where(begins, np.maximum(commit_us, lowest_us), self.last_key_us)
        headers["key_us"] = np.maximum.accumulate(keys)
        self.last_key_us = int(headers["key_us"][-1])
        self.heard_us = max(self.heard_us, int(commit_us.max()))


def _begins(headers: Headers) -> NDArray[np.bool_]:
    """Return which headers begin a transaction."""
    begins: NDArray[np.bool_] = (headers["flags"] & Flag.BEGIN) != 0
    return begins


def _of_transaction(headers: Headers, begun: NDArray[np.bool_], *, carried: bool) -> NDArray[np.bool_]:
    """Return for each header what holds for its transaction's first fragment.

    Args:
        headers: (n,) HEADER of one shard, in its order.
        begun: (n,) what holds for headers that begin a transaction.
        carried: what holds for the transaction that began in an earlier run.
    """
    first = np.maximum.accumulate(np.where(_begins(headers), np.arange(len(headers)), -1))
    found: NDArray[np.bool_] = np.where(first >= 0, begun[first], carried)
    return found
