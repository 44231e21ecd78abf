"""The stream: the shards of a group and what they become together, one merged log.

Rules:

1. There is one recovery: a *rewind*. Everything that came in is forgotten and every shard is opened again,
   under a new generation. What carries an older generation is ignored.
2. Merging begins when it is known where every shard stands. What shards report before is kept until then.
3. A shard that is silent for longer than the policy allows does not count until it is back, and no further
   behind than that: what it brings meanwhile may be late. While all are silent nobody is left to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from merge.errors import CanalGroupError
from merge.events import FreeRing, OpenShard, ShardFailed, ShardOpened, ShardReported
from merge.merged_log import MergedLog
from merge.position import GroupPosition, Position, file_order
from merge.progress import Progress
from merge.timeline import END_OF_TIME_US, Timeline


class ShardState(StrEnum):
    """What the group knows of a shard."""

    #: asked to read on, no answer yet
    OPENING = "opening"
    #: its headers come in
    OPEN = "open"
    #: stopped at data it cannot process
    FAILED = "failed"


@dataclass(slots=True)
class _Shard:
    state: ShardState = ShardState.OPENING
    #: when the state was entered
    since_us: int = 0
    #: when it last brought a header or a greater promise
    moved_us: int = 0
    #: where it was opened; None until it was
    opened_at: Position | None = None
    #: identity of the server that its headers are of; empty: not known
    server: str = ""
    #: where it was asked to open; None: where its settings say
    asked_at: Position | None = None
    #: reports that came before merging began; bounded by its ring
    early: list[ShardReported] = field(default_factory=list)
    #: why it is not open
    error: CanalGroupError | None = None
    reason: str = ""


class Stream:
    """Merges the shards of a group; see the module's rules.

    Args:
        shards: names by shard_index.
        skip_after_us: go on without a shard that is silent for longer; None: wait for ever.
    """

    def __init__(self, shards: tuple[str, ...], skip_after_us: int | None) -> None:
        self.shards = shards
        #: grows with each rewind
        self.generation = 0
        #: what went out of the timeline and is not done with
        self.log = MergedLog()
        #: where the log begins
        self.base = Progress.at(GroupPosition())
        self._skip_after_us = skip_after_us
        self._shards = [_Shard() for _ in shards]
        self._timeline: Timeline | None = None
        #: late transactions of earlier generations
        self._late = 0

    @property
    def merging(self) -> bool:
        """Whether merging has begun in this generation."""
        return self._timeline is not None

    @property
    def names(self) -> tuple[str, ...]:
        """What the indexes in the log's headers point to."""
        return self._timeline.names.as_tuple() if self._timeline is not None else ()

    @property
    def servers(self) -> tuple[str, ...]:
        """Identities of the servers that the log's headers are of, by shard_index."""
        return tuple(shard.server for shard in self._shards)

    @property
    def failure(self) -> CanalGroupError | None:
        """Why a shard stopped at its data and holds the others; None: none does."""
        for index, shard in enumerate(self._shards):
            skipped = self._timeline is not None and self._timeline.excluded(index)
            if shard.state is ShardState.FAILED and not skipped:
                return shard.error
        return None

    # ---- recovery --------------------------------------------------------------------------------------

    def rewind(self, cursors: Sequence[GroupPosition], at_us: int) -> list[OpenShard]:
        """Forget what came in and open every shard at the oldest of the cursors, under a new generation."""
        self.generation += 1
        self._late += self._timeline.late if self._timeline is not None else 0
        self._timeline, self.log = None, MergedLog()
        sequence = min((cursor.sequence for cursor in cursors), default=self.base.ack.sequence)
        # Without a cursor a shard goes on where the log began.
        self.base = Progress.at(GroupPosition(self.base.ack.shards, sequence))
        for index, name in enumerate(self.shards):
            shard = self._shards[index]
            known = [cursor.shards[name] for cursor in cursors if name in cursor.shards]
            asked_at = _oldest(known) if known else self.base.ack.shards.get(name)
            asked_at = asked_at or shard.opened_at or shard.asked_at
            self._shards[index] = _Shard(since_us=at_us, moved_us=at_us, asked_at=asked_at)
        return [OpenShard(index, self.generation, shard.asked_at) for index, shard in enumerate(self._shards)]

    def note_loss(self, shard: int, reason: str) -> None:
        """Note, for people, why a shard is being opened again."""
        self._shards[shard].reason = reason

    def _begin(self, at_us: int) -> None:
        """Start merging: of every shard it is known where it stands."""
        positions: dict[str, Position] = {}
        for name, shard in zip(self.shards, self._shards, strict=True):
            position = shard.opened_at or shard.asked_at
            assert position is not None, "merging begins at known positions"
            positions[name] = position
            if shard.opened_at is not None:
                shard.moved_us = at_us
        self.base = Progress.at(GroupPosition(positions, self.base.ack.sequence))
        self._timeline = Timeline([position.key_us for position in positions.values()])
        for shard in self._shards:
            early, shard.early = shard.early, []
            for report in early:
                self._take(self._timeline, report)

    # ---- events of shards ------------------------------------------------------------------------------

    def opened(self, event: ShardOpened) -> None:
        """Take note that a shard reads, and begin merging if it was the last one missing."""
        shard = self._shards[event.shard]
        if event.generation != self.generation or shard.opened_at is not None:
            return
        shard.state, shard.since_us, shard.moved_us = ShardState.OPEN, event.at_us, event.at_us
        shard.opened_at, shard.error, shard.reason = event.position, None, ""
        if self._timeline is None and all(other.opened_at is not None for other in self._shards):
            self._begin(event.at_us)
            self._advance()

    def reported(self, event: ShardReported) -> None:
        """Take what a shard brings, and let out what may go out."""
        if event.generation != self.generation:
            return
        shard = self._shards[event.shard]
        if shard.state is ShardState.FAILED:
            shard.state, shard.since_us, shard.error = ShardState.OPEN, event.at_us, None
        if self._timeline is None:
            shard.early.append(event)
            shard.moved_us = event.at_us
            return
        self._take(self._timeline, event)
        self._advance()

    def failed(self, event: ShardFailed) -> None:
        """Take note that a shard stopped at its data."""
        shard = self._shards[event.shard]
        if event.generation != self.generation:
            return
        if shard.state is not ShardState.FAILED:
            shard.state, shard.since_us = ShardState.FAILED, event.at_us
        shard.error = event.error

    def skip_silent(self, at_us: int) -> None:
        """Go on without shards that were silent for too long, if that is the policy."""
        if self._skip_after_us is None:
            return
        silent = self._silent(at_us, self._skip_after_us)
        if all(silent):
            return
        if self._timeline is None:
            unread = [
                (shard, dead) for shard, dead in zip(self._shards, silent, strict=True) if not shard.opened_at
            ]
            if any(shard.asked_at is None or not dead for shard, dead in unread):
                return
            self._begin(at_us)
            silent = self._silent(at_us, self._skip_after_us)
        assert self._timeline is not None
        for index, dead in enumerate(silent):
            if dead:
                self._timeline.exclude(index)
        self._advance()

    def _silent(self, at_us: int, skip_after_us: int) -> list[bool]:
        """Return which shards were silent for too long; one that is at its end has nothing more to say."""
        return [
            at_us - shard.moved_us > skip_after_us
            and not (self._timeline is not None and self._timeline.frontier_us(index) == END_OF_TIME_US)
            for index, shard in enumerate(self._shards)
        ]

    def _take(self, timeline: Timeline, event: ShardReported) -> None:
        """Enter a shard's headers, then its promise, which was made after them."""
        moved = False
        self._shards[event.shard].server = event.server
        if event.run is not None and len(event.run):
            timeline.append(event.shard, event.run)
            moved = True
        if event.frontier_us is not None:
            moved |= timeline.promise(event.shard, event.frontier_us)
        if not moved:
            return
        shard = self._shards[event.shard]
        shard.moved_us = max(shard.moved_us, event.at_us)
        if self._skip_after_us is not None and timeline.lag_us(event.shard) <= self._skip_after_us:
            timeline.include(event.shard)

    def _advance(self) -> None:
        """Let headers out of the timeline into the log."""
        assert self._timeline is not None
        self.log.append(self._timeline.advance())

    # ---- the log's end of life -------------------------------------------------------------------------

    def free(self, done: int) -> list[FreeRing]:
        """Forget the log before index `done`, and let the rings forget it."""
        gone = self.log.truncate(done)
        if not len(gone):
            return []
        self.base = self.base.past(gone, self.names, self.shards, self.servers)
        return [
            FreeRing(shard, self.generation, int(gone["sequence"][gone["shard"] == shard][-1]))
            for shard in np.unique(gone["shard"]).tolist()
        ]

    # ---- for people ------------------------------------------------------------------------------------

    def describe(self, at_us: int) -> dict[str, Any]:
        """Return the stream's state as a JSON object: its shards, and who holds the others up."""
        timeline = self._timeline
        if timeline is not None:
            held = timeline.held_by()
            watermark_us = timeline.watermark_us
        else:
            held = next((index for index, shard in enumerate(self._shards) if shard.opened_at is None), None)
            watermark_us = END_OF_TIME_US
        return {
            "generation": self.generation,
            "merging": timeline is not None,
            "watermark_us": watermark_us if watermark_us != END_OF_TIME_US else None,
            "headers_pending": timeline.pending if timeline is not None else 0,
            "headers_kept": self.log.tip - self.log.base,
            "late": self._late + (timeline.late if timeline is not None else 0),
            "held_by": self.shards[held] if held is not None else None,
            "held_since_s": (at_us - self._shards[held].moved_us) / 1e6 if held is not None else None,
            "shards": [self._describe_shard(index, at_us) for index in range(len(self._shards))],
        }

    def _describe_shard(self, index: int, at_us: int) -> dict[str, Any]:
        shard, timeline = self._shards[index], self._timeline
        position = self.base.ack.shards.get(self.shards[index]) if timeline is not None else None
        frontier_us = timeline.frontier_us(index) if timeline is not None else None
        return {
            "shard": self.shards[index],
            "state": shard.state.value,
            "state_since_s": (at_us - shard.since_us) / 1e6,
            "frontier_us": frontier_us if frontier_us != END_OF_TIME_US else None,
            "frontier_still_s": (at_us - shard.moved_us) / 1e6,
            "skipped": timeline.excluded(index) if timeline is not None else False,
            "acked_position": str(position) if position is not None else None,
            "error": str(shard.error) if shard.error is not None else shard.reason or None,
        }


def _oldest(positions: Sequence[Position]) -> Position:
    """Return the smallest position.

    A failover may have left positions of two servers, whose places do not compare: of these it is the one
    whose transactions are all before the others too, and where no GTIDs say that, the one with the smallest
    key.
    """
    one_server = all(position.is_of(other.server) for position in positions for other in positions)
    if one_server and len({file_order(position.file)[0] for position in positions}) == 1:
        return min(positions)
    within = [
        position
        for position in positions
        if position.gtid_set and all(other.gtid_set.contains(position.gtid_set) for other in positions)
    ]
    return min(within or positions, key=lambda position: position.key_us)
