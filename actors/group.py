"""The group actor: gives a group its epoch, its shards' news and its consumers' calls, and does what it says.

It decides nothing: `merge.group.Group` does. One asyncio loop owns the machine, so an event is handled as a
whole before the next. What blocks (ZooKeeper, files) runs on threads, and its outcome comes back as an event.

It serves only while its coordinator says that it is the active one. That is asked before a call is heard, and
again before it is answered: the process may have been paused in between. Fenced, the process ends: Ray starts
it again, and the new incarnation stands by. A consumer is then told that this server is away, never that the
consumer itself is fenced.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn

import ray
from ray.actor import ActorHandle

from actors import wiring
from actors.follower import Follower, now_us
from actors.imports import leave_pandas_out
from actors.leases import Leases
from actors.ports import Coordinator, CursorStore, Subscription
from conf.changes import added_shard, is_same_shard
from conf.settings import InstanceSettings
from conf.shard_settings import ShardSettings
from merge import events as ev
from merge.errors import (
    CanalGroupError,
    ConfigError,
    CoordinatorUnavailable,
    FencedError,
    ServerUnavailable,
    ShardUnavailable,
    UsageError,
)
from merge.group import Group
from merge.ledger import Batch
from merge.member import Policy
from merge.position import GroupPosition, Position
from merge.span import Span

_log = logging.getLogger(__name__)

#: how often leases and dead shards are looked at, and whether this server is the active one, seconds
TICK_S = 0.2
#: how long giving the activity up may take when something broke, seconds
LEAVE_S = 5.0
#: how long a look at the state waits for the loop, seconds
STATUS_WAIT_S = 0.5
#: how long the driver may take to make a shard's actor, seconds
ENROL_WAIT_S = 8.0


class GroupActor:
    """One destination's group; a plain class that `actors.launch` turns into an actor.

    Args:
        settings: of the instance.
        identity: of this server.
        shard_actors: what the shard actors' names begin with; the shard's name follows. Names, because Ray
            keeps a handle that is a constructor's argument in its object store, where a restart may not find
            it any more.
    """

    async def __init__(  # type: ignore[misc]  # Ray awaits it on the actor's loop
        self, settings: InstanceSettings, identity: wiring.ServerIdentity, shard_actors: str
    ) -> None:
        leave_pandas_out()
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        self._settings = settings
        self._identity = identity
        self._shard_actors = shard_actors
        #: names and actors by shard_index
        self._shards: list[tuple[str, ActorHandle]] = []
        #: shards that are to be added once they have an actor, where they begin, and who waits for it
        self._wanted: dict[str, tuple[ShardSettings, Position | None, asyncio.Future[Any]]] = {}
        self._machine: Group | None = None
        self._coordinator: Coordinator | None = None
        self._store: CursorStore | None = None
        self._calls = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        #: durable calls of a client follow each other
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        #: by shard_index, under the current generation
        self._followers: dict[int, Follower] = {}
        self._following: dict[int, asyncio.Task[None]] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._leases: Leases | None = None
        #: why this server may not go on, learnt from a refused write
        self._fenced: FencedError | None = None
        #: published by the loop for the status calls, which run on another thread; None: standing by
        self._snapshot: dict[str, Any] | None = None
        self._loop = asyncio.get_running_loop()
        #: the end of a process in which something broke
        self._leaving: asyncio.Task[None] | None = None
        self._main = self._loop.create_task(self._live())

    # ---- being active ----------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Stand by, serve, stand by again; end the process when fenced, or when something breaks."""
        try:
            self._coordinator = wiring.coordinator(self._settings, self._identity)
            self._leases = Leases(self._coordinator)
            self._store = wiring.cursor_store(self._settings, self._coordinator)
            while True:
                epoch = await asyncio.to_thread(self._coordinator.campaign)
                _log.info("destination=%s epoch=%d active", self._settings.destination, epoch)
                try:
                    await self._serve(epoch, self._coordinator, self._store)
                    await self._hand_over(epoch, self._coordinator, self._store)
                except CoordinatorUnavailable as error:
                    _log.warning(
                        "destination=%s epoch=%d stands by: %s", self._settings.destination, epoch, error
                    )
                finally:
                    self._stand_down()
        except FencedError as error:
            _log.warning("destination=%s fenced: %s", self._settings.destination, error)
            self._end()
        except CoordinatorUnavailable as error:
            _log.error("destination=%s cannot reach its coordinator: %s", self._settings.destination, error)
            await asyncio.sleep(1.0)
            self._end()
        except ConfigError as error:
            # An operator's matter, such as a password that ZooKeeper refuses: a sentence, not a traceback.
            _log.error("destination=%s cannot be served: %s", self._settings.destination, error)
            await asyncio.sleep(1.0)
            await self._leave()
        except Exception:  # the process ends: nothing may end silently, whatever it was
            _log.exception("destination=%s group broke", self._settings.destination)
            await self._leave()

    async def _leave(self) -> NoReturn:
        """Let another server try, as far as that works, and end the process.

        Without it our next incarnation would take over at once, and might break at the same thing for ever.
        """
        self._stand_down()
        if self._coordinator is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(asyncio.to_thread(self._coordinator.close), LEAVE_S)
        self._end()

    def _end(self) -> NoReturn:
        """End the process; Ray starts it again."""
        logging.shutdown()
        os._exit(1)

    async def _serve(self, epoch: int, coordinator: Coordinator, store: CursorStore) -> None:
        """Serve as the active one until an operator stops the destination, or wants another server to serve.

        Raises:
            FencedError: somebody else was elected.
            CoordinatorUnavailable: somebody else may have been elected.
        """
        await asyncio.to_thread(store.claim, epoch)
        subscriptions = await asyncio.to_thread(store.load)
        assert self._leases is not None
        leases = await self._leases.restore([found.client_id for found in subscriptions])
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
        self._fenced = None
        await self._hear_of_shards(subscriptions, coordinator)
        self._settings, self._shards = self._with_actors()
        self._machine = Group(wiring.group_settings(self._settings), epoch)
        self._tell(ev.Started(now_us(), consumers))
        while coordinator.stop_mark() is None and not coordinator.release_asked():
            if self._fenced is not None:
                raise self._fenced
            coordinator.check_active()
            self._tell(ev.Ticked(now_us()))
            await self._publish()
            await asyncio.sleep(TICK_S)

    async def _hand_over(self, epoch: int, coordinator: Coordinator, store: CursorStore) -> None:
        """Give the activity up in good order.

        1. nobody is served any more; 2. the shards leave their sources; 3. the cursors are durable; 4. the
        next server can be elected.
        """
        _log.info("destination=%s epoch=%d hands over", self._settings.destination, epoch)
        self._stand_down()
        for _, shard in self._shards:
            shard.close.remote(epoch)
        try:
            await asyncio.to_thread(store.flush, epoch)
        except CanalGroupError as error:
            _log.warning("destination=%s cursors not flushed: %s", self._settings.destination, error)
        await asyncio.to_thread(coordinator.resign)

    async def _hear_of_shards(self, subscriptions: Sequence[Subscription], coordinator: Coordinator) -> None:
        """Wait for the driver to tell of the shards that joined under the process before ours.

        The cursors hold them and they have actors, but nobody has told this process of them yet.
        """
        until_s = time.monotonic() + ENROL_WAIT_S
        held = {name for each in subscriptions if each.cursor is not None for name in each.cursor.shards}
        while time.monotonic() < until_s:
            told = {shard.name for shard in self._settings.shards}
            if not any(self._has_actor(name) for name in held - told):
                return
            await asyncio.sleep(TICK_S)
            coordinator.check_active()

    def _has_actor(self, shard: str) -> bool:
        try:
            self._actor_of(shard)
        except ShardUnavailable:
            return False
        return True

    def _with_actors(self) -> tuple[InstanceSettings, list[tuple[str, ActorHandle]]]:
        """Return the settings and actors of the shards that have one; those that were removed have none."""
        found = []
        for shard in self._settings.shards:
            try:
                found.append((shard, self._actor_of(shard.name)))
            except ShardUnavailable as error:
                _log.warning("destination=%s goes on without it: %s", self._settings.destination, error)
        kept = self._settings.model_copy(update={"shards": tuple(shard for shard, _ in found)})
        return kept, [(shard.name, actor) for shard, actor in found]

    def _actor_of(self, shard: str) -> ActorHandle:
        try:
            return ray.get_actor(self._shard_actors + shard)
        except ValueError as error:
            raise ShardUnavailable(f"Shard {shard} has no actor: it was removed.") from error

    def _stand_down(self) -> None:
        """Stop serving: whoever waits is told to come again."""
        self._machine = None
        self._snapshot = None
        for task in (*self._following.values(), *self._chores):
            task.cancel()
        self._following.clear()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._standing_by())
        self._answers.clear()

    def _standing_by(self) -> ServerUnavailable:
        mark = self._coordinator.stop_mark() if self._coordinator is not None else None
        if mark is not None:
            return ServerUnavailable(
                f"{self._settings.destination} is {mark}.",
                hint="`canal-group start` lets it be served again.",
                retry_after_s=1.0,
            )
        active = self._coordinator.active_address() if self._coordinator is not None else ""
        return ServerUnavailable(
            f"The server of {self._settings.destination} at {self._identity.address} is not the active one"
            + (f"; {active} is." if active and active != self._identity.address else "."),
            retry_after_s=0.5,
        )

    def _deposed(self, error: FencedError) -> ServerUnavailable:
        """Return what a consumer is told whose call met the end of our epoch; the tick ends the process."""
        self._fenced = self._fenced or error
        return ServerUnavailable(
            f"The server of {self._settings.destination} at {self._identity.address} is active no more.",
            retry_after_s=0.5,
        )

    # ---- telling the machine, doing what it says -------------------------------------------------------

    def _tell(self, event: ev.Event) -> None:
        if self._machine is not None:
            for instruction in self._machine.handle(event):
                self._do(instruction)

    def _do(self, instruction: ev.Instruction) -> None:
        match instruction:
            case ev.Reply(call, value):
                self._reply(call, value)
            case ev.Refuse(call, error):
                self._answer(call, lambda answer: answer.set_exception(error))
            case ev.OpenShard(shard, generation, position):
                self._follow_anew(shard, generation, position)
            case ev.FreeRing(shard, _, sequence):
                self._followers[shard].free(sequence)
            case ev.CloseShard(shard):
                self._close_shard(shard)
            case ev.SaveCursor(call, client_id, table_filter, cursor, dropped):
                self._chore(self._save(call, Subscription(client_id, table_filter, cursor, dropped)))
            case ev.ForgetClient(call, client_id):
                self._chore(self._forget(call, client_id))
            case ev.LeaseConsumer(call, client_id, holder):
                self._chore(self._lease(call, client_id, holder))
            case ev.ReleaseConsumer(client_id):
                self._release(client_id)

    def _reply(self, call: int, value: Any) -> None:
        """Answer a call, if this server may still deliver: much may have happened since it was asked."""
        try:
            self._check_active()
        except CanalGroupError:
            self._answer(call, lambda answer: answer.set_exception(self._standing_by()))
        else:
            self._answer(call, lambda answer: answer.set_result(value))

    def _answer(self, call: int, give: Callable[[asyncio.Future[Any]], None]) -> None:
        answer = self._answers.pop(call, None)
        if answer is not None and not answer.done():
            give(answer)

    def _chore(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that ends by itself; should it break, so does the process: nothing ends silently."""
        task = self._loop.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chore_done)
        return task

    def _chore_done(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("destination=%s group broke", self._settings.destination, exc_info=task.exception())
            if isinstance(task.exception(), FencedError):
                self._end()
            self._main.cancel()
            self._leaving = self._loop.create_task(self._leave())

    @property
    def _epoch(self) -> int:
        return self._machine.epoch if self._machine is not None else 0

    async def _save(self, call: int, subscription: Subscription) -> None:
        assert self._store is not None
        try:
            await asyncio.to_thread(self._store.save, subscription, self._epoch)
        except FencedError as error:
            self._tell(ev.CursorNotSaved(call, subscription.client_id, self._deposed(error)))
        except CanalGroupError as error:
            self._tell(ev.CursorNotSaved(call, subscription.client_id, error))
        else:
            self._tell(ev.CursorSaved(call, subscription.client_id))

    async def _forget(self, call: int, client_id: str) -> None:
        assert self._store is not None
        try:
            await asyncio.to_thread(self._store.forget, client_id, self._epoch)
        except FencedError as error:
            self._do(ev.Refuse(call, self._deposed(error)))
        except CanalGroupError as error:
            self._do(ev.Refuse(call, error))
        else:
            self._do(ev.Reply(call, None))

    async def _lease(self, call: int, client_id: str, holder: str) -> None:
        assert self._leases is not None
        try:
            lease = await self._leases.take(client_id, holder)
        except FencedError as error:
            self._tell(ev.LeaseFailed(call, client_id, self._deposed(error)))
        except CanalGroupError as error:
            self._tell(ev.LeaseFailed(call, client_id, error))
        else:
            self._tell(ev.ConsumerLeased(call, client_id, lease.epoch, now_us()))

    def _release(self, client_id: str) -> None:
        """Let go of the node of whoever holds it now: a new consumer may come before that is done."""
        assert self._leases is not None
        self._chore(self._remove_node(client_id, self._leases.give_up(client_id)))

    async def _remove_node(self, client_id: str, session: str) -> None:
        assert self._leases is not None
        try:
            await self._leases.release(client_id, session)
        except CanalGroupError as error:
            # It goes with its session at the latest; the next consumer's lease replaces it.
            _log.warning(
                "destination=%s client=%s not released: %s", self._settings.destination, client_id, error
            )

    # ---- shards ----------------------------------------------------------------------------------------

    def _follow_anew(self, shard: int, generation: int, position: Position | None) -> None:
        self._unfollow(shard)
        name, actor = self._shards[shard]
        follower = Follower(shard, name, actor, (self._epoch, generation), self._tell)
        self._followers[shard] = follower
        self._following[shard] = self._chore(follower.follow(position))

    def _unfollow(self, shard: int) -> None:
        before = self._following.pop(shard, None)
        if before is not None:
            before.cancel()
            self._followers[shard].flush()

    def _close_shard(self, shard: int) -> None:
        """Let a shard that left leave its source; who made its actor ends it (see `actors.roster`)."""
        self._unfollow(shard)
        name, actor = self._shards[shard]
        _log.info("destination=%s shard=%s left", self._settings.destination, name)
        actor.close.remote(self._epoch)

    async def give_policy(self, name: str, policy: str) -> dict[str, Any]:
        """Say whether a silent shard holds the group; return its state.

        Raises:
            UsageError: there is no such shard, or nobody would be left to go on.
        """
        given = Policy(policy)
        state: dict[str, Any] = await self._ask(lambda call: ev.ShardPolicyGiven(call, name, given, now_us()))
        _log.info("destination=%s shard=%s policy=%s", self._settings.destination, name, policy)
        return state

    async def add_shard(self, definition: dict[str, Any], start: Position | None) -> dict[str, Any]:
        """Let one more shard join, and return its state; it has joined when that says so.

        Args:
            definition: as in an instance file. Its secrets are read here, where the server runs.
            start: where it begins; None: where the definition says.

        Raises:
            ConfigError: the definition cannot hold beside the others.
            UsageError: the name belongs to a shard that is there, or that left.
            ServerUnavailable: the process that launched us made no actor for it in time.
        """
        self._check_active()
        wanted = added_shard(self._settings, definition)
        if any(is_same_shard(wanted, shard) for shard in self._settings.shards):
            return self._state_of(wanted.name)
        if self._machine is not None:
            self._machine.check_name(wanted.name)
        if wanted.name not in self._wanted:
            self._wanted[wanted.name] = wanted, start, self._loop.create_future()
        waiting = self._wanted[wanted.name][2]
        done, _ = await asyncio.wait([waiting], timeout=ENROL_WAIT_S)
        if not done:
            raise ServerUnavailable(
                f"The process that launched {self._settings.destination} makes no actor for {wanted.name}.",
                hint="Is `canal-group serve` still running? The shard joins when it answers.",
            )
        outcome: dict[str, Any] | UsageError = await waiting
        if isinstance(outcome, UsageError):
            raise outcome
        return outcome

    def _state_of(self, name: str) -> dict[str, Any]:
        shards = self._machine.describe(now_us())["shards"] if self._machine is not None else []
        found: dict[str, Any] = next((shard for shard in shards if shard["shard"] == name), {"shard": name})
        return found

    async def roster(self) -> tuple[list[ShardSettings], list[str], list[str]]:
        """Return the shards that wait for an actor, the names of those that are known, and who is gone."""
        wanted = [shard for shard, _, _ in self._wanted.values()]
        gone = self._machine.gone if self._machine is not None else []
        return wanted, [shard.name for shard in self._settings.shards], gone

    async def enrol(self, shard: ShardSettings) -> None:
        """Take note that a shard has an actor; telling it again is harmless.

        Raises:
            UsageError: the machine refuses it; nothing was changed.
        """
        _, start, waiting = self._wanted.pop(shard.name, (shard, None, None))
        error = await self._enter(shard, start)
        if waiting is not None and not waiting.done():
            waiting.set_result(error or self._state_of(shard.name))
        if error is not None:
            raise error

    async def _enter(self, shard: ShardSettings, start: Position | None) -> UsageError | None:
        """Tell the machine of a shard, unless it is known; return why it is refused."""
        if any(known.name == shard.name for known in self._settings.shards):
            return None
        before = self._settings
        if self._machine is not None:
            self._shards.append((shard.name, self._actor_of(shard.name)))
        self._settings = before.model_copy(update={"shards": (*before.shards, shard)})
        if self._machine is None:
            return None
        try:
            # Whether we are active or not: what was appended here is the machine's shard, or is undone.
            await self._request(lambda call: ev.ShardAdded(call, shard.name, start, now_us()))
        except UsageError as error:
            self._shards.pop()
            self._settings = before
            return error
        return None

    async def remove_shard(self, name: str, *, now: bool) -> dict[str, Any]:
        """Let a shard leave when what it has committed by now is acknowledged, or at once.

        Returns:
            Its state; with `now`, after every cursor has let go of it, what is dropped.

        Raises:
            UsageError: there is no such shard, it is the only one, or it cannot be drained.
        """
        until_us = time.time_ns() // 1000
        state: dict[str, Any] = await self._ask(
            lambda call: ev.ShardRemoved(call, name, now, until_us, now_us())
        )
        _log.info("destination=%s shard=%s removed now=%s: %s", self._settings.destination, name, now, state)
        return state

    # ---- calls -----------------------------------------------------------------------------------------

    async def _ask(self, make: Callable[[int], ev.Event]) -> Any:
        """Hand a request to the machine and wait for its answer."""
        self._check_active()
        value = await self._request(make)
        self._check_active()
        return value

    def _request(self, make: Callable[[int], ev.Event]) -> asyncio.Future[Any]:
        """Hand a request to the machine; return what its answer will be."""
        call = next(self._calls)
        answer = self._answers[call] = self._loop.create_future()
        self._tell(make(call))
        return answer

    def _check_active(self) -> float:
        """Return for how many seconds this server may deliver.

        Raises:
            ServerUnavailable: it stands by, or somebody else was elected.
            CoordinatorUnavailable: somebody else may have been elected.
        """
        if self._machine is None or self._coordinator is None:
            raise self._standing_by()
        if self._fenced is not None:
            raise self._deposed(self._fenced)
        try:
            return self._coordinator.check_active()
        except FencedError as error:
            raise self._deposed(error) from error

    async def subscribe(
        self,
        client_id: str,
        holder: str,
        table_filter: str,
        session: str = "",
        resume: str | None = None,
    ) -> tuple[int, GroupPosition]:
        """Make `holder` the active consumer of a client id; return its epoch and cursor.

        Args:
            client_id: whose cursor to use.
            holder: the consumer, as others see it.
            table_filter: canal's regular expressions.
            session: the ZooKeeper session by which it keeps the running node itself; empty: we keep it.
            resume: where to go on if it was dropped: "cursor" or "now"; None: not said.

        Raises:
            ConsumerActive: another one is; nothing was changed.
            SubscriptionDropped: it was away for too long, and `resume` does not say where to go on.
        """
        where = None if resume is None else ev.Resume(resume)
        async with self._locks[client_id]:
            self._check_active()
            assert self._leases is not None
            if session:
                await self._let_go_consumer_gone(client_id, session)
            self._leases.want(client_id, holder, session)
            try:
                answer: tuple[int, GroupPosition] = await self._ask(
                    lambda call: ev.SubscribeRequested(call, client_id, holder, table_filter, now_us(), where)
                )
            finally:
                self._leases.want_no_more(client_id, holder)
        return answer

    async def _let_go_consumer_gone(self, client_id: str, session: str) -> None:
        """Release the last consumer at once if the node that it kept went to the one of `session`."""
        assert self._leases is not None
        gone = await self._leases.gone(client_id, session)
        if gone is not None:
            self._tell(ev.ReleaseRequested(next(self._calls), client_id, gone.epoch, now_us()))

    async def touch(self, client_id: str, epoch: int) -> None:
        """Keep the consumer's lease."""
        await self._ask(lambda call: ev.ConsumerTouched(call, client_id, epoch, now_us()))

    async def get(
        self, client_id: str, epoch: int, rows_max: int, timeout_s: float, seen_id: int | None
    ) -> Batch | None:
        """Deliver the next batch, waiting so long for one; None: there was none.

        What was delivered behind `seen_id`, the newest batch that the consumer has, is delivered again.
        """
        self._check_active()
        call = next(self._calls)
        answer = self._answers[call] = self._loop.create_future()
        self._tell(ev.GetRequested(call, client_id, epoch, rows_max, now_us(), seen_id))
        done, _ = await asyncio.wait([answer], timeout=timeout_s)
        if not done:
            self._tell(ev.GetTimedOut(call, client_id))
        batch: Batch | None = await answer
        self._check_active()
        return batch

    async def span(
        self, client_id: str, epoch: int, span: Span, *, may_rewind: bool, timeout_s: float
    ) -> Batch | None:
        """Deliver a span, waiting so long until it is there; None: it is not.

        Raises:
            RolledBack: it begins before the cursor, and may not rewind.
            PositionPurged: a source does not have it any more.
            DataError: it is not any more what it was.
        """
        self._check_active()
        call = next(self._calls)
        answer = self._answers[call] = self._loop.create_future()
        self._tell(ev.SpanRequested(call, client_id, epoch, span, may_rewind, now_us()))
        done, _ = await asyncio.wait([answer], timeout=timeout_s)
        if not done:
            self._tell(ev.GetTimedOut(call, client_id))
        batch: Batch | None = await answer
        self._check_active()
        return batch

    async def plan(self, client_id: str, epoch: int, batch_id: int) -> Batch:
        """Return an outstanding batch once more."""
        batch: Batch = await self._ask(
            lambda call: ev.PlanRequested(call, client_id, epoch, batch_id, now_us())
        )
        return batch

    async def confirm(self, client_id: str, epoch: int, batch_id: int) -> float:
        """Return for how many seconds the rows of an outstanding batch may leave; raises as `plan`."""
        await self.plan(client_id, epoch, batch_id)
        return self._check_active()

    async def standing(self, client_id: str) -> dict[str, Any] | None:
        """Return a client's state as `status` shows it, with every acknowledgement before this call in it.

        None: there is no such subscription.
        """
        self._check_active()
        async with self._locks[client_id]:
            self._check_active()
            assert self._machine is not None
            clients = self._machine.describe(now_us())["clients"]
        return next((client for client in clients if client["client_id"] == client_id), None)

    async def ack(self, client_id: str, epoch: int, batch_id: int) -> GroupPosition:
        """Acknowledge the oldest outstanding batch; return the cursor once it is durable."""
        async with self._locks[client_id]:
            cursor: GroupPosition = await self._ask(
                lambda call: ev.AckRequested(call, client_id, epoch, batch_id, now_us())
            )
        return cursor

    async def rollback(self, client_id: str, epoch: int, batch_id: int | None) -> int:
        """Take back a batch and every later one, or all; return how many."""
        async with self._locks[client_id]:
            count: int = await self._ask(
                lambda call: ev.RollbackRequested(call, client_id, epoch, batch_id, now_us())
            )
        return count

    async def unsubscribe(self, client_id: str, epoch: int) -> None:
        """Give up a subscription with its cursor."""
        async with self._locks[client_id]:
            await self._ask(lambda call: ev.UnsubscribeRequested(call, client_id, epoch, now_us()))

    async def release(self, client_id: str, epoch: int) -> None:
        """Let the consumer go; subscription and cursor stay."""
        async with self._locks[client_id]:
            await self._ask(lambda call: ev.ReleaseRequested(call, client_id, epoch, now_us()))

    async def status(self) -> dict[str, Any]:
        """Return the group's state as a JSON object.

        Runs on a loop of its own: while the group's is busy, the state of its last tick is returned.
        """
        fresh = asyncio.run_coroutine_threadsafe(self._publish(), self._loop)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(fresh), STATUS_WAIT_S)
        about = {"server": self._identity.address, "pid": os.getpid()}
        snapshot = self._snapshot
        return {**about, **(self._describe_standby() if snapshot is None else {"active": True, **snapshot})}

    def _describe_standby(self) -> dict[str, Any]:
        if self._coordinator is None:
            return {"active": False, "active_server": None, "stopped": None}
        mark = self._coordinator.stop_mark()
        return {
            "active": False,
            "active_server": self._coordinator.active_address() or None,
            "stopped": str(mark) if mark is not None else None,
        }

    async def _publish(self) -> None:
        if self._machine is not None:
            self._snapshot = self._machine.describe(now_us())

    async def close(self) -> None:
        """Give up activity in good order, for good."""
        epoch = self._epoch
        self._main.cancel()
        self._stand_down()
        if epoch and self._coordinator is not None and self._store is not None:
            await self._hand_over(epoch, self._coordinator, self._store)
        if self._store is not None:
            await asyncio.to_thread(self._store.close)
        if self._coordinator is not None:
            await asyncio.to_thread(self._coordinator.close)
