"""A consumer that keeps its position itself, as a Spark query does: it notes a range's end, then reads it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.consumers import Ack, GetRange
from canal_group.merge.errors import (
    CanalGroupError,
    DataError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    UsageError,
)
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition, Position
from simulation.snapshots.consumer import GET_US, Consumer, location_of
from simulation.snapshots.copy import ShardCopy, require
from simulation.snapshots.shard import Fetched, Told

#: how many noted ranges are read again when it restarts, at most
AGAIN_MAX = 3


@dataclass(slots=True)
class _Noted:
    """A range that was noted, before its rows were read."""

    start: GroupPosition
    end: GroupPosition
    #: what it had, by header; None: it was never read
    rows: list[Any] | None
    #: how often pages of each shard were forgotten until then
    forgotten: Counter[str]
    #: how many failovers there had been
    failovers: int
    #: of the server that it was noted under
    epoch: int
    #: whether it was acknowledged, so that its pages may be removed
    acknowledged: bool = False


class RangeConsumer(Consumer):
    """Reads offset ranges, some of them again after a restart; see `Consumer`."""

    def __init__(self, *arguments: Any, snapshot: bool, told: Told) -> None:
        super().__init__(*arguments, snapshot=snapshot, told=told)
        #: where the first range begins; None: at the cursor, once it is subscribed
        self._first: GroupPosition | None = None
        #: ranges, the oldest first; they outlive the process
        self._noted: list[_Noted] = []
        #: by shard, server and place the snapshots with which ranges ended there
        self._ended: defaultdict[tuple[str, str, str], set[str | None]] = defaultdict(set)

    def begin(self) -> None:
        """Go on from what was noted, and read some of it again."""
        again = self.loop.chance.randrange(AGAIN_MAX + 1)
        #: how many of the last ranges are read again
        self._again = min(again, len(self._noted))
        if self._noted and self._noted[-1].rows is None:
            self._again = max(1, self._again)
        super().begin()

    async def _subscribe(self) -> None:
        cursor = await super()._subscribe()
        if self._first is None:
            self._first = cursor
        return cursor

    async def _turn(self) -> None:
        """Read a range again, or note the next one and read it; acknowledge it."""
        offset_range, noted = self._next()
        # Pages of a range on its way may be forgotten meanwhile.
        forgotten, failovers, epoch = self._forgotten.copy(), self._failovers, self._group.machine.epoch
        call = GetRange(self._client_id, self._epoch, offset_range, GET_US / 1e6, may_rewind=True)
        try:
            batch = await self._give(call)
        except (RetryableError, RolledBack):
            raise
        except (DataError, UsageError) as error:
            self._refused(noted, error)
            return
        if batch is not None:
            if noted is None:
                noted = _Noted(batch.start, batch.end, None, forgotten, failovers, epoch)
                self._noted.append(noted)
                self._again = 1
            await self._read(batch, noted)

    def _next(self) -> tuple[OffsetRange, _Noted | None]:
        if not self._again and self.loop.chance.random() < self.fickle:
            self._again = min(self.loop.chance.randrange(AGAIN_MAX + 1), len(self._noted))
        if self._again:
            noted = self._noted[-self._again]
            return OffsetRange(noted.start, noted.end), noted
        start = self._noted[-1].end if self._noted else self._first
        assert start is not None, "it is subscribed"
        rows_max = 64 if self.hurries else self.loop.chance.randrange(1, 12)
        empty = self.loop.chance.random() < 0.5
        return OffsetRange(start, rows_max=rows_max, may_be_empty=empty), None

    async def _read(self, batch: Batch, noted: _Noted) -> None:
        self.note(
            "reads {} from {} to {}",
            [
                each.tolist()
                for each in batch.headers[["shard", "begin_offset", "row_begin", "rows", "flags"]]
            ],
            {k: (str(v), v.snapshot) for k, v in noted.start.shards.items()},
            {k: (str(v), v.snapshot) for k, v in noted.end.shards.items()},
        )
        texts = {name: at.snapshot for name, at in batch.start.shards.items()}
        self._go_to(noted.start.with_snapshots(texts))
        copy = self.copy
        assert copy is not None, "it goes on at the start"
        _, found = await self._add(copy, batch, copy)
        for name, position in batch.end.shards.items():
            self._pass_empty(copy.shards[name], name, position.server, position.file, position.offset)
        self._require_at(copy, batch.end)
        self._note_snapshots(noted.end)
        self._note_snapshots(batch.end)
        shards = batch.headers["shard"].tolist()
        rows = [
            (shard, what)
            for shard, each in zip(shards, found, strict=True)
            for what in (*each.rows, *each.statements)
        ]
        if noted.rows is None:
            noted.rows = rows
        else:
            self._told.again += 1
        require(noted.rows == rows, "{}: a range has {} and had {}", self.name, rows, noted.rows)
        self._copies[location_of(noted.end)] = copy.clone()
        self._again -= 1
        self._told.batches += 1
        noted.acknowledged = True
        await self._give(Ack(self._client_id, self._epoch, batch.batch_id))
        if not self._again:
            self.acknowledged = copy

    def _note_snapshots(self, end: GroupPosition) -> None:
        for name, at in end.shards.items():
            self._ended[name, at.server, str(at)].add(at.snapshot)

    def _have_snapshot(self, mine: ShardCopy, shard: str, position: Position) -> None:
        """Have the snapshot that it was told there before: lanes may differ in what follows."""
        if position.snapshot in self._ended[shard, position.server, str(position)]:
            mine.text = position.snapshot
            mine.over &= position.snapshot is None
        else:
            super()._have_snapshot(mine, shard, position)

    def _look_at(
        self, mine: ShardCopy, shard: str, header: Any, names: Any, came: Fetched, *, known: bool
    ) -> None:
        """Be where a header begins; ranges are compared whole, so its page is not."""
        del known
        self._pass_empty(mine, shard, came.server, names[header["file"]], int(header["begin_offset"]))

    def _pass_empty(self, mine: ShardCopy, shard: str, uuid: str, file: str, offset: int) -> None:
        """Pass transactions without rows, which are left out where a stream begins."""
        source = self._sources[shard]
        count = next(each for each in source.servers if each.uuid == uuid).count_at(file, offset)
        if mine.count < count and not mine.part:
            left = [each for each in source.transactions[mine.count : count] if each.has_rows]
            require(not left, "{}: {} transactions with rows are left out of {}", self.name, len(left), shard)
            mine.count = count

    @property
    def _failovers(self) -> int:
        return sum(each.failovers for each in self._sources.values())

    def _refused(self, noted: _Noted | None, error: CanalGroupError) -> None:
        """Begin again at the cursor: what was noted cannot be had any more, for a reason.

        Raises:
            NotSubscribed: always.
        """
        last = noted or (self._noted[-1] if self._noted else None)
        # A ring may be too small for what comes again.
        may = self.was_steered or "is full before all" in error.message
        if last is not None:
            forgotten = self._forgotten != last.forgotten or self._group.forgets_cursors
            may |= forgotten or (noted is not None and noted.acknowledged)
            # Perhaps it was asked while another server was read.
            may |= self._failovers != last.failovers
            # A server that found an older cursor has its pages selected anew, and none of those after it.
            found = self._group.found.get(self._client_id)
            may |= self._group.machine.epoch != last.epoch and (
                found is None or location_of(found) != location_of(last.start)
            )
            for each in (last.start, last.end):
                actives = {name: self._sources[name].active.uuid for name in each.shards}
                may |= any(not position.is_of(actives[name]) for name, position in each.shards.items())
        require(may, "{}: a range is refused, and no page was lost: {}", self.name, error)
        self.note("begins again at its cursor: {}", error)
        self._told.refused += 1
        self._noted.clear()
        self._first, self._again = None, 0
        raise NotSubscribed("It begins again.")
