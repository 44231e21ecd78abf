"""An operator: adds, skips, holds and removes shards, and repeats a command until it is answered."""

from __future__ import annotations

from typing import Any

from canal_group.merge.calls.operators import AddShard, GivePolicy, RemoveShard, SkipEvent
from canal_group.merge.errors import CanalGroupError, ServerUnavailable, UsageError
from canal_group.merge.values.member import Policy, Role
from simulation.loop import MS, Loop
from simulation.network import Network
from simulation.process import Process
from simulation.server import Server, definition

ANSWER_US = 2_500 * MS
#: adding waits for the driver
ADD_US = 9_000 * MS
AGAIN_US = 700 * MS


class Operator(Process):
    """The process that gives commands; they end with it.

    Args:
        loop: its time.
        network: between it and the servers.
        servers: asked one after the other until one is active.
    """

    def __init__(self, loop: Loop, network: Network, servers: list[Server]) -> None:
        super().__init__(loop, "operator")
        self._network = network
        self._servers = servers

    async def add(self, shard: str) -> None:
        """Request a join until it is done: a server that takes over does not know of the request."""
        while True:
            state = await self._insist("give", AddShard(definition(shard)), wait_us=ADD_US)
            if state is None or state.get("role") in (Role.MEMBER, Role.LEAVING, Role.LEFT):
                return
            await self.sleep(AGAIN_US)

    async def give(self, shard: str, policy: Policy) -> None:
        """Set a shard's policy, if that is allowed."""
        await self._insist("give", GivePolicy(shard, policy))

    async def skip(self, shard: str) -> None:
        """Skip a shard repeatedly: a server that takes over may not know of it; stop if refused."""
        while await self._insist("give", GivePolicy(shard, Policy.SKIP)) is not None:
            await self.sleep(AGAIN_US)

    async def leave_out(self, shard: str) -> None:
        """Look at a shard again and again, and leave out what it stops at; every command is given twice."""
        while True:
            at = await self._insist("stopped_at", shard)
            for _ in range(2 if at else 0):
                await self._insist("give", SkipEvent(shard, at, by="operator"))
            await self.sleep(AGAIN_US)

    async def remove(self, shard: str, *, now: bool) -> None:
        """Request a removal until it is done: a server that takes over does not know of the request."""
        while True:
            state = await self._insist("give", RemoveShard(shard, now))
            if state is None or state["role"] == Role.LEFT:
                return
            await self.sleep(AGAIN_US)

    async def _insist(self, method: str, *arguments: Any, wait_us: int = ANSWER_US) -> Any:
        """Ask one server after the other; return its answer, or None if it is refused."""
        while True:
            server = self.loop.chance.choice(self._servers)
            away = ServerUnavailable(f"{server.name} did not answer.")
            answer = self._network.ask(self, server, method, *arguments)
            try:
                state = await self.within(answer, wait_us, away)
            except UsageError as error:
                self.note("is refused {}: {}", arguments, error.message)
                return None
            except CanalGroupError:
                await self.sleep(AGAIN_US)
            else:
                return state
