"""The timeline merges the headers of n shards into one order.

Terms, from one shard to the group:

    shard keys      the state of one shard: its last key, its low watermark, its counters (see `shard_keys`)
    low watermark   reported by a shard that has caught up with its source: no later transaction of the shard
                    commits before this time
    frontier        of a shard: no later transaction of it gets a smaller key. The greater of its last key and
                    its low watermark
    watermark       of the group: the smallest frontier of the shards that count

Rules:

1. A transaction's key is `max(previous key of its shard, commit_us)`: a shard's own order has priority over
   its clock.
2. Headers with keys up to the watermark may go out, ordered by (key_us, shard_index, sequence).
3. A transaction that came in fragments is never interleaved: while one is open, the next header that goes out
   is its own.
4. A transaction that commits before its shard's low watermark gets its key raised to the low watermark and is
   flagged LATE. Its commit time is not changed. For a shard that does not count, the greatest key that went
   out replaces a smaller low watermark. A page of a snapshot is not LATE: no transaction commits with it.
5. No position has a say in a key: clients send positions, and an invented key would order the rows of all.
   A subscriber's read position keeps its own keys from falling below what it has passed.
6. A commit time that is further ahead of its source's clock than `ahead_max_us` is not believed: the
   transaction takes its shard's previous key and is flagged FUTURE. The latest reading of the clock decides,
   also for earlier headers that are not out yet, and for low watermarks.

Guaranteed: keys that go out never decrease; a shard's order is kept; each header goes out once.
Not guaranteed: the order of equal keys of different shards that go out in different calls. Also not: that the
other shards continue while part of a transaction is out and its shard is silent, whether that shard counts or
not, because the transaction would be split. `canal_group.merge.order.stream` rolls back such a transaction
instead.
"""

from __future__ import annotations

import numpy as np

from canal_group.merge.order.pending import Pending
from canal_group.merge.order.shard_keys import Counters, ShardKeys
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag, HeaderRun, Headers, no_headers
from canal_group.merge.values.names import Names


class Timeline:
    """Merges headers of n shards by key; see the module's rules.

    Args:
        shards: number of shards.
        ahead_max_us: how far ahead of its source's clock a commit time may be, microseconds.
    """

    #: header field by which transactions are merged
    KEY = "key_us"

    def __init__(self, shards: int, ahead_max_us: int) -> None:
        self._ahead_max_us = ahead_max_us
        self._shards = [ShardKeys() for _ in range(shards)]
        #: frontier of each shard by shard_index; `END_OF_TIME_US` for a shard that does not count
        self._frontiers_us = np.zeros(shards, dtype=np.int64)
        self._pending = Pending(key=self.KEY)
        #: shard_index of the open transaction, of which only a part is out; its next fragments go out first
        self._open: int | None = None
        #: later fragments of the open transaction
        self._rest: list[Headers] = []
        #: greatest key that went out
        self._out_us = 0
        #: strings of the pending headers and of the headers that went out
        self.names = Names()

    def join(self, shard: int) -> None:
        """Add a shard, which does not count yet.

        Args:
            shard: the next shard_index, or that of a shard that has brought nothing so far.
        """
        keys = ShardKeys(low_watermark_us=self._out_us, counts=False)
        if shard == len(self._shards):
            self._shards.append(keys)
            self._frontiers_us = np.append(self._frontiers_us, END_OF_TIME_US)
        self._shards[shard] = keys
        self._moved(shard)

    @property
    def counters(self) -> Counters:
        """Counts of all shards so far."""
        return sum((keys.counters for keys in self._shards), Counters())

    def counters_of(self, shard: int) -> Counters:
        """Return the counts of a shard."""
        return self._shards[shard].counters

    def believed_us(self, shard: int) -> int:
        """Return the latest commit time of a shard that is believed, microseconds since 1970 UTC."""
        return self._shards[shard].believed_us

    def read_clock(self, shard: int, source_us: int) -> None:
        """Take a reading of the source's clock, made after everything that the shard has brought so far.

        Args:
            shard: its shard_index.
            source_us: microseconds since 1970 UTC.
        """
        self._shards[shard].believed_us = source_us + self._ahead_max_us
        self._reconsider(shard, source_us)

    def _reconsider(self, shard: int, source_us: int) -> None:
        """Lower the low watermark and the pending keys that are too far ahead of the source's clock."""
        keys, believed_us = self._shards[shard], source_us + self._ahead_max_us
        if not keys.disbelieves(believed_us, self._out_us):
            return
        keys.take_low_watermark_back(believed_us, source_us, self._out_us)
        if keys.last_key_us > max(believed_us, self._out_us):
            waiting = self._pending.remove(shard)
            keys.give_again(waiting, believed_us, self._out_us)
            self._pending.add(waiting)
        self._moved(shard)

    def append(self, shard: int, run: HeaderRun) -> None:
        """Take the next headers of a shard, in its order.

        `shard`, `key_us` and the flags LATE and FUTURE are set on a copy.
        """
        if not len(run):
            return
        headers = self.names.adopt(run)
        headers["shard"] = shard
        self._give(shard, headers)
        self._moved(shard)
        if shard == self._open:
            headers = self._continued(headers)
        self._pending.add(headers)

    def _give(self, shard: int, headers: Headers) -> None:
        """Set the keys and flags of a shard's next headers, in place."""
        self._shards[shard].give(headers, self._out_us)

    def _continued(self, headers: Headers) -> Headers:
        """Keep the fragments of the open transaction in `_rest`; return the headers after its end."""
        closed = self._rest and self._rest[-1]["flags"][-1] & Flag.END
        ends = np.flatnonzero(headers["flags"] & Flag.END)
        stop = 0 if closed else int(ends[0]) + 1 if len(ends) else len(headers)
        if stop:
            self._rest.append(headers[:stop])
        return headers[stop:]

    def _moved(self, shard: int) -> None:
        keys = self._shards[shard]
        self._frontiers_us[shard] = keys.frontier_us if keys.counts else END_OF_TIME_US

    def low_watermark(self, shard: int, frontier_us: int) -> bool:
        """Take a shard's low watermark: no later transaction of it commits before `frontier_us`.

        Returns:
            Whether it is greater than the shard's last one; a smaller one changes nothing.
        """
        keys = self._shards[shard]
        if keys.believed_us == END_OF_TIME_US != frontier_us > keys.told_us:
            # Without any clock reading, the low watermark is one: it was made after all the shard's headers.
            self._reconsider(shard, frontier_us)
        more = keys.low_watermark(frontier_us)
        self._moved(shard)
        return more

    def exclude(self, shard: int) -> None:
        """Stop counting this shard: the others do not wait for it, and its later headers may be LATE."""
        self._shards[shard].counts = False
        self._moved(shard)

    def include(self, shard: int) -> None:
        """Count this shard again; its low watermark is at least the greatest key that went out."""
        keys = self._shards[shard]
        if not keys.counts:
            keys.counts = True
            keys.low_watermark_us = max(keys.low_watermark_us, self._out_us)
            self._moved(shard)

    def excluded(self, shard: int) -> bool:
        """Return whether the group goes on without this shard."""
        return not self._shards[shard].counts

    def lag_us(self, shard: int) -> int:
        """Return by how much the shard lags the greatest key that went out, microseconds; 0 if it does not.

        The greater of its latest commit time and its low watermark is compared.
        """
        return max(0, self._out_us - self._shards[shard].heard_us)

    def frontier_us(self, shard: int) -> int:
        """Return the shard's frontier, microseconds since 1970 UTC."""
        return self._shards[shard].frontier_us

    @property
    def open_shard(self) -> int | None:
        """The shard of the open transaction, of which only a part is out; None if there is none."""
        return self._open

    @property
    def watermark_us(self) -> int:
        """The smallest frontier of the shards that count; `END_OF_TIME_US` if none does."""
        return int(self._frontiers_us.min())

    @property
    def pending(self) -> int:
        """Number of headers that came in and did not go out yet."""
        return len(self._pending) + sum(len(run) for run in self._rest)

    def waiting(self) -> list[Headers]:
        """Return the headers that may not go out yet; not in order."""
        return [*self._pending.runs, *self._rest]

    def held_by(self) -> int | None:
        """Return the shard for which the pending headers wait; None if nothing is pending.

        It is the shard of the open transaction, or else the one whose frontier is the watermark.
        """
        if not self.pending:
            return None
        if self._open is not None:
            return self._open
        counting = [shard for shard, keys in enumerate(self._shards) if keys.counts]
        return min(counting, key=self._merge_frontier, default=None)

    def _merge_frontier(self, shard: int) -> int:
        """Return a bound on the keys by which later headers of a shard merge."""
        return self._shards[shard].frontier_us

    def _merge_watermark(self) -> int:
        """Return the key up to which headers may go out."""
        return self.watermark_us

    def validate(self) -> None:
        """Assert what holds between two calls."""
        for shard, keys in enumerate(self._shards):
            counted_us = keys.frontier_us if keys.counts else END_OF_TIME_US
            assert self._frontiers_us[shard] == counted_us, "the watermark is made of the shards' frontiers"
            assert keys.heard_us <= keys.frontier_us or not keys.counts, "the frontier covers what was heard"
        assert self._open is not None or not self._rest, "only an open transaction has a rest"

    def advance(self) -> Headers:
        """Remove and return every header that may go out now, in merged order; possibly none."""
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
        """Merge the headers up to the watermark, without splitting a transaction."""
        merged = self._pending.take(self._merge_watermark())
        if not len(merged):
            return merged
        stop = self._open_tail(merged)
        self._pending.put_back(merged[stop:])
        self._went_out(merged[:stop])
        return merged[:stop]

    def _went_out(self, headers: Headers) -> None:
        """Note what goes out: (n,) HEADER in merged order, n > 0."""
        self._out_us = max(self._out_us, int(headers["key_us"][-1]))

    def _open_tail(self, merged: Headers) -> int:
        """Return where `merged` must end so that no transaction is split; remember the open one.

        The fragments of a transaction share one key, so they are adjacent, and all that came in are in
        `merged`. A transaction is open if its last END is missing: another shard's header, or none, follows a
        fragment without END.
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
