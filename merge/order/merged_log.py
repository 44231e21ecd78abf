"""The merged log: headers that went out of the timeline and that not every subscriber has acknowledged."""

from __future__ import annotations

import numpy as np

from canal_group.merge.values.header import HEADER, Headers

#: headers that are looked through at once
_BLOCK = 4_096
#: no sequence
NONE = -1


class MergedLog:
    """A run of merged headers between two growing indexes, `base <= index < tip`.

    The rings bound its size: a header stays in its shard's ring exactly as long as it stays here.

    Args:
        shards: how many shards there are.
    """

    def __init__(self, shards: int) -> None:
        #: index of the first header that is kept
        self.base = 0
        self._buffer = np.empty(1024, dtype=HEADER)
        self._start = 0
        self._stop = 0
        #: by shard_index
        self._last = np.full(shards, NONE, dtype=np.int64)

    @property
    def tip(self) -> int:
        """Index after the last header."""
        return self.base + self._stop - self._start

    def append(self, headers: Headers) -> None:
        """Add headers at the tip."""
        if self._stop + len(headers) > len(self._buffer):
            kept = self._buffer[self._start : self._stop]
            self._buffer = np.empty(max(1024, 2 * (len(kept) + len(headers))), dtype=HEADER)
            self._buffer[: len(kept)] = kept
            self._start, self._stop = 0, len(kept)
        self._buffer[self._stop : self._stop + len(headers)] = headers
        self._stop += len(headers)
        # Of an index that is there several times the last value stays.
        self._last[headers["shard"]] = headers["sequence"]

    def add_shard(self) -> None:
        """Expect headers of one shard more."""
        self._last = np.append(self._last, NONE)

    def forget(self, shard: int) -> None:
        """Forget the last header of a shard."""
        self._last[shard] = NONE

    def slice(self, start: int, stop: int) -> Headers:
        """Return a copy of the headers with `start <= index < stop`; fewer if the log ends before `stop`."""
        assert start >= self.base, "headers before the base are gone"
        offset = self._start - self.base
        return self._buffer[offset + start : min(offset + stop, self._stop)].copy()

    def first_of(self, shard: int) -> int | None:
        """Return the index of a shard's first header; None if there is none. Nothing is copied."""
        shards = self._buffer["shard"]
        for begin in range(self._start, self._stop, _BLOCK):
            mine = np.flatnonzero(shards[begin : min(begin + _BLOCK, self._stop)] == shard)
            if len(mine):
                return self.base + begin - self._start + int(mine[0])
        return None

    def last_of(self, shard: int) -> int:
        """Return the sequence of the last header that a shard ever had here; -1: it had none."""
        return int(self._last[shard])

    def most_since(self, index: int) -> tuple[int, int]:
        """Return the most headers, and the most bytes, that a shard has from an index on."""
        kept = self.slice(max(index, self.base), self.tip)
        if not len(kept):
            return 0, 0
        sizes = np.bincount(kept["shard"], weights=kept["bytes"])
        return int(np.bincount(kept["shard"]).max()), int(sizes.max())

    def rows_of(self, shard: int) -> int:
        """Return how many row changes of a shard are here."""
        kept = self.slice(self.base, self.tip)
        return int(kept["rows"][kept["shard"] == shard].sum())

    def truncate(self, base: int) -> Headers:
        """Forget the headers before `base`, and return them."""
        gone = self.slice(self.base, base)
        self._start += len(gone)
        self.base += len(gone)
        return gone
