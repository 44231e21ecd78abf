"""The group actor: the calls of consumers, operators and the driver to one destination's group.

Calls of consumers and operators are in `canal_group.actors.group.calls` and come over an RPC connection; the
driver's come by Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from canal_group.actors.group import wiring
from canal_group.actors.group.calls import GroupCalls
from canal_group.actors.group.candidate import TICK_S, Candidate
from canal_group.actors.group.registration import ShardRegistration
from canal_group.actors.ports import ServerSeen, Silence
from canal_group.actors.process.host import OS_HOST
from canal_group.actors.process.imports import freeze_imports
from canal_group.actors.process.log import ActorLog
from canal_group.actors.shard.channel import RayShards
from canal_group.actors.transport.rpc_server import RpcServer
from canal_group.actors.transport.rpc_wire import RpcAddress
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import ShardSettings
from canal_group.merge.errors import CanalGroupError

#: how old a list may be, seconds
AGE_MAX_S = 2.0
#: how long a status waits for a newer one, seconds
WAIT_S = 0.5


class ServerList:
    """The servers as the coordinator last told; its methods run on one loop.

    Args:
        address: "host:port" of this server.
        ask: asks the coordinator; blocks.
        silence: returns how long the coordinator has not answered, if it has not.
    """

    def __init__(
        self, address: str, ask: Callable[[], Sequence[ServerSeen]], silence: Callable[[], Silence | None]
    ) -> None:
        self._address = address
        self._ask, self._silence = ask, silence
        self._seen: list[dict[str, Any]] = []
        self._asked_s: float | None = None
        self._asking: asyncio.Task[None] | None = None

    async def describe(self) -> list[dict[str, Any]]:
        """Return the servers as JSON objects, as the coordinator told last; none if that is long ago."""
        now_s = asyncio.get_running_loop().time()
        if self._asking is None and (self._asked_s is None or now_s - self._asked_s > AGE_MAX_S):
            self._asking = asyncio.create_task(self._refresh())
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=WAIT_S)
        silence = self._silence()
        return [] if silence is not None and silence.is_long else self._seen

    async def _refresh(self) -> None:
        try:
            seen = await asyncio.to_thread(self._ask)
        except CanalGroupError:
            pass  # The state of the group says that the coordinator is not there.
        else:
            self._seen = [
                {"server": one.address or self._address, "active": one.active, "since_us": one.since_us}
                for one in seen
            ]
        finally:
            self._asked_s = asyncio.get_running_loop().time()
            self._asking = None


#: how long `status` waits for the loop, seconds
STATUS_WAIT_S = 0.5


class GroupActor(GroupCalls):
    """One destination's group; a plain class that `canal_group.actors.driver.launch` turns into an actor.

    Args:
        settings: the instance's settings.
        identity: the identity of this server.
        shard_actors: prefix of the shard actors' names, before the shard's name.
        log: how it logs.
        tick_s: interval of its candidate's checks, seconds.
    """

    async def __init__(  # type: ignore[misc]  # Ray awaits it on the actor's loop
        self,
        settings: InstanceSettings,
        identity: wiring.ServerIdentity,
        shard_actors: str,
        log: ActorLog,
        tick_s: float = TICK_S,
    ) -> None:
        freeze_imports()
        log.set_up()
        self._log = log
        #: why the instance file is refused, while older settings of it are served; empty: it is not
        self._file_error = ""
        self._address = identity.address
        self._loop = asyncio.get_running_loop()
        self._rpc_server = RpcServer({"answer": self.answer})
        # The gateway is on our node.
        self._rpc_address = await self._rpc_server.open()
        registration = ShardRegistration(settings, RayShards(shard_actors))
        candidate = Candidate(
            registration, identity, lambda: self._rpc_server.connections > 0, OS_HOST, tick_s=tick_s
        )
        self._servers = ServerList(identity.address, candidate.servers, candidate.silence)
        super().__init__(registration, candidate, OS_HOST)

    def __repr__(self) -> str:
        """Return where the actor's output comes from, see `ActorLog`."""
        return self._log.text

    # ---- the driver ------------------------------------------------------------------------------------

    async def actor_registry(self) -> tuple[list[ShardSettings], list[str], list[str]]:
        """Return the shards that wait for an actor, the known shards, and the shards that left (names)."""
        group = self._candidate.group
        gone = group.machine.gone if group is not None else []
        return self._registration.pending, self._registration.names, gone

    async def register(self, shard: ShardSettings) -> None:
        """Register a shard that has an actor; repeating it is harmless.

        Raises:
            UsageError: the group refuses it; nothing was changed.
        """
        await self._registration.register(shard, self._candidate.group)

    async def file_refused(self, error: str) -> None:
        """Keep for `status` why the instance file is refused; empty: it is right again."""
        self._file_error = error

    async def rpc_address(self) -> RpcAddress:
        """Return the address for the gateway's RPC connection."""
        return self._rpc_address

    async def status(self) -> dict[str, Any]:
        """Return the group's state as a JSON object.

        Runs on a loop of its own: while the group's loop is busy, it returns the state of the last tick.
        """
        fresh = asyncio.run_coroutine_threadsafe(self._candidate.publish(), self._loop)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STATUS_WAIT_S):
                await asyncio.wrap_future(fresh)
        servers = await self._servers.describe()
        return {
            "server": self._address,
            "pid": os.getpid(),
            "servers": servers,
            "file_error": self._file_error,
            **self._candidate.describe(),
        }

    async def close(self) -> None:
        """Resign in an orderly way, for good."""
        await self._candidate.close()
        self._rpc_server.close()
