"""Shards in Ray actors: found by name, opened and closed by Ray calls, polled over RPC connections."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import ray
from ray.actor import ActorHandle

from canal_group.actors.shard.ports import ShardRpc
from canal_group.actors.shard.report import ShardReport
from canal_group.actors.transport.ray_errors import translated
from canal_group.actors.transport.rpc_client import RpcClient
from canal_group.actors.transport.rpc_wire import RpcAddress
from canal_group.merge.errors import ShardUnavailable
from canal_group.merge.values.lane import LIVE, lane_of
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition
from canal_group.merge.values.skips.skipped_event import SkippedEvent

#: the threads of a shard's actor that open and close replays
REPLAYS = "replays"
#: how long an opening waits for an actor that starts, or starts again, seconds
START_WAIT_S = 5.0


class RayShards:
    """Finds shard actors; implements `canal_group.actors.shard.ports.ShardDirectory`.

    Args:
        prefix: what the actors' names begin with; the shard's name follows.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def find(self, shard: str) -> RayShard:
        """Return the channel to a shard's actor.

        Raises:
            ShardUnavailable: it has none.
        """
        try:
            return RayShard(shard, ray.get_actor(self._prefix + shard))
        except ValueError as error:
            raise ShardUnavailable(f"Shard {shard} has no actor: it was removed.") from error


class RayShard:
    """One shard actor; implements `canal_group.actors.shard.ports.ShardChannel`.

    Args:
        name: of the shard.
        handle: of its actor.
    """

    def __init__(self, name: str, handle: ActorHandle) -> None:
        self._whom = f"Shard {name}"
        self._handle = handle
        #: the question for its RPC address; one that is not answered is not asked again
        self._asked: asyncio.Task[RpcAddress] | None = None

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
        """Let the shard read from `position`; return where its stream begins."""
        with translated(self._whom):
            # Before its process runs, an opening would fail, and be tried again after a pause.
            await self._address()
            # An opening may wait for long, and the live stream does not wait for replays.
            live = lane_of(generation) == LIVE
            call = self._handle.open if live else self._handle.open.options(concurrency_group=REPLAYS)
            opened: Position = await call.remote(epoch, generation, position, history, skips, read_to, needed)
        return opened

    async def rpc(self) -> ShardRpc:
        """Ask the shard for its RPC address, and connect."""
        with translated(self._whom):
            address = await self._address()
        return RayShardRpc(await RpcClient.open(address, self._whom))

    async def _address(self) -> RpcAddress:
        """Return the shard's RPC address, as soon as its process runs.

        Raises:
            TimeoutError: it does not run within `START_WAIT_S`.
        """
        if self._asked is None or self._asked.done():
            self._asked = asyncio.ensure_future(self._ask_address())
            # Whoever waits may have left.
            self._asked.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
        # A follower of another lane may ask again before this one goes on.
        asked = self._asked
        done, _ = await asyncio.wait([asked], timeout=START_WAIT_S)
        if not done:
            raise TimeoutError
        return asked.result()

    async def _ask_address(self) -> RpcAddress:
        # While the process starts again, Ray asks again.
        ask = self._handle.rpc_address.options(concurrency_group="status", max_task_retries=-1)
        address: RpcAddress = await ask.remote()
        return address

    def close(self, epoch: int) -> None:
        """Let the shard disconnect from its source."""
        self._handle.close.remote(epoch)

    def close_lane(self, epoch: int, lane: int) -> None:
        """Let the shard forget the ring of a replay."""
        self._handle.close_lane.options(concurrency_group=REPLAYS).remote(epoch, lane)


class RayShardRpc:
    """An RPC connection to a shard actor; implements `canal_group.actors.shard.ports.ShardRpc`.

    Args:
        rpc: the open connection.
    """

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc

    def poll(
        self,
        epoch: int,
        generation: int,
        items_max: int,
        wait_s: float,
        done: int,
        skips: Sequence[SkippedEvent] | None = None,
        needed: Sequence[KeptPosition] | None = None,
    ) -> asyncio.Future[ShardReport]:
        """Return a future of the shard's report."""
        return self._rpc.ask("poll", epoch, generation, items_max, wait_s, done, skips, needed)

    def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Let the ring drop everything up to and including `sequence`."""
        call: asyncio.Future[Any] = self._rpc.ask("free", epoch, generation, sequence)
        # If the connection breaks, the poll reports it.
        call.add_done_callback(lambda answer: answer.cancelled() or answer.exception())

    def close(self) -> None:
        """Close the connection."""
        self._rpc.close()
