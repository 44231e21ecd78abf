"""A subscriber's read position in the merged log, and the batches and offset ranges that it is given there.

Rules:

1. A transaction at or before the position of `stand_at` is never given, even if it comes out of the log
   again.
2. A key is never smaller than the greatest key which that position has passed. A smaller key that comes out
   of the log is raised to it, and its header is flagged LATE, unless it is FUTURE or a PAGE, or that key is
   its own shard's: a shard's order has priority over its clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from canal_group.merge.calls.batch import Batch
from canal_group.merge.delivery.batch_limits import BatchLimits
from canal_group.merge.errors import DataError, RolledBack
from canal_group.merge.order.stream import Stream
from canal_group.merge.snapshot.range_pages import check_pages
from canal_group.merge.values.header import Flag, Headers
from canal_group.merge.values.offset_range import (
    OffsetRange,
    arrange,
    check_same,
    covered,
    same_positions,
    up_to,
    without_left,
)
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.progress import Progress

#: most headers examined for one batch
HEADERS_MAX = 32_768


class ReadPosition:
    """Where one subscriber reads; see the module's rules.

    It learns of acknowledgements and rollbacks only through `passed`, `go_past` and `go_back`.

    Args:
        limits: bounds of one batch or offset range.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        #: log index after the last header that was given
        self.read = 0
        #: the same point in the stream
        self._progress = Progress.at(GroupPosition())
        #: by shard_index: what the log holds at or before this position is consumed
        self._consumed: dict[int, Position] = {}
        #: greatest key that the position of `stand_at` has passed
        self._passed_us = 0
        #: shard_index of the shards that have passed that key themselves
        self._passed_by: list[int] = []

    @property
    def position(self) -> GroupPosition:
        """Position of the stream after what was given."""
        return self._progress.end

    def stand_at(self, cursor: GroupPosition, stream: Stream) -> None:
        """Start to read at the log's base, and skip what is at or before the cursor.

        Args:
            cursor: names the stream's shards.
            stream: one that merges.
        """
        begin = stream.base.ack.shards
        self.read, self._progress = stream.log.base, Progress.at(cursor)
        self._passed_us = passed_us = cursor.passed_us
        self._passed_by = [
            index
            for index, shard in enumerate(stream.shards)
            if shard in cursor.shards and cursor.shards[shard].key_us == passed_us
        ]
        # The log holds nothing before its base. Where cursor and base agree, nothing has to be compared; only
        # a cursor has a key.
        self._consumed = {
            index: cursor.shards[shard]
            for index, shard in enumerate(stream.shards)
            if shard in begin and replace(cursor.shards[shard], key_us=begin[shard].key_us) != begin[shard]
        }

    def skip_consumed(self, stream: Stream) -> None:
        """Read past headers that the client has consumed, so that the rings can free their rows."""
        while self._consumed:
            window = stream.log.slice(self.read, self.read + HEADERS_MAX)
            indexes = np.flatnonzero(self._fresh(window, stream))
            self.read += int(indexes[0]) if len(indexes) else len(window)
            if len(indexes) or not len(window):
                return

    def pass_quiet(self, stream: Stream) -> GroupPosition | None:
        """Move past the headers without rows that come next, up to the end of a transaction.

        Args:
            stream: one that merges.

        Returns:
            The cursor there; None if it is the one from before.
        """
        before = self._progress
        while self._pass_window(stream):
            pass
        return None if self._progress is before else self._progress.ack

    def _pass_window(self, stream: Stream) -> bool:
        """Move past the headers without rows in the next window; return whether all of it is passed."""
        window = stream.log.slice(self.read, self.read + HEADERS_MAX)
        fresh = self._fresh(window, stream)
        with_rows = np.flatnonzero(fresh & (window["rows"] > 0))
        ended = fresh & ((window["flags"] & Flag.END) != 0)
        ends = np.flatnonzero(ended[: with_rows[0]] if len(with_rows) else ended)
        if not len(ends):
            return False
        stop = int(ends[-1]) + 1
        headers = window[:stop][fresh[:stop]]
        self._raise_keys(headers)
        before = self._reconciled(stream)
        self._progress = stream.past(before, headers)
        self.read += stop
        self._no_longer_compared(headers, stream)
        return stop == HEADERS_MAX

    def next_batch(self, batch_id: int, stream: Stream, rows_max: int) -> Batch | None:
        """Return the next batch from the log and move past it; None if there is nothing to give.

        Args:
            batch_id: its id.
            stream: one that merges.
            rows_max: bound on row changes, besides the limits; a batch has at least one header.
        """
        self.skip_consumed(stream)
        window = stream.log.slice(self.read, self.read + HEADERS_MAX)
        if not len(window):
            return None
        headers, indexes = window, np.arange(len(window))
        if self._consumed:
            indexes = np.flatnonzero(self._fresh(window, stream))
            headers = window[indexes]
            headers = headers[: _up_to_a_gap(headers)]
            if not len(headers):
                return None
        count = self._limits.count_batch(headers, rows_max)
        stop = len(window)
        if count < len(indexes):
            stop = int(indexes[count])
        # A copy: the batch outlives the window that it was cut from.
        headers = headers[:count].copy()
        if self.read + stop == stream.log.tip and self._limits.may_wait(headers) and _may_come(stream):
            return None
        self._raise_keys(headers)
        before = self._reconciled(stream)
        after = stream.past(before, headers)
        batch = self._batch(batch_id, stream, headers, stop, before, after)
        self.go_past(batch)
        return batch

    def _reconciled(self, stream: Stream) -> Progress:
        """Return the progress with the current shards: what was rolled back may be older than a join."""
        return replace(
            self._progress,
            ack=stream.reconciled(self._progress.ack),
            end=stream.reconciled(self._progress.end),
        )

    def next_range(self, batch_id: int, offset_range: OffsetRange, stream: Stream) -> Batch | None:
        """Return an offset range that begins here and move past it; None if not all of it has arrived yet.

        Raises:
            RolledBack: it begins elsewhere.
            DataError: it differs from what it was when its end was noted, or does not fit into the rings.
        """
        self.skip_consumed(stream)
        window = stream.log.slice(self.read, stream.log.tip)
        indexes = np.flatnonzero(self._fresh(window, stream))
        headers = window[indexes]
        if not same_positions(self._progress.end, offset_range.start):
            raise RolledBack(
                "The reader is not positioned where the offset range begins.",
                hint="Discard the rows that you have not acknowledged, then ask again.",
            )
        if offset_range.until is not None:
            chosen = covered(
                without_left(offset_range, stream.membership.retired),
                self._progress.end,
                headers,
                stream.names,
                stream.shards,
                stream.servers,
            )
            if chosen is None:
                self._check_comes(window, offset_range.until, stream)
        else:
            chosen = self._choose(headers, offset_range, stream)
        if chosen is None:
            return None
        return self._give_range(batch_id, offset_range, stream, window, indexes, chosen)

    def _check_comes(self, window: Headers, until: GroupPosition, stream: Stream) -> None:
        """Return if the rest of an offset range can arrive while the rings keep the part that has arrived.

        A shard that joined after the end was noted may have more rows in between than its ring holds, and so
        may one whose snapshot was steered.

        Raises:
            DataError: the rest cannot arrive.
        """
        holding = stream.held_by_full
        for shard in range(len(stream.shards)):
            if shard == holding or stream.is_crowded(shard):
                mine, end = window[window["shard"] == shard], until.shards.get(stream.shards[shard])
                server = stream.servers[shard]
                lacks = (
                    end is not None and up_to(mine, stream.names, end, same_server=end.is_of(server)).all()
                )
                if shard == holding or lacks:
                    self._limits.check_brings(stream.shards[shard], mine)

    def _choose(
        self, headers: Headers, offset_range: OffsetRange, stream: Stream
    ) -> NDArray[np.bool_] | None:
        """Return which headers are in an offset range without a given end; None if it has to wait."""
        stop = _up_to_a_gap(headers)
        if stop < len(headers):
            # Headers after the gap cannot be in the offset range, so it does not wait for more.
            offset_range = replace(offset_range, rows_min=0)
        count = self._limits.count_range(headers[:stop], offset_range)
        at_tip = stop == len(headers)
        waits = not offset_range.may_be_empty and self._limits.may_wait(headers[:count])
        if not count or (at_tip and waits and _may_come(stream)):
            return None
        chosen: NDArray[np.bool_] = np.arange(len(headers)) < count
        return chosen

    def _give_range(
        self,
        batch_id: int,
        offset_range: OffsetRange,
        stream: Stream,
        window: Headers,
        indexes: NDArray[np.intp],
        chosen: NDArray[np.bool_],
    ) -> Batch:
        """Return the chosen headers as a batch; the headers between them in the log stay for later."""
        # A shard that joined since the start was noted is positioned where it joined.
        start = stream.reconciled(
            replace(
                self._progress.end,
                shards={**self._progress.end.shards, **offset_range.noted_start.shards},
            )
        )
        headers = arrange(window[indexes[chosen]], start, offset_range.until)
        if _up_to_a_gap(headers) < len(headers):
            raise DataError(
                "The transactions of the offset range are no longer contiguous: another server took over, and"
                " its binlog has them in another order.",
                hint="Start again from another position.",
            )
        before = Progress.at(start)
        after = stream.past(before, headers)
        if offset_range.until is not None:
            check_same(offset_range.until, after)
            check_pages(start, offset_range.until, after.end)
            # An operator may have changed since what the snapshots read.
            noted = offset_range.until.shards
            texts = {name: at.snapshot for name, at in after.end.shards.items()}
            end = replace(after.end, shards={**after.end.shards, **noted}).with_snapshots(texts)
            after = Progress.at(end)
        left = indexes[~chosen]
        stop = int(left[0]) if len(left) else len(window)
        batch = replace(
            self._batch(batch_id, stream, headers, stop, before, after), consumed=dict(self._consumed)
        )
        shards = np.unique(headers["shard"]).tolist()
        holes = bool((indexes[chosen] > stop).any())
        for shard in shards:
            self._have(shard, after.end.shards[stream.shards[shard]], stream, holes=holes)
        self.go_past(batch)
        return batch

    def _batch(
        self, batch_id: int, stream: Stream, headers: Headers, stop: int, before: Progress, after: Progress
    ) -> Batch:
        """Return a batch of headers that ends `stop` indexes after the read position in the log."""
        return Batch(
            batch_id=batch_id,
            before=before,
            after=after,
            headers=headers,
            names=stream.names,
            log_start=self.read,
            log_stop=self.read + stop,
            generation=stream.generation,
            shards=stream.shards,
        )

    def go_past(self, batch: Batch) -> None:
        """Move past a batch of this log."""
        self.read, self._progress = batch.log_stop, batch.after

    def lift(self, cursor: GroupPosition) -> None:
        """Say that the read position is a later cursor: there are no rows in between."""
        self._progress = Progress.at(cursor)

    def go_back(self, taken: Sequence[Batch]) -> None:
        """Move back before batches that were rolled back: the newest that were given, oldest first."""
        self.read, self._progress = taken[0].log_start, taken[0].before
        consumed = next((batch.consumed for batch in taken if batch.consumed is not None), self._consumed)
        self._consumed = dict(consumed)

    def _have(self, shard: int, position: Position, stream: Stream, *, holes: bool) -> None:
        """Note that a shard was given up to `position`; with `holes`, the log has other headers between."""
        before = self._consumed.pop(shard, None)
        if before is not None and self._told_by_gtid(shard, before, stream):
            self._consumed[shard] = replace(before, gtid_set=position.gtid_set)
        elif holes:
            self._consumed[shard] = position

    def passed(self, batch: Batch, stream: Stream) -> None:
        """Note that a batch was acknowledged."""
        if batch.consumed is not None:
            return
        self._no_longer_compared(batch.headers, stream)

    def _no_longer_compared(self, headers: Headers, stream: Stream) -> None:
        """Note that in the shards of these headers nothing after them in the log is consumed yet.

        Exception: where GTIDs tell what is consumed. A server that wrote in another order may bring any
        consumed transaction later.
        """
        for shard in np.unique(headers["shard"]).tolist():
            before = self._consumed.get(shard)
            if before is None:
                continue
            brought = stream.base.ack.shards[stream.shards[shard]].gtid_set
            if not self._told_by_gtid(shard, before, stream) or brought.contains(before.gtid_set):
                del self._consumed[shard]

    @staticmethod
    def _told_by_gtid(shard: int, position: Position, stream: Stream) -> bool:
        """Return whether GTIDs tell what is consumed, because the position is in another server's binlog."""
        return bool(position.gtid_set) and not position.is_of(stream.servers[shard])

    def _raise_keys(self, headers: Headers) -> None:
        """Apply rule 2 to headers that are about to be delivered."""
        # Times do not order a group that is ordered by id, and no position has its keys.
        by_time = (headers["flags"] & Flag.BY_ID) == 0
        low = by_time & (headers["key_us"] < self._passed_us)
        # A FUTURE header's key does not say when its transaction was committed, and a page was not committed.
        believed = (headers["flags"] & (Flag.FUTURE | Flag.PAGE)) == 0
        late = low & believed & ~np.isin(headers["shard"], self._passed_by)
        headers["flags"][late] |= np.uint16(Flag.LATE)
        headers["key_us"][low] = self._passed_us

    def _fresh(self, headers: Headers, stream: Stream) -> NDArray[np.bool_]:
        """Return which headers are not consumed yet."""
        fresh = np.ones(len(headers), dtype=bool)
        for shard, position in self._consumed.items():
            mine = headers["shard"] == shard
            same = position.is_of(stream.servers[shard])
            fresh[mine] = ~up_to(headers[mine], stream.names, position, same_server=same)
        return fresh


def _may_come(stream: Stream) -> bool:
    """Return whether more headers may come out of the timeline before anything is delivered."""
    return not stream.leaving.drained and not stream.crowded


def _up_to_a_gap(headers: Headers) -> int:
    """Return how many headers precede the first gap in a shard's sequences.

    A batch has to be a run of each shard's sequences. After a failover, transactions that a subscriber has
    consumed may lie between new ones, because the other server wrote them in another order.
    """
    by_shard = np.argsort(headers["shard"], kind="stable")
    shard, sequence = headers["shard"][by_shard], headers["sequence"][by_shard]
    gaps = by_shard[1:][(shard[1:] == shard[:-1]) & (sequence[1:] != sequence[:-1] + 1)]
    return int(gaps.min()) if len(gaps) else len(headers)
