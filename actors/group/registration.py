"""Registration: the shards that a group knows, and how new ones are added.

A shard's actor belongs to the driver (see `canal_group.actors.driver.actor_registry`), and has a name. A call
that adds a shard waits here until the driver has made its actor and registers it. A group is launched with
names, not
handles: Ray keeps a handle that is a constructor's argument in its object store, where it may be lost before
    a restart.

A group process that was restarted knows only the shards of its launch, until the driver registers those that
joined later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from canal_group.actors.group.active_group import ActiveGroup
from canal_group.actors.shard.ports import ShardChannel, ShardDirectory
from canal_group.conf.changes import added_shard, is_same_shard
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import ShardSettings
from canal_group.merge.errors import ServerUnavailable, ShardUnavailable, UsageError
from canal_group.merge.values.member import Role
from canal_group.merge.values.position import Position

_log = logging.getLogger(__name__)

#: how long the driver may take to make a shard's actor, seconds
REGISTRATION_WAIT_S = 8.0


class ShardRegistration:
    """The shards of one destination that are registered in this process.

    Args:
        settings: the instance's settings at launch.
        directory: finds the shards that have an actor.
    """

    def __init__(self, settings: InstanceSettings, directory: ShardDirectory) -> None:
        #: the instance's settings, with the known shards
        self.settings = settings
        self._directory = directory
        #: shards that wait for an actor, their start positions, and the futures that callers wait for
        self._pending: dict[str, tuple[ShardSettings, Position | None, asyncio.Future[Any]]] = {}

    @property
    def pending(self) -> list[ShardSettings]:
        """The shards that wait for an actor."""
        return [shard for shard, _, _ in self._pending.values()]

    @property
    def names(self) -> list[str]:
        """The names of the registered shards."""
        return [shard.name for shard in self.settings.shards]

    def unregistered(self, names: Iterable[str]) -> list[str]:
        """Return those of `names` that have an actor and are not registered."""
        return [name for name in names if name not in self.names and self._has_actor(name)]

    def keep_those_with_actors(self) -> list[tuple[str, ShardChannel]]:
        """Drop shards without an actor, which were removed; return the others with their channels."""
        channels = []
        for shard in self.settings.shards:
            try:
                channels.append((shard, self._directory.find(shard.name)))
            except ShardUnavailable as error:
                _log.warning(
                    "continues without a shard: %s", error, extra={"destination": self.settings.destination}
                )
        self.settings = self.settings.model_copy(update={"shards": tuple(shard for shard, _ in channels)})
        return [(shard.name, channel) for shard, channel in channels]

    async def want(
        self, definition: dict[str, Any], start: Position | None, group: ActiveGroup
    ) -> dict[str, Any]:
        """Wait until a shard has an actor and has joined; return its state.

        Raises:
            ConfigError: the definition is invalid, or conflicts with other shards.
            UsageError: the name belongs to an existing shard, or to one that left.
            ServerUnavailable: the process that launched us made no actor for it in time.
        """
        added = added_shard(self.settings, definition)
        if any(is_same_shard(added, shard) for shard in self.settings.shards):
            state = group.state_of_shard(added.name)
            # The settings keep a shard that left, until its actor has ended or the server restarts.
            if state.get("role") != Role.LEFT:
                return state
        group.machine.check_name(added.name)
        if added.name not in self._pending:
            self._pending[added.name] = added, start, asyncio.get_running_loop().create_future()
        waiting = self._pending[added.name][2]
        done, _ = await asyncio.wait([waiting], timeout=REGISTRATION_WAIT_S)
        if not done:
            raise ServerUnavailable(
                f"The process that launched {self.settings.destination} has made no actor for {added.name}.",
                hint="Check that `canal-group serve` is running. The shard joins once it answers.",
            )
        outcome: dict[str, Any] | UsageError = await waiting
        if isinstance(outcome, UsageError):
            raise outcome
        return outcome

    async def register(self, shard: ShardSettings, group: ActiveGroup | None) -> None:
        """Register a shard that has an actor; repeating it is harmless.

        Args:
            shard: the shard.
            group: the group that it joins; None if we stand by: the next group then has it.

        Raises:
            UsageError: the group refuses it; nothing was changed.
        """
        _, start, waiting = self._pending.pop(shard.name, (shard, None, None))
        error = await self._enter(shard, start, group)
        if waiting is not None and not waiting.done():
            joined = group.state_of_shard(shard.name) if group is not None else {"shard": shard.name}
            waiting.set_result(error or joined)
        if error is not None:
            raise error

    async def _enter(
        self, shard: ShardSettings, start: Position | None, group: ActiveGroup | None
    ) -> UsageError | None:
        """Add a shard, unless it is known; return the error if it is refused."""
        if shard.name in self.names:
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
