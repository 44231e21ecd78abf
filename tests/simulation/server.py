"""A server: the group actor of one destination, active or standing by, around the real `merge.group.Group`.

Does what `actors/active_group.py` and `actors/follower.py` do, step by step, and what the gateway does to
read rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from actors.ports import Subscription
from actors.shard_report import ShardReport
from merge import events as ev
from merge import instructions as do
from merge.errors import CanalGroupError, CoordinatorUnavailable, FencedError, ServerUnavailable
from merge.group import Group, GroupSettings
from merge.ledger import Batch
from merge.member import Policy, Role
from merge.position import GroupPosition, Position
from simulation.coordinator import Coordinator
from simulation.cursors import Cursors
from simulation.invariants import Invariants
from simulation.loop import BEGIN_US, MS, Future, Loop
from simulation.network import Network
from simulation.process import Process, Task
from simulation.shard import Shard
from simulation.source import Place
from simulation.zookeeper import ZooKeeper

TICK_US = 400 * MS
POLL_WAIT_US = 1_000 * MS
REOPEN_US = 200 * MS
POLL_HEADERS_MAX = 65_536
#: how long a group actor, and a whole server, takes to come back
RESTART_US = 800 * MS


@dataclass
class Surroundings:
    """What a server has around it."""

    loop: Loop
    network: Network
    zookeeper: ZooKeeper
    cursors: Cursors
    invariants: Invariants
    #: names of the shards that joined since, in their order
    joined: list[str] = field(default_factory=list)


#: requests whose answers the invariants look at
_Watched: TypeAlias = ev.SubscribeRequested | ev.GetRequested | ev.AckRequested | ev.ShardPolicyGiven


class Lock:
    """Lets one in at a time, in the order of coming; an asyncio.Lock."""

    def __init__(self) -> None:
        self._tail: Future | None = None

    async def run(self, work: Callable[[], Future]) -> Any:
        """Start `work` when everybody before is done, and wait until it is."""
        before, mine = self._tail, Future()
        self._tail = mine
        try:
            if before is not None:
                await before
            return await work()
        finally:
            mine.set()


class Server(Process):
    """One server's group actor; see the module's rules.

    Args:
        around: what it has around it.
        name: its name.
        shards: its shard actors by shard_index.
        settings: of the group.
        clock_offset_us: its monotonic clock minus the world's.
    """

    def __init__(
        self,
        around: Surroundings,
        name: str,
        shards: list[Shard],
        settings: GroupSettings,
        clock_offset_us: int,
    ) -> None:
        super().__init__(around.loop, name)
        self.around = around
        self.shards = shards
        self.settings = settings
        #: grows with each start of the whole server: what the incarnations of its group actor have in common
        self.launches = 1
        self._offset_us = clock_offset_us

    def begin(self) -> None:
        """Stand by, serve, stand by again."""
        self.machine: Group | None = None
        self._coordinator = Coordinator(
            self, f"{self.name}/{self.launches}", self.around.zookeeper, self._offset_us
        )
        self._calls = itertools.count(1)
        self._answers: dict[int, Future] = {}
        #: those of the calls that are not answered
        self._watched: dict[int, _Watched] = {}
        self._locks: dict[str, Lock] = {}
        self._following: dict[int, Task] = {}
        self._chores: dict[Task, None] = {}
        self._main = self.spawn(self._live())
        self._main.ended.then(lambda: self._main.broke and self._end())

    @property
    def now_us(self) -> int:
        """Its monotonic clock."""
        return self.loop.now_us + self._offset_us

    @property
    def coordinator(self) -> Coordinator:
        """Its side of the election."""
        return self._coordinator

    def relaunch(self) -> None:
        """Lose the whole server, not its group actor only, and start it again."""
        self.launches += 1
        self.restart(2 * RESTART_US)

    async def close(self) -> None:
        """Give up activity in good order."""
        self._main.cancel()
        self._stand_down()
        try:
            await self._coordinator.close()
        except CanalGroupError as error:
            self.note("leaves running to expire: {}", error.message)
        self.relaunch()

    def _end(self) -> None:
        if self.alive:
            self.restart(RESTART_US)

    # ---- being active ----------------------------------------------------------------------------------

    async def _live(self) -> None:
        while True:
            epoch = await self._coordinator.campaign()
            self.note("is active under epoch {}", epoch)
            try:
                await self._serve(epoch)
            except CoordinatorUnavailable as error:
                self.note("stands by: {}", error.message)
            except FencedError as error:
                self.note("is fenced: {}", error.message)
                raise
            self._stand_down()

    async def _serve(self, epoch: int) -> None:
        cursors, session = self.around.cursors, self._coordinator.session
        await cursors.claim(self, session, epoch)
        subscriptions = await cursors.load(self, session)
        leases = {lease.client_id: lease for lease in await self._coordinator.consumers()}
        consumers = tuple(
            ev.ConsumerState(
                found.client_id,
                found.filter,
                found.cursor,
                holder=leases[found.client_id].holder if found.client_id in leases else "",
                epoch=leases[found.client_id].epoch if found.client_id in leases else 0,
                dropped=found.dropped,
            )
            for found in subscriptions
        )
        self.machine = Group(self.settings, epoch)
        self.around.invariants.took_over(epoch, subscriptions)
        self._tell(ev.Started(self.now_us, consumers))
        while True:
            self._coordinator.check_active()
            self._tell(ev.Ticked(self.now_us))
            self._enrol()
            self.around.invariants.bounded(self.machine, sum(shard.ring_size for shard in self.shards))
            await self.sleep(TICK_US)

    def _enrol(self) -> None:
        """Tell the machine of shards that joined, as the roster does: one that was restarted knows none."""
        assert self.machine is not None
        known = {shard["shard"] for shard in self.machine.describe(self.now_us)["shards"]}
        for name in self.around.joined:
            if name not in known:
                self.note("enrols {}", name)
                self._tell(ev.ShardAdded(next(self._calls), name, None, self.now_us))

    def _stand_down(self) -> None:
        self.machine = None
        for task in (*self._following.values(), *self._chores):
            task.cancel()
        self._following.clear()
        answers, self._answers = self._answers, {}
        self._watched.clear()
        for answer in answers.values():
            answer.fail(self._standing_by())

    def _standing_by(self) -> ServerUnavailable:
        return ServerUnavailable(f"{self.name} is not the active one.", retry_after_s=0.5)

    # ---- telling the machine, doing what it says -------------------------------------------------------

    def _tell(self, event: ev.Event) -> None:
        if self.machine is not None:
            for instruction in self.machine.handle(event):
                self._do(instruction)

    def _do(self, instruction: do.Instruction) -> None:
        match instruction:
            case do.Reply(call, value):
                self._reply(call, value)
            case do.Refuse(call, error):
                self._watched.pop(call, None)
                answer = self._answers.pop(call, None)
                if answer is not None:
                    answer.fail(error)
            case do.OpenShard(shard, generation, position):
                self._follow_anew(shard, generation, position)
            case do.FreeRing(shard, generation, sequence):
                self._call(shard, "free", generation, sequence)
            case do.CloseShard(shard):
                self._unfollow(shard)
                self._leave(shard)
            case do.SaveCursor(call, client_id, table_filter, cursor, dropped):
                self._chore(self._save(call, Subscription(client_id, table_filter, cursor, dropped)))
            case do.LeaseConsumer(call, client_id, holder):
                self._chore(self._lease(call, client_id, holder))
            case do.ReleaseConsumer(client_id):
                self.note("releases {}", client_id)

    def _reply(self, call: int, value: Any) -> None:
        """Answer a call, if this server may still do so."""
        request, answer = self._watched.pop(call, None), self._answers.pop(call, None)
        if answer is None or answer.done:
            return
        try:
            self.check_delivery()
        except CanalGroupError:
            answer.fail(self._standing_by())
            return
        match request:
            case ev.AckRequested(client_id=client_id, batch_id=batch_id):
                self.around.invariants.accepted(self.epoch, client_id, batch_id)
            case ev.GetRequested(client_id=client_id) if value is not None:
                self.around.invariants.delivered(client_id, value)
            case ev.SubscribeRequested(client_id=client_id):
                self.around.invariants.subscribed(client_id, value[1])
            case ev.ShardPolicyGiven(policy=policy):
                self.around.invariants.policy_given(self.epoch, value["index"], policy)
        answer.set(value)

    def check_delivery(self) -> None:
        """Return if this server may answer with what only the active one knows."""
        self._coordinator.check_active()

    def _chore(self, work: Coroutine[Any, Any, None]) -> Task:
        task = self.spawn(work)
        self._chores[task] = None
        task.ended.then(lambda: self._chore_done(task))
        return task

    def _chore_done(self, task: Task) -> None:
        self._chores.pop(task, None)
        if task.broke:
            self._end()

    @property
    def epoch(self) -> int:
        """Its epoch while it serves."""
        return self.machine.epoch if self.machine is not None else 0

    async def _save(self, call: int, subscription: Subscription) -> None:
        try:
            await self.around.cursors.save(self, self._coordinator.session, subscription, self.epoch)
        except CanalGroupError as error:
            self.note("cursor of {} not saved: {}", subscription.client_id, error.message)
            self._tell(ev.CursorNotSaved(call, subscription.client_id, error))
        else:
            self._tell(ev.CursorSaved(call, subscription.client_id))

    async def _lease(self, call: int, client_id: str, holder: str) -> None:
        try:
            lease = await self._coordinator.lease_consumer(client_id, holder)
        except CanalGroupError as error:
            self._tell(ev.LeaseFailed(call, client_id, error))
        else:
            self._tell(ev.ConsumerLeased(call, client_id, lease.epoch, self.now_us))

    # ---- shards ----------------------------------------------------------------------------------------

    def _call(self, shard: int, method: str, generation: int, *arguments: Any) -> Future:
        return self.around.network.call(self, self.shards[shard], method, self.epoch, generation, *arguments)

    def _follow_anew(self, shard: int, generation: int, position: Position | None) -> None:
        self._unfollow(shard)
        self._following[shard] = self._chore(self._follow(shard, generation, position))

    def _unfollow(self, shard: int) -> None:
        before = self._following.pop(shard, None)
        if before is not None:
            before.cancel()

    def _leave(self, shard: int) -> None:
        """Tell a shard to leave its source."""
        self.around.network.call(self, self.shards[shard], "close", self.epoch)

    async def _follow(self, shard: int, generation: int, position: Position | None) -> None:
        opened = await self._open(shard, generation, position)
        self._tell(ev.ShardOpened(shard, generation, opened, self.now_us))
        try:
            while True:
                report: ShardReport = await self._call(
                    shard, "poll", generation, POLL_HEADERS_MAX, POLL_WAIT_US
                )
                if report.run is not None or report.frontier_us is not None or report.full:
                    self._tell(
                        ev.ShardReported(
                            shard,
                            generation,
                            report.run,
                            report.frontier_us,
                            self.now_us,
                            full=report.full,
                        )
                    )
        except CanalGroupError as error:
            self.note("loses shard {}: {}", shard, error.message)
            self._tell(ev.ShardLost(shard, generation, str(error), self.now_us))

    async def _open(self, shard: int, generation: int, position: Position | None) -> Position:
        while True:
            try:
                opened: Position = await self._call(shard, "open", generation, position)
            except FencedError:
                raise
            except CanalGroupError:
                await self.sleep(REOPEN_US)
            else:
                return opened

    # ---- calls of consumers ----------------------------------------------------------------------------

    def _ask(self, make: Callable[[int], ev.Event]) -> tuple[int, Future]:
        if self.machine is None:
            raise self._standing_by()
        self._coordinator.check_active()
        call = next(self._calls)
        answer = self._answers[call] = Future()
        self._tell(make(call))
        return call, answer

    async def _locked(self, client_id: str, make: Callable[[int], ev.Event]) -> Any:
        return await self._locks.setdefault(client_id, Lock()).run(lambda: self._ask(make)[1])

    async def subscribe(
        self, client_id: str, holder: str, resume: ev.Resume | None
    ) -> tuple[int, GroupPosition]:
        """Make `holder` the active consumer of a client id."""
        answer: tuple[int, GroupPosition] = await self._locked(
            client_id,
            lambda call: self._watch(ev.SubscribeRequested(call, client_id, holder, "", self.now_us, resume)),
        )
        return answer

    async def touch(self, client_id: str, epoch: int) -> None:
        """Keep the consumer's lease."""
        await self._ask(lambda call: ev.ConsumerTouched(call, client_id, epoch, self.now_us))[1]

    async def get(
        self, client_id: str, epoch: int, rows_max: int, timeout_us: int, seen_id: int
    ) -> Batch | None:
        """Deliver the next batch, waiting so long for one."""
        call, answer = self._ask(
            lambda call: self._watch(ev.GetRequested(call, client_id, epoch, rows_max, self.now_us, seen_id))
        )
        if not answer.done:
            await self.within(answer, timeout_us)
        if not answer.done:
            self._tell(ev.GetTimedOut(call, client_id))
        batch: Batch | None = await answer
        return batch

    def _watch(self, request: _Watched) -> ev.Event:
        self._watched[request.call] = request
        return request

    async def rows(self, client_id: str, epoch: int, batch_id: int) -> list[Place]:
        """Return which rows of the sources an outstanding batch holds, in merged order."""
        batch: Batch = await self._ask(
            lambda call: ev.PlanRequested(call, client_id, epoch, batch_id, self.now_us)
        )[1]
        found: dict[int, list[Place]] = {}
        for shard in np.unique(batch.headers["shard"]).tolist():
            mine = batch.headers["sequence"][batch.headers["shard"] == shard]
            found[shard] = await self.around.network.call(
                self,
                self.shards[shard],
                "fetch",
                batch.server_epoch,
                batch.generation,
                int(mine[0]),
                int(mine[-1]) + 1,
            )
        begins = {
            shard: int(batch.headers["sequence"][batch.headers["shard"] == shard][0]) for shard in found
        }
        return [
            found[int(header["shard"])][int(header["sequence"]) - begins[int(header["shard"])]]
            for header in batch.headers
        ]

    async def ack(self, client_id: str, epoch: int, batch_id: int) -> GroupPosition:
        """Acknowledge the oldest outstanding batch; return the cursor once it is durable."""
        cursor: GroupPosition = await self._locked(
            client_id,
            lambda call: self._watch(ev.AckRequested(call, client_id, epoch, batch_id, self.now_us)),
        )
        return cursor

    async def rollback(self, client_id: str, epoch: int, batch_id: int | None) -> int:
        """Take back a batch and every later one, or all."""
        count: int = await self._locked(
            client_id, lambda call: ev.RollbackRequested(call, client_id, epoch, batch_id, self.now_us)
        )
        return count

    async def release(self, client_id: str, epoch: int) -> None:
        """Let the consumer go; subscription and cursor stay."""
        await self._locked(client_id, lambda call: ev.ReleaseRequested(call, client_id, epoch, self.now_us))

    # ---- calls of operators ----------------------------------------------------------------------------

    async def give_policy(self, name: str, policy: Policy) -> dict[str, Any]:
        """Say whether a silent shard holds the group."""
        state: dict[str, Any] = await self._ask(
            lambda call: self._watch(ev.ShardPolicyGiven(call, name, policy, self.now_us))
        )[1]
        return state

    async def drain_shard(self, name: str) -> dict[str, Any]:
        """Let a shard leave when what it has committed by now is acknowledged."""
        return await self._remove_shard(name, now=False)

    async def drop_shard(self, name: str) -> dict[str, Any]:
        """Let a shard leave at once."""
        return await self._remove_shard(name, now=True)

    async def _remove_shard(self, name: str, *, now: bool) -> dict[str, Any]:
        until_us = BEGIN_US + self.loop.now_us
        before = self._role(name)
        _, answer = self._ask(lambda call: ev.ShardRemoved(call, name, now, until_us, self.now_us))
        if self.machine is not None and self._role(name) in (Role.LEAVING, Role.LEFT):
            index = self.machine._stream.shards.index(name)
            # One that has not joined yet leaves at once too.
            at_once = now or before is Role.JOINING
            self.around.invariants.removed(self.epoch, index, until_us, now=at_once)
        state: dict[str, Any] = await answer
        return state

    def _role(self, name: str) -> Role | None:
        members = self.machine._stream.members if self.machine is not None else []
        return next((member.role for member in members if member.name == name), None)
