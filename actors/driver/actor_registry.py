"""The actor registry: make and end the actors of a group's shards.

A Ray actor belongs to the process that made it, and ends with it. Shards belong to the driver, so that they
survive the group actor. A request for a new shard goes to the group. The driver polls the group, makes the
actors of new shards, and ends the actor of a shard that left once no cursor has it. A restarted group actor
knows only the shards of its
launch: the driver registers those that joined later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.actor import ActorHandle

from canal_group.actors.transport.ray_errors import translated
from canal_group.conf.changes import shard_changes
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import ShardSettings
from canal_group.merge.calls.operators import RemoveShard
from canal_group.merge.errors import CanalGroupError, ServerUnavailable, UsageError

_log = logging.getLogger(__name__)

#: how often the group is asked, seconds
TEND_EVERY_S = 0.3
#: how long one question may take, seconds
ASK_TIMEOUT_S = 10.0


class ActorRegistry:
    """The shard actors of an instance, on a thread of the driver.

    Args:
        group: the group actor.
        actors: of the shards that were launched, by name.
        make: makes the actor of a shard.
    """

    def __init__(
        self,
        group: ActorHandle,
        actors: Mapping[str, ActorHandle],
        make: Callable[[ShardSettings], ActorHandle],
    ) -> None:
        self._group = group
        self._actors = dict(actors)
        self._make = make
        #: shards that joined since the launch
        self._joined: dict[str, ShardSettings] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="actor_registry", daemon=True)
        self._thread.start()

    @property
    def actors(self) -> list[ActorHandle]:
        """The shard actors, but for those of shards that left."""
        return list(self._actors.values())

    def adopt(self, launched: InstanceSettings, changed: InstanceSettings) -> list[str]:
        """Let shards join and leave as `changed` says; return a sentence for each. See `Instance.adopt`."""
        with self._lock:
            running = launched.model_copy(update={"shards": (*launched.shards, *self._joined.values())})
            changes = shard_changes(running, changed, without=self._left())
            messages = []
            for shard in changes.added:
                self._register(shard)
                messages.append(f"shard {shard.name} joins")
            for name in changes.removed:
                self._ask("answer", RemoveShard(name))
                messages.append(f"shard {name} leaves when what it has committed is acknowledged")
        return messages

    def close(self) -> None:
        """End the thread; the actors stay."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(TEND_EVERY_S):
            try:
                with self._lock:
                    self._tend()
            except CanalGroupError as error:
                _log.debug("actor registry: %s", error)
            except Exception:  # noqa: BLE001  the thread goes on: the next look may find the group well again
                _log.exception("actor registry failed")

    def _tend(self) -> None:
        requested, names, gone = self._ask("actor_registry")
        for name in gone:
            self._joined.pop(name, None)
            actor = self._actors.pop(name, None)
            if actor is not None:
                ray.kill(actor, no_restart=True)
        for shard in requested:
            self._register(shard)
        for name, shard in list(self._joined.items()):
            if name not in names:
                self._register(shard)

    def _register(self, shard: ShardSettings) -> None:
        if shard.name not in self._actors:
            self._actors[shard.name] = self._make(shard)
        self._joined[shard.name] = shard
        try:
            self._ask("register", shard)
        except UsageError:
            del self._joined[shard.name]
            ray.kill(self._actors.pop(shard.name), no_restart=True)
            raise

    def _left(self) -> set[str]:
        """Return the shards that left, or are about to.

        Raises:
            ServerUnavailable: the group stands by, so that it does not know.
        """
        group = self._ask("status", concurrency_group="status")
        if not group["active"]:
            raise ServerUnavailable(
                "This server stands by: shards can join and leave only while it is active."
            )
        leaving = {shard["shard"] for shard in group["shards"] if shard["role"] == "leaving"}
        return leaving.union(group["retired"])

    def _ask(
        self, method: str, *arguments: Any, concurrency_group: str | None = None, **keywords: Any
    ) -> Any:
        call = getattr(self._group, method)
        if concurrency_group is not None:
            call = call.options(concurrency_group=concurrency_group)
        with translated("The group"):
            return ray.get(call.remote(*arguments, **keywords), timeout=ASK_TIMEOUT_S)
