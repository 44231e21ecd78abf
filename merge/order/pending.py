"""Pending headers of all shards, which came in and may not go out yet, in a few sorted runs.

With many shards, each call lets out a few headers of each shard. Runs are therefore not kept by shard. Small
runs are merged into larger ones, as in a log-structured merge tree, and the headers that go out are the
beginnings of a few runs. A header is copied once for each rank that its run rises.

Runs are sorted by key only, and kept in the order of arrival: of two runs that both have headers of a shard,
the earlier run has the earlier headers. A stable sort by key therefore keeps a shard's order. Equal keys are
sorted by shard when they go out.
"""

from __future__ import annotations

import numpy as np

from canal_group.merge.values.header import HEADER, Headers, merged, no_headers

#: a greater fan makes fewer copies, but each `take` has to look at more runs
FAN = 8


class Pending:
    """Headers with their keys, each shard's in its own order; keys of a shard never decrease.

    Args:
        fan: number of runs of one rank that are merged into one run of the next rank.
        key: the field that holds a header's key.
    """

    def __init__(self, fan: int = FAN, key: str = "key_us") -> None:
        self._fan = fan
        self._key = key
        #: runs by rank, oldest first within a rank; a higher rank is older
        self._ranks: list[list[Headers]] = [[]]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def runs(self) -> list[Headers]:
        """The headers, not in order."""
        return [run for runs in self._ranks for run in runs]

    def add(self, run: Headers) -> None:
        """Add the next headers of a shard."""
        if not len(run):
            return
        self._count += len(run)
        self._ranks[0].append(run)
        rank = 0
        while len(self._ranks[rank]) >= self._fan:
            together = self._by_key(self._ranks[rank])
            self._ranks[rank] = []
            rank += 1
            if rank == len(self._ranks):
                self._ranks.append([])
            self._ranks[rank].append(together)

    def put_back(self, run: Headers) -> None:
        """Put back the end of what `take` returned; nothing may have been added since."""
        if len(run):
            self._count += len(run)
            self._ranks[-1].insert(0, run)

    def remove(self, shard: int) -> Headers:
        """Remove and return a copy of the headers of one shard, in its order."""
        mine: list[Headers] = [no_headers()]
        for runs in reversed(self._ranks):
            mine += [run[run["shard"] == shard] for run in runs]
            runs[:] = [left for run in runs if len(left := run[run["shard"] != shard])]
        removed = np.concatenate(mine)
        self._count -= len(removed)
        return removed

    def take(self, watermark: int) -> Headers:
        """Remove and return the headers with keys up to the watermark, by (key, shard, arrival)."""
        ready: list[Headers] = []
        for runs in reversed(self._ranks):
            kept = len(runs)
            for index, run in enumerate(runs):
                keys = run[self._key]
                if keys[0] > watermark:
                    continue
                stop = len(run) if keys[-1] <= watermark else int(keys.searchsorted(watermark, "right"))
                ready.append(run[:stop])
                runs[index] = run[stop:]
                kept -= stop == len(run)
            if kept < len(runs):
                runs[:] = [run for run in runs if len(run)]
        if not ready:
            return no_headers()
        # Named, or the type would be found field by field.
        together = np.concatenate(ready, dtype=HEADER)
        self._count -= len(together)
        return merged(together, self._key)

    def _by_key(self, runs: list[Headers]) -> Headers:
        together = np.concatenate(runs)
        return together[np.argsort(together[self._key], kind="stable")]
