"""The shards of an active group, by shard_index: the channel and the follower of each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from canal_group.actors.group.follower import Follower, Losses
from canal_group.actors.group.stored.histories import StoredHistories
from canal_group.actors.group.stored.skips import StoredSkips
from canal_group.actors.ports import EpochStore, Host
from canal_group.actors.shard.ports import ShardChannel
from canal_group.merge import events as ev
from canal_group.merge.values.lane import LIVE, lane_of
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition

#: lane and shard_index
Key: TypeAlias = tuple[int, int]


class GroupShards:
    """Shards under one epoch of their group.

    Args:
        channels: the name of each shard and the channel to it, by shard_index.
        epoch: the group's epoch.
        tell: takes the shards' reports, as events.
        start: runs a follower until it ends or is cancelled.
        store: keeps their schema histories.
        skips: keeps what operators have left out.
        host: has the clock that events carry, and runs blocking work.
        pace_s: interval between two polls of a shard, see `Follower`.
    """

    def __init__(
        self,
        channels: Sequence[tuple[str, ShardChannel]],
        epoch: int,
        tell: Callable[[ev.Event], None],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        store: EpochStore,
        skips: StoredSkips,
        host: Host,
        *,
        pace_s: float,
    ) -> None:
        self._pace_s = pace_s
        self._channels = list(channels)
        self._epoch = epoch
        self._tell = tell
        self._start = start
        self._histories = StoredHistories(store, epoch, host)
        self._skips = skips
        self._host = host
        #: by lane and shard_index, under the lane's current generation
        self._followers: dict[Key, Follower] = {}
        self._following: dict[Key, asyncio.Task[None]] = {}
        #: the same, under all generations
        self._losses: defaultdict[Key, Losses] = defaultdict(Losses)
        #: from where on client ids read, by shard_index
        self._needed: dict[int, tuple[KeptPosition, ...]] = {}

    def append(self, name: str, channel: ShardChannel) -> None:
        """Give one more shard the next index."""
        self._channels.append((name, channel))

    def take_back(self) -> None:
        """Undo the last `append`: the group refused the shard."""
        self._channels.pop()

    def follow(
        self, shard: int, generation: int, position: Position | None, read_to: tuple[Position, ...]
    ) -> None:
        """Open a shard as `OpenShard` says and pass on its reports; its previous follower ends."""
        key = lane_of(generation), shard
        self._unfollow(key)
        name, channel = self._channels[shard]
        term = self._epoch, generation
        follower = Follower(
            shard,
            name,
            channel,
            term,
            self._tell,
            self._histories,
            self._skips,
            self._host,
            losses=self._losses[key],
            pace_s=self._pace_s,
        )
        follower.needed = self._needed.get(shard, ())
        self._followers[key] = follower
        self._following[key] = self._start(follower.follow(position, read_to))

    def answers(self) -> dict[str, dict[str, Any]]:
        """Return when each shard answered last for the live stream, and what it read then, by its name."""
        return {
            self._channels[shard][0]: {"answered_us": each.answered_us, "reading": each.reading}
            for (lane, shard), each in self._followers.items()
            if lane == LIVE and each.answered_us
        }

    def free(self, shard: int, generation: int, sequence: int) -> None:
        """Let a shard's ring drop everything up to and including `sequence`, soon."""
        self._followers[lane_of(generation), shard].free(sequence)

    def keep(self, shard: int, needed: tuple[KeptPosition, ...]) -> None:
        """Let the archive of a shard keep what client ids read, soon."""
        self._needed[shard] = needed
        for (_, index), follower in self._followers.items():
            if index == shard:
                follower.needed = needed

    def close_lane(self, lane: int) -> None:
        """Let every shard forget the ring of a replay."""
        for key in [key for key in self._following if key[0] == lane]:
            self._unfollow(key)
            del self._followers[key], self._losses[key]
            _, channel = self._channels[key[1]]
            channel.close_lane(self._epoch, lane)

    def close(self, shard: int) -> str:
        """Let a shard that left close its source; return its name.

        The driver, which made its actor, ends it (see `canal_group.actors.driver.actor_registry`).
        """
        self._unfollow((LIVE, shard))
        name, channel = self._channels[shard]
        channel.close(self._epoch)
        return name

    def close_all(self) -> None:
        """Let every shard close its source. Their followers have ended."""
        for _, channel in self._channels:
            channel.close(self._epoch)

    def _unfollow(self, key: Key) -> None:
        before = self._following.pop(key, None)
        if before is not None:
            before.cancel()
            self._followers[key].flush()
