"""Registration: which shards a group knows of, and how a new one gets among them.

A shard's actor belongs to the driver (see `actors.driver.actor_registry`), and has a name. Whoever wants one
more shard waits here until the driver has made its actor and says so. Names, and no handles, are what a group
is launched with: Ray keeps a handle that is a constructor's argument in its object store, where a restart may
not find it any more.

A group process that was started anew knows only the shards of its launch, until the driver tells of those
that joined since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from actors.group.active_group import ActiveGroup
from actors.shard.ports import ShardChannel, ShardDirectory
from conf.changes import added_shard, is_same_shard
from conf.settings import InstanceSettings
from conf.shard_settings import ShardSettings
from merge.errors import ServerUnavailable, ShardUnavailable, UsageError
from merge.values.position import Position

_log = logging.getLogger(__name__)

#: how long the driver may take to make a shard's actor, seconds
REGISTRATION_WAIT_S = 8.0


class ShardRegistration:
    """The shards of one destination, as far as this process was told of them.

    Args:
        settings: of the instance, as it was launched.
        directory: finds the shards that have an actor.
    """

    def __init__(self, settings: InstanceSettings, directory: ShardDirectory) -> None:
        #: of the instance, with the shards that are known
        self.settings = settings
        self._directory = directory
        #: shards that are to be added once they have an actor, where they begin, and who waits for it
        self._wanted: dict[str, tuple[ShardSettings, Position | None, asyncio.Future[Any]]] = {}

    @property
    def wanted(self) -> list[ShardSettings]:
        """The shards that wait for an actor."""
        return [shard for shard, _, _ in self._wanted.values()]

    @property
    def known(self) -> list[str]:
        """The names of the shards that were told of."""
        return [shard.name for shard in self.settings.shards]

    def untold(self, names: Iterable[str]) -> list[str]:
        """Return those of `names` that have an actor, and that nobody has told of."""
        return [name for name in names if name not in self.known and self._has_actor(name)]

    def keep_those_with_actors(self) -> list[tuple[str, ShardChannel]]:
        """Forget shards that have no actor, for they were removed; return the others, and the way to each."""
        found = []
        for shard in self.settings.shards:
            try:
                found.append((shard, self._directory.find(shard.name)))
            except ShardUnavailable as error:
                _log.warning("destination=%s continues without a shard: %s", self.settings.destination, error)
        self.settings = self.settings.model_copy(update={"shards": tuple(shard for shard, _ in found)})
        return [(shard.name, channel) for shard, channel in found]

    async def want(
        self, definition: dict[str, Any], start: Position | None, group: ActiveGroup
    ) -> dict[str, Any]:
        """Wait until a shard has an actor and has joined; return its state.

        Raises:
            ConfigError: the definition cannot hold beside the others.
            UsageError: the name belongs to a shard that is there, or that left.
            ServerUnavailable: the process that launched us made no actor for it in time.
        """
        wanted = added_shard(self.settings, definition)
        if any(is_same_shard(wanted, shard) for shard in self.settings.shards):
            return group.state_of_shard(wanted.name)
        group.machine.check_name(wanted.name)
        if wanted.name not in self._wanted:
            self._wanted[wanted.name] = wanted, start, asyncio.get_running_loop().create_future()
        waiting = self._wanted[wanted.name][2]
        done, _ = await asyncio.wait([waiting], timeout=REGISTRATION_WAIT_S)
        if not done:
            raise ServerUnavailable(
                f"The process that launched {self.settings.destination} has made no actor for {wanted.name}.",
                hint="Check that `canal-group serve` is running. The shard joins once it answers.",
            )
        outcome: dict[str, Any] | UsageError = await waiting
        if isinstance(outcome, UsageError):
            raise outcome
        return outcome

    async def register(self, shard: ShardSettings, group: ActiveGroup | None) -> None:
        """Take note that a shard has an actor; telling it again is harmless.

        Args:
            shard: that has one.
            group: that it joins; None: we stand by, and it is among the shards of the next one.

        Raises:
            UsageError: the group refuses it; nothing was changed.
        """
        _, start, waiting = self._wanted.pop(shard.name, (shard, None, None))
        error = await self._enter(shard, start, group)
        if waiting is not None and not waiting.done():
            joined = group.state_of_shard(shard.name) if group is not None else {"shard": shard.name}
            waiting.set_result(error or joined)
        if error is not None:
            raise error

    async def _enter(
        self, shard: ShardSettings, start: Position | None, group: ActiveGroup | None
    ) -> UsageError | None:
        """Let a shard join, unless it is known; return why it is refused."""
        if shard.name in self.known:
            return None
        before = self.settings
        with_it = before.model_copy(update={"shards": (*before.shards, shard)})
        if group is None:
            self.settings = with_it
            return None
        channel = self._directory.find(shard.name)
        self.settings = with_it
        try:
            await group.add_shard(shard.name, channel, start)
        except UsageError as error:
            self.settings = before
            return error
        return None

    def _has_actor(self, shard: str) -> bool:
        try:
            self._directory.find(shard)
        except ShardUnavailable:
            return False
        return True
