"""The record: the observed actions of all processes, and how they map to the sources' headers."""

from __future__ import annotations

from canal_group.merge.calls.batch import Batch
from canal_group.merge.values.position import GroupPosition
from simulation.binlog import Binlog
from simulation.consumption import Consumption, ViolationError
from simulation.loop import Loop
from simulation.removal import Removal
from simulation.source import IDENTITY, Reach, ReadPosition, Source


class Record:
    """The observations so far; subclasses check them.

    Args:
        loop: its time, for the story.
        sources: the reference data.
        outstanding_max: bound on batches of a client id.
        late: whether the settings' policy may make transactions late.
        newcomer: the shard that joins the others, if any.
        elections_fence: whether an election fences the cursor store, and not only the claim after it.
        at_once: whether an acknowledgement is durable when it is answered, and not some time later.
        replays: whether a client may be behind the others and read an archive.
    """

    def __init__(
        self,
        loop: Loop,
        sources: list[Source],
        outstanding_max: int,
        *,
        late: bool,
        newcomer: int | None,
        elections_fence: bool,
        at_once: bool = True,
        replays: bool = False,
    ) -> None:
        self._loop = loop
        self._sources = sources
        self._outstanding_max = outstanding_max
        #: shards whose transactions may be late
        self._may_be_late = set(range(len(sources))) if late else set()
        self._newcomer = newcomer
        #: the epoch in which a cursor first held the newcomer; None: no cursor holds it
        self._joined_epoch: int | None = None
        #: indexes of what its source had purged when it joined
        self._joined_after: frozenset[int] | None = None
        #: since when a shard is held, by (epoch, shard)
        self._held: dict[tuple[int, int], int] = {}
        #: removals by (epoch, shard), and those that a cursor says have happened
        self._removals: dict[tuple[int, int], Removal] = {}
        self._left: dict[int, Removal] = {}
        self._elections_fence = elections_fence
        self._at_once = at_once
        self._replays = replays
        #: client ids that need transactions which a source has purged
        self._stranded: set[str] = set()
        self._epoch = 0
        #: the newest epoch that the cursor store has seen
        self._fence = 0
        self._consumptions: dict[str, Consumption] = {}
        #: writes that came through
        self.writes = 0
        #: how often each thing happened
        happened = (
            "elections",
            "batches",
            "acks",
            "again",
            "late",
            "removed",
            "policies",
            "dropped",
            "forgotten",
            "looks",
        )
        self.counts = dict.fromkeys(
            (
                *happened,
                "offset_ranges",
                "offset ranges again",
                "offset ranges torn",
                "offset ranges crowded",
                "failovers",
                "repeated",
            ),
            0,
        )

    def _of(self, client_id: str) -> Consumption:
        if client_id not in self._consumptions:
            self._consumptions[client_id] = Consumption()
        return self._consumptions[client_id]

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            self._loop.note("invariants", "{}", what)
            raise ViolationError(what)

    def positions(self, batch: Batch) -> list[ReadPosition]:
        """Return which headers of the sources a batch holds, in its order."""
        columns = (batch.headers[name].tolist() for name in ("shard", *IDENTITY))
        return [
            (shard, self._sources[shard].index_of(batch.names[origin], number, batch.names[file], *rest))
            for shard, origin, number, file, *rest in zip(*columns, strict=True)
        ]

    def _binlogs(self, batch: Batch) -> dict[int, Binlog]:
        """Return, by shard, the binlog that a batch's headers are of; its end names the server."""
        shards = {int(shard) for shard in batch.headers["shard"]}
        ends = batch.after.end.shards
        return {shard: self._sources[shard].binlog_of(ends[f"s{shard}"].server) for shard in shards}

    def _reaches(self, cursor: GroupPosition, consumption: Consumption) -> list[Reach]:
        """Return for each shard what is before a cursor; for a shard that left, before its last position."""
        last = consumption.durable or [Reach()] * len(self._sources)
        return [
            source.reach(cursor.shards[f"s{index}"])
            if f"s{index}" in cursor.shards
            else (last[index] if f"s{index}" in cursor.retired else Reach())
            for index, source in enumerate(self._sources)
        ]

    def passed(self, client_id: str) -> list[set[int]]:
        """Return for each shard what is before the cursor that the active server knows to be durable."""
        known = self._of(client_id).known or [Reach()] * len(self._sources)
        return [set(reach.passed) for reach in known]

    def consumed(self, client_id: str) -> list[int]:
        """Return for each shard how many headers are before the cursor that the active server knows."""
        return [len(passed) for passed in self.passed(client_id)]

    def is_known(self, shard: int) -> bool:
        """Return whether a cursor holds a shard."""
        cursors = [consumption.cursor for consumption in self._consumptions.values()]
        return any(cursor is not None and f"s{shard}" in cursor.shards for cursor in cursors)
