"""An active group: serves a destination from a server's election until its epoch ends.

It runs the group's state machine, which makes all decisions. Reports of shards and requests of consumers are
its events, and its instructions are carried out here. One asyncio loop owns the machine, so each event is
handled completely before the next. Blocking work (ZooKeeper, files) runs on threads, and its result is
another event.

Before a call is processed, and again before it is answered, the group checks that the server is still active,
because the process may have been paused in between. If it is not, the consumer gets ServerUnavailable, never
FencedError, which would mean that the consumer itself is fenced.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar, assert_never

from canal_group.actors.group.full_ring_warnings import FullRingWarnings
from canal_group.actors.group.leases import Leases
from canal_group.actors.group.loss_warnings import LossWarnings
from canal_group.actors.group.shards import GroupShards
from canal_group.actors.group.standby import Standby
from canal_group.actors.group.stored.cursors import StoredCursors
from canal_group.actors.group.stored.document import DDL_DECISIONS
from canal_group.actors.group.stored.skips import StoredSkips
from canal_group.actors.group.stored.types import StoredTypes
from canal_group.actors.ports import Coordinator, EpochStore, Host, Subscription
from canal_group.actors.shard.ports import ShardChannel
from canal_group.merge import events as ev
from canal_group.merge import instructions as do
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Get, GetRange, Release
from canal_group.merge.calls.values import WAIT_MAX_S
from canal_group.merge.errors import CanalGroupError, FencedError, ServerUnavailable, UsageError
from canal_group.merge.group import Group
from canal_group.merge.values.position import Position

_log = logging.getLogger(__name__)

#: microseconds between two ticks after which this process stood still
TICK_LATE_US: Final = 2_000_000

R = TypeVar("R")


class ActiveGroup:
    """The group of one destination under one epoch; its methods run on one loop. It cannot be restarted.

    Args:
        machine: the group's state machine, with the epoch of the election; it has had no event yet.
        shards: the name of each shard and the channel to it, by shard_index.
        coordinator: knows whether the server is still the active one.
        store: keeps what has to be durable; it was claimed for the epoch.
        leases: the leases of the consumers.
        standby: makes the error for callers once the group has ended.
        broke: called with the error when background work failed.
        host: has the clock that events carry, and runs blocking work.
        pace_s: interval between two polls of a shard, see `Follower`.
    """

    def __init__(
        self,
        machine: Group,
        shards: Sequence[tuple[str, ShardChannel]],
        coordinator: Coordinator,
        store: EpochStore,
        leases: Leases,
        standby: Standby,
        broke: Callable[[BaseException], None],
        host: Host,
        *,
        pace_s: float,
    ) -> None:
        self.machine = machine
        self.leases = leases
        #: the state as of the last tick, for other threads; None before the first tick and after the end
        self.snapshot: dict[str, Any] | None = None
        self._coordinator = coordinator
        self._store = store
        self._cursors = StoredCursors(store, machine.epoch, host)
        self._standby = standby
        #: what was stored before this server took over is set before it begins
        self.losses = LossWarnings(standby.destination, ())
        self._full_rings = FullRingWarnings(standby.destination)
        #: the types that operators chose for columns
        self.types = StoredTypes(store, machine.epoch, host)
        #: the events that operators have left out
        self.skips = StoredSkips(store, machine.epoch, host)
        self._broke = broke
        self._host = host
        self._shards = GroupShards(
            shards, machine.epoch, self.tell, self._chore, store, self.skips, host, pace_s=pace_s
        )
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        #: background tasks, in the order of their start
        self._chores: dict[asyncio.Task[None], None] = {}
        #: why this server may not continue, from a refused write
        self._fenced: FencedError | None = None
        self._over = False
        self._loop = asyncio.get_running_loop()
        self._ticked_us = host.now_us()

    # ---- how long it lasts -----------------------------------------------------------------------------

    def tick(self, *, reachable: bool) -> None:
        """Tell the machine the time, and whether consumers could reach this server since the last tick.

        After a late tick they could not: this process stood still, and what they sent is still to be read.

        Raises:
            FencedError: another server was elected.
            CoordinatorUnavailable: another server may have been elected.
        """
        if self._fenced is not None:
            raise self._fenced
        self._coordinator.check_active()
        now_us = self._host.now_us()
        late, self._ticked_us = now_us - self._ticked_us > TICK_LATE_US, now_us
        self.tell(ev.Ticked(now_us, reachable and not late))
        self.publish()

    def publish(self) -> None:
        """Store the current state as `snapshot`."""
        if not self._over:
            state = self.machine.describe(self._host.now_us())
            self._full_rings.state(state["full_rings"])
            answers = self._shards.answers()
            shards = [{**shard, **answers.get(shard["shard"], {})} for shard in state["shards"]]
            self.snapshot = {**state, "shards": shards, "skipped_events": self.skips.describe()}

    def check_active(self) -> float:
        """Return for how many seconds this server may deliver.

        Raises:
            ServerUnavailable: the group has ended, or another server was elected.
            CoordinatorUnavailable: another server may have been elected.
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
        """Stop serving: calls that wait raise ServerUnavailable."""
        self._over = True
        self.snapshot = None
        for task in list(self._chores):
            task.cancel()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._standby.refusal())
        self._answers.clear()

    def close_shards(self) -> None:
        """Let the shards close their sources, after `end`."""
        self._shards.close_all()

    # ---- calls -----------------------------------------------------------------------------------------

    async def ask(self, call: Call[R]) -> R:
        """Pass a call to the machine and return its answer; also raises as `check_active`.

        A call for rows is answered with None after its timeout.

        Raises:
            UsageError: the timeout is invalid; NaN would stop every timer of the loop.
        """
        timeout_s = call.timeout_s if isinstance(call, Get | GetRange) else None
        if timeout_s is not None and not 0 <= timeout_s <= WAIT_MAX_S:
            raise UsageError(f"timeout_s is {timeout_s}, not a number of seconds from 0 to {WAIT_MAX_S:g}.")
        self.check_active()
        number, answer = self._request(lambda number: ev.Asked(number, call, self._host.now_us()))
        timer = None
        if isinstance(call, Get | GetRange) and not answer.done():
            timer = self._loop.call_later(call.timeout_s, self.tell, ev.GetTimedOut(number, call.client_id))
        try:
            value: R = await answer
        finally:
            if timer is not None:
                timer.cancel()
        self.check_active()
        return value

    def release_gone(self, client_id: str, epoch: int) -> None:
        """Release a consumer that is gone, without waiting for an answer."""
        self.tell(ev.Asked(next(self._numbers), Release(client_id, epoch), self._host.now_us()))

    async def add_shard(self, name: str, channel: ShardChannel, start: Position | None) -> None:
        """Add a shard that has an actor.

        This works whether this server is active or not: the machine accepts the appended shard, or it is
        removed.

        Raises:
            UsageError: the machine refuses it; nothing was changed.
        """
        self._shards.append(name, channel)
        _, answer = self._request(lambda number: ev.ShardAdded(number, name, start, self._host.now_us()))
        try:
            await answer
        except UsageError:
            self._shards.take_back()
            raise

    def state_of_shard(self, name: str) -> dict[str, Any]:
        """Return a shard's state as `status` shows it; only its name if the machine does not know it."""
        shards = self.machine.describe(self._host.now_us())["shards"]
        return next((shard for shard in shards if shard["shard"] == name), {"shard": name})

    def state_of_client(self, client_id: str) -> dict[str, Any] | None:
        """Return a client's state as `status` shows it; None if there is no such subscription.

        Raises as `check_active`.
        """
        self.check_active()
        clients = self.machine.describe(self._host.now_us())["clients"]
        return next((client for client in clients if client["client_id"] == client_id), None)

    def _request(self, make: Callable[[int], ev.Event]) -> tuple[int, asyncio.Future[Any]]:
        """Pass a request to the machine; return the call's number and a future of its answer."""
        call = next(self._numbers)
        answer = self._answers[call] = self._loop.create_future()
        self.tell(make(call))
        return call, answer

    # ---- events to the machine, and its instructions ----------------------------------------------------

    def tell(self, event: ev.Event) -> None:
        """Pass an event to the machine and carry out its instructions; do nothing after the end."""
        if not self._over:
            for instruction in self.machine.handle(event):
                self._do(instruction)

    def _do(self, instruction: do.Instruction) -> None:  # noqa: C901, PLR0912 - one case an instruction
        match instruction:
            case do.Reply(call, value):
                self._reply(call, value)
            case do.Refuse(call, error):
                self._answer(call, lambda answer: answer.set_exception(error))
            case do.OpenShard(shard, generation, position, read_to):
                self._shards.follow(shard, generation, position, read_to)
            case do.FreeRing(shard, generation, sequence):
                self._shards.free(shard, generation, sequence)
            case do.KeepArchived(shard, needed):
                self._shards.keep(shard, needed)
            case do.CloseLane(lane):
                self._shards.close_lane(lane)
            case do.CloseShard(shard):
                name = self._shards.close(shard)
                _log.info(
                    "the shard has left", extra={"destination": self._standby.destination, "shard": name}
                )
            case do.SaveCursor() as save:
                saved = Subscription(
                    save.client_id,
                    save.filter,
                    save.cursor,
                    save.dropped,
                    save.losses,
                    save.quiet_since,
                    save.lasting,
                    save.unread,
                )
                self._chore(self._save(save.number, saved))
            case do.SaveDdl(version, text):
                self._chore(self._save_ddl(version, text))
            case do.ForgetClient(call, client_id):
                self._chore(self._forget(call, client_id))
            case do.LeaseConsumer(call, client_id, holder):
                self._chore(self._lease(call, client_id, holder))
            case do.ReleaseConsumer(client_id):
                # Take the session now: a new consumer may come before the node is released.
                self._chore(self._release(client_id, self.leases.give_up(client_id)))
            case _:
                assert_never(instruction)

    def _reply(self, call: int, value: Any) -> None:
        """Answer a call, if this server may still deliver; that may have changed since the call."""
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
            await self._cursors.save(subscription)
        except FencedError as error:
            self.tell(ev.CursorNotSaved(call, subscription.client_id, self._deposed(error)))
        except CanalGroupError as error:
            self.tell(ev.CursorNotSaved(call, subscription.client_id, error))
        else:
            self.losses.stored(subscription)
            self.tell(ev.CursorSaved(call, subscription.client_id))

    async def _save_ddl(self, version: int, text: str) -> None:
        try:
            await self._host.blocking(self._store.put, DDL_DECISIONS, text + "\n", self.machine.epoch)
        except CanalGroupError as error:
            if isinstance(error, FencedError):
                self._deposed(error)
            _log.warning(
                "decisions on DDL were not saved: %s", error, extra={"destination": self._standby.destination}
            )
            self.tell(ev.DdlNotSaved(self._host.now_us()))
        else:
            self.tell(ev.DdlSaved(version, self._host.now_us()))

    async def _forget(self, call: int, client_id: str) -> None:
        try:
            await self._cursors.forget(client_id)
            await self.leases.forget(client_id)
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
            # The node is removed with its session at the latest; the next consumer's lease replaces it.
            _log.warning(
                "its running node was not released: %s",
                error,
                extra={"destination": self._standby.destination, "client": client_id},
            )

    def _deposed(self, error: FencedError) -> ServerUnavailable:
        """Return the error for a caller whose call met the end of our epoch; the tick ends the process."""
        self._fenced = self._fenced or error
        return self._standby.deposed()

    def _chore(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a background task. If it fails, the process ends, so that no failure is silent."""
        task = self._loop.create_task(work)
        self._chores[task] = None
        task.add_done_callback(self._chore_done)
        return task

    def _chore_done(self, task: asyncio.Task[None]) -> None:
        self._chores.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._broke(error)
