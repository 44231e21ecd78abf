"""Ports of a shard, as its group calls it; `actors.shard.channel` has the adapters."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from actors.shard.report import ShardReport
from merge.values.position import Position


class ShardLine(Protocol):
    """An open way to a shard for the calls that come often; its methods run on one loop.

    Calls begin at the shard in the order in which they were made.
    """

    def poll(
        self, epoch: int, generation: int, items_max: int, wait_s: float, done: int
    ) -> Awaitable[ShardReport]:
        """Return what the shard reports, see `actors.shard.shard.Shard.poll`.

        Raises:
            CanalGroupError: the shard's own, or ServerUnavailable: it is unknown whether the call was heard.
        """

    def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Let the ring forget up to and with `sequence`; nobody waits, and it may not be heard."""

    def close(self) -> None:
        """Call no more; what is not answered raises ServerUnavailable."""


class ShardChannel(Protocol):
    """One shard; its methods run on one loop."""

    async def open(self, epoch: int, generation: int, position: Position | None) -> Position:
        """Let it read on from `position`, see `actors.shard.shard.Shard.open`; return where it begins.

        Raises:
            CanalGroupError: the shard's own, or ServerUnavailable: it is unknown whether the call was heard.
        """

    async def line(self) -> ShardLine:
        """Open a line to it.

        Raises:
            ServerUnavailable: nobody answers.
        """

    def close(self, epoch: int) -> None:
        """Let it leave its source, see `Shard.close`; nobody waits, and it may not be heard."""


class ShardDirectory(Protocol):
    """Finds the shards of a destination by their names."""

    def find(self, shard: str) -> ShardChannel:
        """Return the way to a shard.

        Raises:
            ShardUnavailable: it has no actor: it was removed, or is not made yet.
        """
