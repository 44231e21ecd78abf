"""The timeline: n shards' headers become one order.

Rules:

1. A transaction's key is `max(previous key of its shard, commit_us)`: a shard's own order wins over its
   clock.
2. A shard's *frontier* says that none of its later transactions will have a smaller key. It is the key of its
   last header, or what it promised when it had caught up with its source.
3. The *watermark* is the smallest frontier of the shards that count. Headers with keys up to it may go out,
   ordered by (key_us, shard_index, sequence).
4. A transaction that came in fragments is never interleaved: while one is open, the next header out is its
   own.
5. A transaction that commits behind its shard's promise gets its key raised to the promise and is flagged
   LATE. Its commit time stays as it was. For a shard that does not count, what is out stands for its promise.
6. Nothing goes out below the greatest start key: that is what had gone out before the start.

Guaranteed: keys never decrease in what goes out; a shard's order is kept; each header goes out once.
Not guaranteed: the order of equal keys of different shards when they go out in different calls; that the
others go on while a transaction is out in part and its shard is silent, whether that shard counts or not: it
would be split. `merge.stream` takes such a transaction back instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from merge.header import Flag, HeaderRun, Headers, no_headers
from merge.names import Names
from merge.pending import Pending

#: watermark of a timeline without a shard that counts
END_OF_TIME_US = int(np.iinfo(np.int64).max)


@dataclass(slots=True)
class _Lane:
    """One shard's headers on their way out."""

    #: key of the last header that came in
    last_key_us: int
    #: what the shard promised; headers that commit before it are late
    promised_us: int
    #: how far its own word goes: its greatest commit time or promise
    heard_us: int
    #: the greatest promise that it gave itself
    told_us: int = 0
    #: False: the group goes on without this shard's frontier
    counts: bool = True
    #: whether the last transaction that came in (perhaps still open) is late
    late: bool = False
    #: transactions flagged LATE so far, and their row changes
    late_transactions: int = 0
    late_rows: int = 0

    @property
    def frontier_us(self) -> int:
        return max(self.last_key_us, self.promised_us)


class Timeline:
    """Merges headers of n shards by key; see the module's rules.

    Args:
        start_keys_us: for each shard, by shard_index, the key of the last transaction before its start.
    """

    def __init__(self, start_keys_us: list[int]) -> None:
        passed_us = max(start_keys_us)
        # A shard whose own last key is smaller had promised that much before the start, or did not count.
        self._lanes = [
            _Lane(last_key_us=key, promised_us=passed_us if key < passed_us else 0, heard_us=key)
            for key in start_keys_us
        ]
        #: frontiers of the shards that count, the end of time for those that do not
        self._frontiers_us = np.array([lane.frontier_us for lane in self._lanes], dtype=np.int64)
        self._pending = Pending()
        #: shard_index of the transaction that is out in part; its fragments go first
        self._open: int | None = None
        #: what came in of it since
        self._rest: list[Headers] = []
        #: greatest key that went out
        self._out_us = passed_us
        #: strings that the headers in and out of here point to
        self.names = Names()

    def join(self, shard: int, key_us: int) -> None:
        """Let a shard join whose last transaction before its start has this key; it does not count yet.

        Args:
            shard: the next shard_index, or one that has brought nothing so far.
            key_us: of the last transaction before the shard's start; 0 unknown.
        """
        lane = _Lane(last_key_us=key_us, promised_us=self._out_us, heard_us=key_us, counts=False)
        if shard == len(self._lanes):
            self._lanes.append(lane)
            self._frontiers_us = np.append(self._frontiers_us, END_OF_TIME_US)
        self._lanes[shard] = lane
        self._moved(shard)

    @property
    def late(self) -> int:
        """Transactions flagged LATE so far."""
        return sum(lane.late_transactions for lane in self._lanes)

    def late_of(self, shard: int) -> tuple[int, int]:
        """Return how many transactions of a shard were flagged LATE so far, and their row changes."""
        lane = self._lanes[shard]
        return lane.late_transactions, lane.late_rows

    def append(self, shard: int, run: HeaderRun) -> None:
        """Take the next headers of a shard, in its order.

        Sets their `shard`, `key_us` and the LATE flag on a copy.
        """
        if not len(run):
            return
        lane = self._lanes[shard]
        headers = self.names.adopt(run)
        headers["shard"] = shard
        floor_us = lane.promised_us if lane.counts else max(lane.promised_us, self._out_us)
        begins = (headers["flags"] & Flag.BEGIN) != 0
        late = begins & (headers["commit_us"] < floor_us)
        lane.late_transactions += int(late.sum())
        # A fragment shares the fate of its transaction's first one, which may have come in an earlier run.
        first = np.maximum.accumulate(np.where(begins, np.arange(len(headers)), -1))
        late = np.where(first >= 0, late[first], lane.late)
        lane.late_rows += int(headers["rows"][late].sum())
        headers["flags"] |= np.where(late, np.uint16(Flag.LATE), np.uint16(0))
        lowest_us = max(floor_us, lane.last_key_us)
        keys = np.where(begins, np.maximum(headers["commit_us"], lowest_us), lane.last_key_us)
        headers["key_us"] = np.maximum.accumulate(keys)
        lane.last_key_us = int(headers["key_us"][-1])
        lane.heard_us = max(lane.heard_us, int(headers["commit_us"].max()))
        lane.late = bool(late[-1])
        self._moved(shard)
        if shard == self._open:
            headers = self._continued(headers)
        self._pending.add(headers)

    def _continued(self, headers: Headers) -> Headers:
        """Put fragments of the open transaction with what goes first; return what follows its end."""
        closed = self._rest and self._rest[-1]["flags"][-1] & Flag.END
        ends = np.flatnonzero(headers["flags"] & Flag.END)
        stop = 0 if closed else int(ends[0]) + 1 if len(ends) else len(headers)
        if stop:
            self._rest.append(headers[:stop])
        return headers[stop:]

    def _moved(self, shard: int) -> None:
        lane = self._lanes[shard]
        self._frontiers_us[shard] = lane.frontier_us if lane.counts else END_OF_TIME_US

    def promise(self, shard: int, frontier_us: int) -> bool:
        """Take a shard's word that no later transaction of it commits before `frontier_us`.

        Returns:
            Whether that is more than was known; a smaller promise than the last one changes nothing.
        """
        lane = self._lanes[shard]
        more = frontier_us > lane.told_us
        lane.told_us = max(lane.told_us, frontier_us)
        lane.promised_us = max(lane.promised_us, frontier_us)
        lane.heard_us = max(lane.heard_us, frontier_us)
        self._moved(shard)
        return more

    def exclude(self, shard: int) -> None:
        """Go on without waiting for this shard; what it brings later may be late."""
        self._lanes[shard].counts = False
        self._moved(shard)

    def include(self, shard: int) -> None:
        """Wait for this shard again, from what is out by now."""
        lane = self._lanes[shard]
        if not lane.counts:
            lane.counts = True
            lane.promised_us = max(lane.promised_us, self._out_us)
            self._moved(shard)

    def excluded(self, shard: int) -> bool:
        """Return whether the group goes on without this shard."""
        return not self._lanes[shard].counts

    def lag_us(self, shard: int) -> int:
        """Return how far the shard's own word is behind what is out, microseconds; 0: it is not."""
        return max(0, self._out_us - self._lanes[shard].heard_us)

    def frontier_us(self, shard: int) -> int:
        """Return the shard's frontier, microseconds since 1970 UTC."""
        return self._lanes[shard].frontier_us

    @property
    def open_shard(self) -> int | None:
        """The shard whose transaction is out in part; None: none is."""
        return self._open

    @property
    def watermark_us(self) -> int:
        """The smallest frontier of the shards that count; the end of time if none does."""
        return int(self._frontiers_us.min())

    @property
    def pending(self) -> int:
        """Number of headers that came in and are not out."""
        return len(self._pending) + sum(len(run) for run in self._rest)

    def held_by(self) -> int | None:
        """Return the shard whose frontier keeps pending headers back; None if nothing is pending."""
        if not self.pending:
            return None
        if self._open is not None:
            return self._open
        counting = [shard for shard, lane in enumerate(self._lanes) if lane.counts]
        return min(counting, key=lambda shard: self._lanes[shard].frontier_us, default=None)

    def advance(self) -> Headers:
        """Let out every header that may go out now, in merged order; possibly none."""
        if self._open is None:
            return self._merge()
        if not self._rest:
            return no_headers()
        parts, self._rest = self._rest, []
        if parts[-1]["flags"][-1] & Flag.END:
            self._open = None
            parts.append(self._merge())
        return np.concatenate(parts)

    def _merge(self) -> Headers:
        """Merge the headers up to the watermark, as far as whole transactions allow."""
        merged = self._pending.take(self.watermark_us)
        if not len(merged):
            return merged
        stop = self._open_tail(merged)
        self._pending.put_back(merged[stop:])
        self._out_us = max(self._out_us, int(merged["key_us"][stop - 1]))
        return merged[:stop]

    def _open_tail(self, merged: Headers) -> int:
        """Return where `merged` must end so that no transaction is split; remember the open one.

        Fragments share one key, so those of a transaction stand together: it is open where another shard's
        header, or none, follows a fragment that is not its last. All of it that came in is here.
        """
        fragments = np.flatnonzero((merged["flags"] & Flag.END) == 0)
        if len(fragments):
            shard = merged["shard"]
            following = np.append(shard[1:].astype(np.int64), -1)[fragments]
            tails = fragments[following != shard[fragments]]
            if len(tails):
                self._open = int(shard[tails[0]])
                return int(tails[0]) + 1
        return len(merged)
