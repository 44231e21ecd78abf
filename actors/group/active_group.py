"""An active group: what one server serves from its election on until its epoch ends.

It runs the group's machine, which decides everything: what the shards report and consumers ask for is told as
events, and what the machine says is done. One asyncio loop owns the machine, so an event is handled as a
whole before the next. What blocks (ZooKeeper, files) runs on threads, and its outcome comes back as an event.

Whether the server is still the active one is asked before a call is heard, and again before it is answered:
the process may have been paused in between. A consumer is then told that this server is away, never that the
consumer itself is fenced.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, assert_never

from actors.admission.request_values import WAIT_MAX_S
from actors.group.leases import Leases
from actors.group.shards import GroupShards
from actors.group.standby import Standby
from actors.ports import Coordinator, CursorStore, Host, Subscription
from actors.shard.ports import ShardChannel
from merge import events as ev
from merge import instructions as do
from merge.errors import CanalGroupError, FencedError, ServerUnavailable, UsageError
from merge.group import Group
from merge.values.position import Position

_log = logging.getLogger(__name__)


class ActiveGroup:
    """The group of one destination under one epoch; its methods run on one loop. Once over, it stays over.

    Args:
        machine: the group, with the epoch that was won; nothing was told to it.
        shards: name of each of its shards and the way to it, by shard_index.
        coordinator: knows whether the server is still the active one.
        store: of the cursors, claimed for the epoch.
        leases: of the consumers.
        standby: says what callers are told once it is over.
        broke: called with the reason when work broke that nobody waits for.
        host: has the clock that events carry, and waits for what blocks.
    """

    def __init__(
        self,
        machine: Group,
        shards: Sequence[tuple[str, ShardChannel]],
        coordinator: Coordinator,
        store: CursorStore,
        leases: Leases,
        standby: Standby,
        broke: Callable[[BaseException], None],
        host: Host,
    ) -> None:
        self.machine = machine
        self.leases = leases
        #: the state as of the last tick, for who must not wait for the loop; None: before the first, or over
        self.snapshot: dict[str, Any] | None = None
        self._coordinator = coordinator
        self._store = store
        self._standby = standby
        self._broke = broke
        self._host = host
        self._shards = GroupShards(shards, machine.epoch, self.tell, self._chore, host)
        self._calls = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        #: in the order of their start
        self._chores: dict[asyncio.Task[None], None] = {}
        #: why this server may not go on, learnt from a refused write
        self._fenced: FencedError | None = None
        self._over = False
        self._loop = asyncio.get_running_loop()

    # ---- how long it lasts -----------------------------------------------------------------------------

    def tick(self, *, reachable: bool) -> None:
        """Let time pass, in which consumers could reach us or not.

        Raises:
            FencedError: somebody else was elected.
            CoordinatorUnavailable: somebody else may have been elected.
        """
        if self._fenced is not None:
            raise self._fenced
        self._coordinator.check_active()
        self.tell(ev.Ticked(self._host.now_us(), reachable))
        self.publish()

    def publish(self) -> None:
        """Make the state of now the `snapshot`."""
        if not self._over:
            self.snapshot = self.machine.describe(self._host.now_us())

    def check_active(self) -> float:
        """Return for how many seconds this server may deliver.

        Raises:
            ServerUnavailable: it is over, or somebody else was elected.
            CoordinatorUnavailable: somebody else may have been elected.
        """
        if self._over:
            raise self._standby.refusal()
        if self._fenced is not None:
            raise self._standby.deposed()
        try:
            return self._coordinator.check_active()
        except FencedError as error:
            raise self._deposed(error) from error

    def end(self) -> None:
        """Stop serving: whoever waits is told to come again."""
        self._over = True
        self.snapshot = None
        for task in list(self._chores):
            task.cancel()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._standby.refusal())
        self._answers.clear()

    def close_shards(self) -> None:
        """Let the shards leave their sources, after the end."""
        self._shards.close_all()

    # ---- calls -----------------------------------------------------------------------------------------

    async def ask(self, make: Callable[[int], ev.Event]) -> Any:
        """Hand a request to the machine and wait for its answer; raises as `check_active` too."""
        self.check_active()
        _, answer = self._request(make)
        value = await answer
        self.check_active()
        return value

    async def ask_within(self, timeout_s: float, client_id: str, make: Callable[[int], ev.Event]) -> Any:
        """Hand a client's request for rows to the machine and wait so long for them; None: there are none.

        Raises as `ask`.

        Raises:
            UsageError: that is no time to wait: NaN would stop every timer of the loop.
        """
        if not 0 <= timeout_s <= WAIT_MAX_S:
            raise UsageError(f"timeout_s is {timeout_s}, not a number of seconds from 0 to {WAIT_MAX_S:g}.")
        self.check_active()
        call, answer = self._request(make)
        done, _ = await asyncio.wait([answer], timeout=timeout_s)
        if not done:
            self.tell(ev.GetTimedOut(call, client_id))
        value = await answer
        self.check_active()
        return value

    def release_gone(self, client_id: str, epoch: int) -> None:
        """Let a consumer go that is gone; nobody waits for an answer."""
        self.tell(ev.ReleaseRequested(next(self._calls), client_id, epoch, self._host.now_us()))

    async def add_shard(self, name: str, channel: ShardChannel, start: Position | None) -> None:
        """Let a shard that has an actor join.

        It is heard whether we are active or not: what was appended here is the machine's shard, or is undone.

        Raises:
            UsageError: the machine refuses it; nothing was changed.
        """
        self._shards.append(name, channel)
        _, answer = self._request(lambda call: ev.ShardAdded(call, name, start, self._host.now_us()))
        try:
            await answer
        except UsageError:
            self._shards.take_back()
            raise

    def state_of_shard(self, name: str) -> dict[str, Any]:
        """Return a shard's state as `status` shows it; its name alone when the machine does not know it."""
        shards = self.machine.describe(self._host.now_us())["shards"]
        return next((shard for shard in shards if shard["shard"] == name), {"shard": name})

    def state_of_client(self, client_id: str) -> dict[str, Any] | None:
        """Return a client's state as `status` shows it; None: there is no such subscription.

        Raises as `check_active`.
        """
        self.check_active()
        clients = self.machine.describe(self._host.now_us())["clients"]
        return next((client for client in clients if client["client_id"] == client_id), None)

    def _request(self, make: Callable[[int], ev.Event]) -> tuple[int, asyncio.Future[Any]]:
        """Hand a request to the machine; return the call's number, and what its answer will be."""
        call = next(self._calls)
        answer = self._answers[call] = self._loop.create_future()
        self.tell(make(call))
        return call, answer

    # ---- telling the machine, doing what it says -------------------------------------------------------

    def tell(self, event: ev.Event) -> None:
        """Tell the machine what happened, and do what it says; once it is over, nothing happens."""
        if not self._over:
            for instruction in self.machine.handle(event):
                self._do(instruction)

    def _do(self, instruction: do.Instruction) -> None:
        match instruction:
            case do.Reply(call, value):
                self._reply(call, value)
            case do.Refuse(call, error):
                self._answer(call, lambda answer: answer.set_exception(error))
            case do.OpenShard(shard, generation, position):
                self._shards.follow(shard, generation, position)
            case do.FreeRing(shard, _, sequence):
                self._shards.free(shard, sequence)
            case do.CloseShard(shard):
                name = self._shards.close(shard)
                _log.info("destination=%s shard=%s left", self._standby.destination, name)
            case do.SaveCursor(call, client_id, table_filter, cursor, dropped):
                self._chore(self._save(call, Subscription(client_id, table_filter, cursor, dropped)))
            case do.ForgetClient(call, client_id):
                self._chore(self._forget(call, client_id))
            case do.LeaseConsumer(call, client_id, holder):
                self._chore(self._lease(call, client_id, holder))
            case do.ReleaseConsumer(client_id):
                # Whoever holds the node now: a new consumer may come before it is let go of.
                self._chore(self._release(client_id, self.leases.give_up(client_id)))
            case _:
                assert_never(instruction)

    def _reply(self, call: int, value: Any) -> None:
        """Answer a call, if this server may still deliver: much may have happened since it was asked."""
        try:
            self.check_active()
        except CanalGroupError:
            self._answer(call, lambda answer: answer.set_exception(self._standby.refusal()))
        else:
            self._answer(call, lambda answer: answer.set_result(value))

    def _answer(self, call: int, give: Callable[[asyncio.Future[Any]], None]) -> None:
        answer = self._answers.pop(call, None)
        if answer is not None and not answer.done():
            give(answer)

    async def _save(self, call: int, subscription: Subscription) -> None:
        try:
            await self._host.blocking(self._store.save, subscription, self.machine.epoch)
        except FencedError as error:
            self.tell(ev.CursorNotSaved(call, subscription.client_id, self._deposed(error)))
        except CanalGroupError as error:
            self.tell(ev.CursorNotSaved(call, subscription.client_id, error))
        else:
            self.tell(ev.CursorSaved(call, subscription.client_id))

    async def _forget(self, call: int, client_id: str) -> None:
        try:
            await self._host.blocking(self._store.forget, client_id, self.machine.epoch)
        except FencedError as error:
            self.tell(ev.ClientNotForgotten(call, client_id, self._deposed(error)))
        except CanalGroupError as error:
            self.tell(ev.ClientNotForgotten(call, client_id, error))
        else:
            self.tell(ev.ClientForgotten(call, client_id))

    async def _lease(self, call: int, client_id: str, holder: str) -> None:
        try:
            lease = await self.leases.take(client_id, holder)
        except FencedError as error:
            self.tell(ev.LeaseFailed(call, client_id, self._deposed(error)))
        except CanalGroupError as error:
            self.tell(ev.LeaseFailed(call, client_id, error))
        else:
            self.tell(ev.ConsumerLeased(call, client_id, lease.epoch, self._host.now_us()))

    async def _release(self, client_id: str, session: str) -> None:
        try:
            await self.leases.release(client_id, session)
        except CanalGroupError as error:
            # It goes with its session at the latest; the next consumer's lease replaces it.
            _log.warning(
                "destination=%s client=%s not released: %s", self._standby.destination, client_id, error
            )

    def _deposed(self, error: FencedError) -> ServerUnavailable:
        """Return what a caller is told whose call met the end of our epoch; the tick ends the process."""
        self._fenced = self._fenced or error
        return self._standby.deposed()

    def _chore(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that ends by itself; should it break, so does the process: nothing ends silently."""
        task = self._loop.create_task(work)
        self._chores[task] = None
        task.add_done_callback(self._chore_done)
        return task

    def _chore_done(self, task: asyncio.Task[None]) -> None:
        self._chores.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._broke(error)
