"""The shards of a group while it is active, by shard_index: the actor of each, and who follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ray.actor import ActorHandle

from actors.follower import Follower
from merge import events as ev
from merge.position import Position


class GroupShards:
    """Shard actors under one epoch of their group.

    Args:
        actors: name and actor of each shard, by shard_index.
        epoch: of the group.
        tell: takes what the shards report, as events.
        start: runs a follower until it ends or is cancelled.
    """

    def __init__(
        self,
        actors: Sequence[tuple[str, ActorHandle]],
        epoch: int,
        tell: Callable[[ev.Event], None],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._actors = list(actors)
        self._epoch = epoch
        self._tell = tell
        self._start = start
        #: by shard_index, under the current generation
        self._followers: dict[int, Follower] = {}
        self._following: dict[int, asyncio.Task[None]] = {}

    def append(self, name: str, actor: ActorHandle) -> None:
        """Give one more shard the next index."""
        self._actors.append((name, actor))

    def take_back(self) -> None:
        """Undo the last `append`: the group refused the shard."""
        self._actors.pop()

    def follow(self, shard: int, generation: int, position: Position | None) -> None:
        """Open a shard at `position` and pass on what it reports; who followed it before ends."""
        self._unfollow(shard)
        name, actor = self._actors[shard]
        follower = Follower(shard, name, actor, (self._epoch, generation), self._tell)
        self._followers[shard] = follower
        self._following[shard] = self._start(follower.follow(position))

    def free(self, shard: int, sequence: int) -> None:
        """Let a shard's ring forget everything up to and with `sequence`, soon."""
        self._followers[shard].free(sequence)

    def close(self, shard: int) -> str:
        """Let a shard that left leave its source; return its name.

        Who made its actor ends it (see `actors.roster`).
        """
        self._unfollow(shard)
        name, actor = self._actors[shard]
        actor.close.remote(self._epoch)
        return name

    def close_all(self) -> None:
        """Let every shard leave its source. Their followers have ended."""
        for _, actor in self._actors:
            actor.close.remote(self._epoch)

    def _unfollow(self, shard: int) -> None:
        before = self._following.pop(shard, None)
        if before is not None:
            before.cancel()
            self._followers[shard].flush()
