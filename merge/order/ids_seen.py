"""The global ids that came in, by the time of their transactions, and the low watermark in ids that follows.

The contract of `merge.order_by`, D being `commit_within_s`: of two transactions, the one with the smaller id
has a time at most D after the time of the other. The time is the commit time, made monotone in its shard
(`key_us`). Hence, if every later transaction of a shard has a time of at least T, each of its ids is greater
than every id whose time is more than D before T.

Times are rounded up to steps of D / `STEPS`. Rounding up delays a low watermark and never makes it too high.
So does the joining of neighbouring steps, which bounds the memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: steps into which D is divided; a low watermark is late by at most one of them
STEPS = 64
#: most times that are kept; more are needed only while the times of shards are far apart
TIMES_MAX = 4096


class IdsSeen:
    """Knows the greatest id up to each time.

    Args:
        within_us: D, microseconds, at least 1.
        times_max: most times that are kept, at least 2.
    """

    def __init__(self, within_us: int, times_max: int = TIMES_MAX) -> None:
        self._within_us = within_us
        self._step_us = max(1, within_us // STEPS)
        self._times_max = times_max
        #: ascending, each a multiple of the step; and the greatest id up to each
        self._times_us = np.empty(0, dtype=np.int64)
        self._ids = np.empty(0, dtype=np.int64)
        #: greatest id before all of these times
        self._before = 0

    def __len__(self) -> int:
        return len(self._times_us)

    def add(self, times_us: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
        """Take the ids of transactions.

        Args:
            times_us: (n,) their times, in any order.
            ids: (n,) their ids, from 1.
        """
        if not len(ids):
            return
        rounded = -(-times_us // self._step_us) * self._step_us
        together = np.concatenate([self._times_us, rounded])
        order = np.argsort(together, kind="stable")
        self._times_us = together[order]
        self._ids = np.maximum.accumulate(np.concatenate([self._ids, ids])[order])
        self._keep(np.append(self._times_us[1:] != self._times_us[:-1], True))
        while len(self) > self._times_max:
            # The ids of every second time count for the next one.
            self._keep(np.arange(len(self))[::-1] % 2 == 0)

    def _keep(self, chosen: NDArray[np.bool_]) -> None:
        self._times_us, self._ids = self._times_us[chosen], self._ids[chosen]

    def below(self, frontiers_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each frontier the id below which no later transaction of its shard has one; 0: unknown.

        Args:
            frontiers_us: (shards,) times; no later transaction of the shard has a smaller time.
        """
        known = np.searchsorted(self._times_us, frontiers_us - self._within_us, side="left")
        return np.concatenate([[self._before], self._ids])[known]

    def forget(self, frontier_us: int) -> None:
        """Forget the times that are too early to matter for this frontier and greater ones."""
        count = int(np.searchsorted(self._times_us, frontier_us - self._within_us, side="left"))
        if count:
            self._before = int(self._ids[count - 1])
            self._times_us, self._ids = self._times_us[count:], self._ids[count:]
