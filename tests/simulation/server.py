"""A server's process: the real candidate with the real calls of its group, in a simulated world.

The simulation adds a gateway's access to the rows, and reports every answer to the invariants.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from support.defaults import group_settings

from canal_group.actors.coordination.zookeeper import ZooKeeperCoordinator
from canal_group.actors.group.calls import GroupCalls
from canal_group.actors.group.candidate import Candidate
from canal_group.actors.group.registration import ShardRegistration
from canal_group.actors.group.stored.cursors import CURSORS
from canal_group.actors.group.wiring import ServerIdentity
from canal_group.actors.meta.memory import MemoryStore
from canal_group.actors.meta.periodic import PeriodicStore
from canal_group.actors.meta.zookeeper import ZooKeeperStore
from canal_group.actors.ports import Coordinator, EpochStore, Host
from canal_group.actors.shard.report import ShardReport
from canal_group.conf.load import build_instance
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import ShardSettings
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Ack, AckAndGet, Confirm, Get, Plan, SubscribeAt
from canal_group.merge.calls.operators import GivePolicy, RemoveShard
from canal_group.merge.errors import CanalGroupError, ShardUnavailable
from canal_group.merge.group import Group, GroupSettings
from canal_group.merge.values.member import Role
from canal_group.merge.values.position import Position
from simulation.channel import Channel
from simulation.consumption import LOOK
from simulation.invariants import Invariants
from simulation.loop import MS, Loop
from simulation.network import Line, Network
from simulation.process import Process
from simulation.shard import Shard
from simulation.source import ReadPosition
from simulation.stores import StoreBeside, WatchedStore
from simulation.zookeeper import DESTINATION, SESSION_US, ZooKeeper
from simulation.zookeeper_client import Client

#: how long a group actor, and a whole server, takes to restart
RESTART_US = 800 * MS


@dataclass
class Surroundings:
    """The environment of a server."""

    loop: Loop
    network: Network
    zookeeper: ZooKeeper
    #: the channel to `medium`
    cursors: Channel
    #: where cursors and what is left out are kept; None: in ZooKeeper
    medium: MemoryStore | None
    #: interval of their flushes, seconds; None: at once
    flush_s: float | None
    invariants: Invariants
    settings: GroupSettings
    #: names of the shards that have an actor
    made: list[str] = field(default_factory=list)


@lru_cache
def instance(shards: tuple[str, ...]) -> InstanceSettings:
    """Return settings that name these shards."""
    definitions = [definition(name) for name in shards]
    files = {"shard_add": {"files": "/"}}
    return build_instance({"preset": "memory", "destination": DESTINATION, "shards": definitions, **files})


def definition(shard: str) -> dict[str, Any]:
    """Return an instance file's entry for a shard; only its name is used."""
    return {"name": shard, "files": f"/{shard}"}


class Server(Process):
    """One server's group actor.

    Args:
        around: its environment.
        name: its name.
        shards: its shard actors by name.
        offset_us: its monotonic clock minus the world's.
    """

    def __init__(self, around: Surroundings, name: str, shards: dict[str, Shard], offset_us: int) -> None:
        super().__init__(around.loop, name, offset_us)
        self.around = around
        self.shards = shards
        #: grows with each start of the whole server; equal for the incarnations of its group actor in between
        self.launches = 1

    def begin(self) -> None:
        """Stand by, serve, stand by again."""
        self._registration = ShardRegistration(instance(self.around.settings.shards), _Directory(self))
        identity = ServerIdentity(f"{self.name}:1", f"{self.name}/{self.launches}", "zookeeper:1")
        self.candidate = Candidate(self._registration, identity, lambda: True, self.host, _Parts(self))
        self.calls = _Calls(self)

    @property
    def machine(self) -> Group | None:
        """The group's machine while it serves."""
        group = self.candidate.group if self.alive else None
        return group.machine if group is not None else None

    def relaunch(self) -> None:
        """Kill and restart the whole server, not only its group actor."""
        self.launches += 1
        self.restart(2 * RESTART_US)

    def end(self) -> None:
        """End the group actor; it is restarted."""
        self.restart(RESTART_US)

    async def close(self) -> None:
        """Hand over in good order."""
        await self.candidate.close()
        self.relaunch()

    # ---- calls of consumers and operators --------------------------------------------------------------

    async def give(self, call: Call[Any]) -> Any:
        """Return the group's answer to a call, and tell the invariants of it."""
        if isinstance(call, RemoveShard):
            return await self._remove_shard(call)
        answer = await self.calls.answer(call)
        match call:
            case SubscribeAt(client_id=client_id) | Get(client_id=client_id) if client_id == LOOK:
                self.around.invariants.looks()
            case SubscribeAt(client_id=client_id):
                self.around.invariants.subscribed(client_id, answer[1])
            case Get(client_id=client_id) if answer is not None:
                self.around.invariants.delivered(client_id, answer)
            case AckAndGet(client_id=client_id) if answer[1] is not None:
                self.around.invariants.delivered(client_id, answer[1])
            case GivePolicy(policy=policy) if self.machine is not None:
                self.around.invariants.policy_given(self.machine.epoch, answer["index"], policy)
        return answer

    async def rows(self, client_id: str, epoch: int, batch_id: int) -> list[ReadPosition]:
        """Return which rows of the sources an outstanding batch holds, in merged order."""
        batch = await self.calls.answer(Plan(client_id, epoch, batch_id))
        found: dict[int, list[ReadPosition]] = {}
        begins: dict[int, int] = {}
        group = self.candidate.serving()
        for shard in np.unique(batch.headers["shard"]).tolist():
            mine = batch.headers["sequence"][batch.headers["shard"] == shard]
            begins[shard] = int(mine[0])
            name = group.machine._stream.shards[shard]
            found[shard] = await self.around.network.call(
                self,
                self.shards[name],
                "fetch",
                batch.server_epoch,
                batch.generation,
                int(mine[0]),
                int(mine[-1]) + 1,
            )
        await self.calls.answer(Confirm(client_id, epoch, batch_id))
        shards, sequences = batch.headers["shard"].tolist(), batch.headers["sequence"].tolist()
        return [
            found[shard][sequence - begins[shard]] for shard, sequence in zip(shards, sequences, strict=True)
        ]

    async def stopped_at(self, name: str) -> str:
        """Return the event at which a shard has stopped, as its error says; empty: it has not."""
        machine = self.candidate.serving().machine
        return machine.stop_of(name).event

    async def _remove_shard(self, call: RemoveShard) -> dict[str, Any]:
        before = self._role(call.shard)
        removal = self.spawn(self.calls.answer(call))
        # After this the machine has received the request; the answer may take long, or never come.
        await asyncio.sleep(0)
        machine = self.machine
        # A server that took over may not know the shard yet, and drops it from the cursors.
        removed = machine is not None and call.shard in machine._stream.membership.retired
        if machine is not None and (removed or self._role(call.shard) is Role.LEAVING):
            # A shard that has not joined yet also leaves at once.
            at_once = call.now or before is Role.JOINING
            self.around.invariants.removed(machine.epoch, int(call.shard[1:]), now=at_once)
        state: dict[str, Any] = await removal
        return state

    def _role(self, name: str) -> Role | None:
        machine = self.machine
        members = machine._stream.membership.members if machine is not None else []
        return next((member.role for member in members if member.name == name), None)

    async def actor_registry(self) -> tuple[list[str], list[str], bool]:
        """Return the shards that wait for an actor, those that are known, and whether it is active."""
        wanted = [shard.name for shard in self._registration.pending]
        return wanted, self._registration.names, self.candidate.group is not None

    async def register(self, name: str) -> None:
        """Note that a shard has an actor."""
        await self._registration.register(shard_settings(name), self.candidate.group)


@lru_cache
def shard_settings(name: str) -> ShardSettings:
    """Return the settings of a shard."""
    return instance((name,)).shards[0]


class _Calls(GroupCalls):
    """The real calls; tells the invariants of each acknowledgement when it is answered."""

    def __init__(self, server: Server) -> None:
        super().__init__(server._registration, server.candidate, server.host)
        self._invariants = server.around.invariants

    async def answer(self, call: Call[Any]) -> Any:
        """Answer a call."""
        answer = await super().answer(call)
        if isinstance(call, Ack):
            self._invariants.accepted(call.client_id, call.batch_id)
        return answer


class _Parts:
    """The parts of a server; implements `canal_group.actors.group.candidate.Parts`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def coordinator(self, settings: InstanceSettings, identity: ServerIdentity, host: Host) -> Coordinator:
        """Return the real coordinator, with a client of the simulated ensemble."""
        zookeeper, server = self._server.around.zookeeper, self._server
        return ZooKeeperCoordinator(
            identity.zookeeper_hosts,
            settings.destination,
            identity.address,
            identity.owner,
            session_timeout_s=SESSION_US / 1e6,
            host=host,
            make_client=lambda **_: Client(zookeeper, server),
        )

    def store(
        self,
        settings: InstanceSettings,  # noqa: ARG002  the port's signature
        elected_by: Coordinator,
        host: Host,
    ) -> EpochStore:
        """Return the real ZooKeeper store, or a client of the separate store."""
        around = self._server.around
        store: EpochStore
        if around.medium is not None:
            store = StoreBeside(around.medium, around.cursors, self._server, around.invariants)
        else:
            assert isinstance(elected_by, ZooKeeperCoordinator)
            store = ZooKeeperStore(elected_by.connection, elected_by.connection.tree)
        if around.flush_s is not None:
            store = PeriodicStore(store, CURSORS, around.flush_s, host)
        return WatchedStore(store, around.invariants)

    def group_settings(self, settings: InstanceSettings) -> GroupSettings:
        """Return the world's settings with the shards that are known."""
        known = tuple(shard.name for shard in settings.shards)
        around = self._server.around.settings
        return group_settings(
            around.destination,
            known,
            limits=around.limits,
            lease_us=around.lease_us,
            dead_shard=around.dead_shard,
            drop_after_us=around.drop_after_us,
            unacknowledged_us=around.unacknowledged_us,
            replays_max=around.replays_max,
            replay_turn_us=around.replay_turn_us,
        )


class _Directory:
    """Finds shards; implements `canal_group.actors.shard.ports.ShardDirectory`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def find(self, shard: str) -> _Channel:
        """Return the channel to a shard."""
        if shard not in self._server.around.made:
            raise ShardUnavailable(f"Shard {shard} has no actor.")
        return _Channel(self._server, self._server.shards[shard])


class _Channel:
    """A server's channel to a shard; implements `canal_group.actors.shard.ports.ShardChannel`."""

    def __init__(self, server: Server, shard: Shard) -> None:
        self._call = partial(server.around.network.call, server, shard)

    async def open(
        self,
        epoch: int,
        generation: int,
        position: Position | None,
        history: str | None,
        *more: Any,
    ) -> Position:
        """Let it read on from `position`."""
        opened: Position = await self._call("open", epoch, generation, position, history, *more)
        return opened

    async def rpc(self) -> _Line:
        """Open an RPC connection to it."""
        return _Line(self._call)

    def close(self, epoch: int) -> None:
        """Make it disconnect from its source."""
        _unheard(self._call("close", epoch))

    def close_lane(self, epoch: int, lane: int) -> None:
        """Make it forget the ring of a replay."""
        _unheard(self._call("close_lane", epoch, lane))


class _Line:
    """An open RPC connection; implements `canal_group.actors.shard.ports.ShardRpc`."""

    def __init__(self, call: partial[asyncio.Future[Any]]) -> None:
        self._call = partial(call, line=Line())

    def poll(
        self, epoch: int, generation: int, items_max: int, wait_s: float, done: int, *more: Any
    ) -> asyncio.Future[ShardReport]:
        """Return the shard's report."""
        return self._call("poll", epoch, generation, items_max, wait_s, done, *more)

    def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Free the ring up to and including `sequence`."""
        _unheard(self._call("free", epoch, generation, sequence))

    def close(self) -> None:
        """Do nothing: outstanding answers are dropped."""


def _unheard(answer: asyncio.Future[Any]) -> None:
    """Drop an answer."""

    def look(answer: asyncio.Future[Any]) -> None:
        error = None if answer.cancelled() else answer.exception()
        assert error is None or isinstance(error, CanalGroupError), error

    answer.add_done_callback(look)
