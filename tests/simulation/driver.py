"""The driver: creates the actors of joining shards and tells the servers, as the real actor registry does."""

from __future__ import annotations

from canal_group.merge.errors import CanalGroupError, UsageError
from simulation.loop import MS, Loop
from simulation.network import Network
from simulation.process import Process
from simulation.server import Server

TEND_US = 300 * MS
ANSWER_US = 2_500 * MS


class Driver(Process):
    """The process that launched one server; it is never killed.

    Args:
        loop: its time.
        network: between it and the server.
        server: the server that it launched.
        made: names of the shards that have an actor; in all servers' instance files, sooner or later.
    """

    def __init__(self, loop: Loop, network: Network, server: Server, made: list[str]) -> None:
        super().__init__(loop, f"driver of {server.name}")
        self._network = network
        self._server = server
        self._made = made
        #: shards that it reported to its server since the launch
        self._joined: list[str] = []

    def begin(self) -> None:
        """Serve the server's requests for actors, for ever."""
        self.spawn(self._live())

    async def _live(self) -> None:
        while True:
            await self.sleep(TEND_US)
            try:
                await self._tend()
            except CanalGroupError:
                continue

    async def _tend(self) -> None:
        answer = await self.within(self._network.call(self, self._server, "actor_registry"), ANSWER_US)
        if answer is None:
            return
        wanted, known, active = answer
        # Shards that were added to an instance file are reported to the active server only.
        told = self._made if active else self._joined
        for name in dict.fromkeys([*wanted, *(name for name in told if name not in known)]):
            if name not in self._made:
                self.note("makes an actor for {}", name)
                self._made.append(name)
            try:
                await self.within(self._network.call(self, self._server, "register", name), ANSWER_US)
            except UsageError as error:
                self.note("is refused {}: {}", name, error.message)
            else:
                self._joined.append(name)
