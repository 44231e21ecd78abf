"""Ports of a shard, as its group calls it; `canal_group.actors.shard.channel` has the adapters."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from canal_group.actors.shard.report import ShardReport
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition
from canal_group.merge.values.skips.skipped_event import SkippedEvent


class ShardRpc(Protocol):
    """An RPC connection to a shard for frequent calls; its methods run on one loop.

    The shard starts calls in the order in which they were made.
    """

    def poll(
        self,
        epoch: int,
        generation: int,
        items_max: int,
        wait_s: float,
        done: int,
        skips: Sequence[SkippedEvent] | None = None,
        needed: Sequence[KeptPosition] | None = None,
    ) -> Awaitable[ShardReport]:
        """Return the shard's report, see `canal_group.actors.shard.shard.Shard.poll`.

        Raises:
            CanalGroupError: the shard's own, or ServerUnavailable if it is unknown whether the call arrived.
        """

    def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Let the ring drop everything up to and including `sequence`; not awaited, and may get lost."""

    def close(self) -> None:
        """Close the connection; calls without an answer raise ServerUnavailable."""


class ShardChannel(Protocol):
    """A connection to one shard; all methods run on one loop."""

    async def open(
        self,
        epoch: int,
        generation: int,
        position: Position | None,
        history: str | None,
        skips: Sequence[SkippedEvent] = (),
        read_to: Sequence[Position] = (),
        needed: Sequence[KeptPosition] = (),
    ) -> Position:
        """Let it read from `position`; return where the stream begins.

        See `canal_group.actors.shard.shard.Shard.open`.

        Raises:
            CanalGroupError: the shard's own, or ServerUnavailable if it is unknown whether the call arrived.
        """

    async def rpc(self) -> ShardRpc:
        """Open an RPC connection to it.

        Raises:
            ServerUnavailable: the shard does not answer.
        """

    def close(self, epoch: int) -> None:
        """Let it disconnect from its source, see `Shard.close`; not awaited, and may get lost."""

    def close_lane(self, epoch: int, lane: int) -> None:
        """Let it forget the ring of a replay, see `Shard.close_lane`; not awaited, and may get lost."""


class ShardDirectory(Protocol):
    """Finds the shards of a destination by their names."""

    def find(self, shard: str) -> ShardChannel:
        """Return the channel to a shard.

        Raises:
            ShardUnavailable: it has no actor, because it was removed or is not made yet.
        """
