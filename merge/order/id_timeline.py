"""A timeline ordered by global ids: the same merge, by the ids that transactions write.

The frontiers in time remain what they are in `timeline`: clocks, margins, FUTURE stamps, shards that join,
are skipped or end. Beside them each shard has keys made of ids.

Rules:

1. A transaction's key is the greatest of its id, its shard's previous key and its shard's low watermark in
   ids. A transaction without an id therefore follows what its shard sent before. All fragments of a
   transaction have the key of the first one, since that may go out before the others come in.
2. A shard's low watermark in ids follows from its frontier in time and from the ids of all shards, see
   `IdsSeen`. It never decreases. So an idle shard delays the others by `commit_within_s`.
3. Headers with keys up to the smallest frontier of the shards that count may go out, by (order_key,
   shard_index, sequence). A shard's frontier is the greater of its last key and its low watermark in ids.
4. An id below its shard's low watermark breaks the contract. Its transaction is flagged LATE and counted, and
   goes out in the order of arrival. For a shard that does not count, the greatest key that went out replaces
   a smaller low watermark.
5. Ids need not be consecutive: a gap delays nothing. Nor are ids kept across a rewind: merging begins again
   with none.

Guaranteed: keys that go out never decrease; a shard's order is kept; each header goes out once. If the
contract holds, no header is LATE, and transactions with ids go out by (greatest id of their shard so far,
shard_index, sequence), whatever the order of arrival. ADR 4 has the proof.

The contract of `merge.order_by`, D being `commit_within_s`: of two transactions, the one with the smaller id
has a time at most D after the time of the other. The time is the commit time, made monotone in its shard
(`key_us`). Hence, if every later transaction of a shard has a time of at least T, each of its ids is greater
than every id whose time is more than D before T.

Times are rounded up to steps of D / `STEPS`. Rounding up delays a low watermark and never makes it too high.
So does the joining of neighbouring steps, which bounds the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.order.shard_keys import Counters, begins_of, of_transaction
from canal_group.merge.order.timeline import Timeline
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag, Headers

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


#: a key after every other: the frontier of a shard that has ended or does not count
END_OF_KEYS = int(np.iinfo(np.int64).max)
#: greatest id that orders a transaction
ID_MAX = END_OF_KEYS - 1


@dataclass(slots=True)
class IdKeys:
    """The keys in ids of one shard."""

    #: key of the last header that came in
    last: int = 0
    #: whether the last transaction that came in (perhaps still open) is LATE
    late: bool = False
    #: number of LATE transactions so far, and number of row changes in LATE transactions
    late_count: int = 0
    late_rows: int = 0

    def give(self, headers: Headers, floor: int) -> None:
        """Set `order_key` and LATE of the next headers, in place.

        Args:
            headers: (n,) HEADER of the shard, n > 0, in its order.
            floor: a smaller id is LATE.
        """
        begins, ids = begins_of(headers), headers["order_id"]
        late = of_transaction(headers, (ids > 0) & (ids < floor), carried=self.late)
        self.late = bool(late[-1])
        self.late_count += int((late & begins).sum())
        self.late_rows += int(headers["rows"][late].sum())
        headers["flags"][late] |= np.uint16(Flag.LATE)
        keys = np.where(begins, np.maximum(ids, max(floor, self.last)), self.last)
        headers["order_key"] = np.maximum.accumulate(keys)
        self.last = int(headers["order_key"][-1])


class IdTimeline(Timeline):
    """Merges headers of n shards by id; see the module's rules.

    Args:
        shards: as for a `Timeline`.
        ahead_max_us: as for a `Timeline`.
        within_us: an id is committed at most so long after a greater one, microseconds.
    """

    KEY = "order_key"

    def __init__(self, shards: int, ahead_max_us: int, *, within_us: int) -> None:
        super().__init__(shards, ahead_max_us)
        self._seen = IdsSeen(within_us)
        self._ids = [IdKeys() for _ in range(shards)]
        #: by shard_index: key of the last header that came in, and low watermark; a smaller id is LATE
        self._lasts = np.zeros(shards, dtype=np.int64)
        self._lows = np.zeros(shards, dtype=np.int64)
        #: greatest key that went out
        self._out = 0

    def join(self, shard: int) -> None:
        """Add a shard, see `Timeline.join`."""
        super().join(shard)
        if shard == len(self._ids):
            self._ids.append(IdKeys())
            self._lasts, self._lows = np.append(self._lasts, 0), np.append(self._lows, 0)
        self._ids[shard], self._lasts[shard], self._lows[shard] = IdKeys(), 0, 0

    @property
    def counters(self) -> Counters:
        """Counts of all shards so far."""
        return sum((self.counters_of(shard) for shard in range(len(self._shards))), Counters())

    def counters_of(self, shard: int) -> Counters:
        """Return the counts of a shard; its late transactions are those with late ids."""
        keys = self._ids[shard]
        return replace(super().counters_of(shard), late=keys.late_count, late_rows=keys.late_rows)

    def include(self, shard: int) -> None:
        """Count this shard again; its low watermark is at least the greatest key that went out."""
        if self.excluded(shard):
            self._lows[shard] = max(int(self._lows[shard]), self._out)
        super().include(shard)

    @property
    def watermark_id(self) -> int:
        """The smallest frontier in ids of the shards that count; `END_OF_KEYS` if none does."""
        frontiers = np.maximum(self._lasts, self._lows)
        return int(np.where(self._frontiers_us == END_OF_TIME_US, END_OF_KEYS, frontiers).min())

    def _give(self, shard: int, headers: Headers) -> None:
        super()._give(shard, headers)
        # What is late by its time matters to the frontiers in time only.
        headers["flags"] = (headers["flags"] & ~np.uint16(Flag.LATE)) | np.uint16(Flag.BY_ID)
        low = int(self._lows[shard])
        self._ids[shard].give(headers, max(low, self._out) if self.excluded(shard) else low)
        self._lasts[shard] = self._ids[shard].last
        found = (headers["order_id"] > 0) & begins_of(headers)
        self._seen.add(headers["key_us"][found], headers["order_id"][found])

    def _merge_frontier(self, shard: int) -> int:
        if self._frontiers_us[shard] == END_OF_TIME_US:
            return END_OF_KEYS
        return int(max(self._lasts[shard], self._lows[shard]))

    def _merge_watermark(self) -> int:
        ended = self._frontiers_us == END_OF_TIME_US
        lows = self._seen.below(self._frontiers_us)
        self._lows = np.where(ended, self._lows, np.maximum(self._lows, lows))
        # Also what matters to a shard that does not count: it may count again.
        rest_us = (self._shards[shard].frontier_us for shard in np.flatnonzero(ended).tolist())
        self._seen.forget(min(int(self._frontiers_us.min()), *rest_us, END_OF_TIME_US))
        return self.watermark_id

    def _went_out(self, headers: Headers) -> None:
        self._out_us = max(self._out_us, int(headers["key_us"].max()))
        self._out = max(self._out, int(headers["order_key"][-1]))

    def validate(self) -> None:
        """Assert what holds between two calls."""
        super().validate()
        assert len(self._ids) == len(self._lows) == len(self._shards), "each shard has keys in ids"
        assert [keys.last for keys in self._ids] == self._lasts.tolist(), "the last keys are those given"
        assert self._out <= self.watermark_id, "nothing goes out above the watermark"
