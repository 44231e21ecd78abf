"""The group actor's own fence: nothing is heard, and nothing answered, unless it can know that it is active.

The actor's class on a loop of the test's, with a real shard that reads recorded files. Its tick, which would
notice too, is put off: what is tested is the moment before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import shutil
import threading

import pytest

from canal_group.actors.coordination.local import LocalCoordinator
from canal_group.actors.group import wiring
from canal_group.actors.group.active_group import TICK_LATE_US
from canal_group.actors.group.group import GroupActor
from canal_group.actors.group.stored.document import DDL_DECISIONS
from canal_group.actors.meta.memory import MemoryStore
from canal_group.actors.ports import Subscription
from canal_group.actors.process.log import ActorLog, LogLevel
from canal_group.actors.shard import channel as shard_channel
from canal_group.actors.shard import shard as shard_module
from canal_group.actors.shard.shard import Shard
from canal_group.actors.shard.wiring import shard_wiring
from canal_group.actors.transport.rpc_wire import LOOPBACK
from canal_group.conf.load import build_instance
from canal_group.merge.calls.consumers import (
    Ack,
    Confirm,
    Get,
    GetRange,
    LeaseState,
    Plan,
    Release,
    Rollback,
    SubscribeAt,
    Touch,
    Unsubscribe,
)
from canal_group.merge.calls.operators import AddShard, ChooseType, GivePolicy, RemoveShard
from canal_group.merge.errors import CoordinatorUnavailable, ServerUnavailable, UsageError
from canal_group.merge.values.member import Policy
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.programs.demo.recorded_shards import recorded_shards

DEADLINE_S = 20.0
CLIENT = "reader"


class UntouchedLog(ActorLog):
    """The log of an actor in the tests' process, which stays as it is."""

    def set_up(self) -> None:
        pass


LOG = UntouchedLog(LogLevel.INFO, "shop")


class Doubtful(LocalCoordinator):
    """A coordinator that may be cut off."""

    cut_off = False
    left_s = 1.5

    def check_active(self) -> float:
        if self.cut_off:
            raise CoordinatorUnavailable("No answer for too long.")
        return min(super().check_active(), self.left_s)


class Standby(LocalCoordinator):
    """A coordinator of a server that is not elected; it tells when it was asked twice whether it is."""

    def __init__(self, destination: str) -> None:
        super().__init__(destination)
        self._closed = threading.Event()
        self._count = 0
        self.asked_twice = asyncio.Event()

    def campaign(self) -> int:
        self._closed.wait(DEADLINE_S)
        return 1

    def check_active(self) -> float:
        self._count += 1
        if self._count > 1:
            self.asked_twice.set()
        return 1.0

    def close(self) -> None:
        self._closed.set()
        super().close()


class Handle:
    """An actor's handle, without Ray: each call runs on a thread."""

    def __init__(self, actor: object, method: str = "") -> None:
        self._actor, self._method = actor, method

    def __getattr__(self, method: str) -> Handle:
        return Handle(self._actor, method)

    def options(self, **_: object) -> Handle:
        return self

    def remote(self, *arguments: object) -> asyncio.Future[object]:
        run = asyncio.to_thread(getattr(self._actor, self._method), *arguments)
        return asyncio.ensure_future(run)


async def subscribed(actor):
    while True:
        with contextlib.suppress(ServerUnavailable):
            return await actor.answer(SubscribeAt(CLIENT, "me", ""))
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def serving(folder, monkeypatch):
    """Run an active group actor with a consumer; yield it, its coordinator and the consumer's epoch."""
    for file in recorded_shards()[0].folder.glob("mysql-bin.*"):
        shutil.copy(file, folder)
    settings = build_instance(
        {
            "preset": "memory",
            "destination": "shop",
            "shards": [{"name": "s0", "files": str(folder)}],
            "start": "earliest",
        }
    )
    coordinator = Doubtful("shop")
    shard = Shard(shard_wiring(settings, settings.shards[0]))
    monkeypatch.setattr(shard_channel.ray, "get_actor", lambda _: Handle(shard))
    monkeypatch.setattr(wiring, "coordinator", lambda *_: coordinator)
    monkeypatch.setattr(shard_module, "node_host", lambda: LOOPBACK)
    actor = object.__new__(GroupActor)
    await actor.__init__(settings, wiring.ServerIdentity("here:1", "me", ""), "shard/", LOG, tick_s=3600.0)
    try:
        async with asyncio.timeout(DEADLINE_S):
            epoch, _ = await subscribed(actor)
        yield actor, coordinator, epoch
    finally:
        coordinator.cut_off = False
        await actor.close()
        shard.close(1 << 40)


def run(folder, monkeypatch, story):
    async def live():
        async with serving(folder, monkeypatch) as served:
            await story(*served)

    asyncio.run(live())


def test_no_lease_expires_while_the_process_stands_still(tmp_path, monkeypatch):
    """1. the process stands still for longer than a lease: the consumer keeps it; 2. ticks are in time again,
    and the consumer is silent: it loses it.
    """

    async def story(actor, _coordinator, _epoch):
        group = actor._candidate.group
        begun_us, lease_us = group._host.now_us(), 10_000_000
        in_time = [TICK_LATE_US] * (lease_us // TICK_LATE_US + 1)
        holders = []
        for since_us in itertools.accumulate([2 * lease_us, *in_time]):
            monkeypatch.setattr(group._host, "now_us", lambda now_us=begun_us + since_us: now_us)
            group.tick(reachable=True)
            holders.append(group.machine.describe(0)["clients"][0]["holder"])
        assert holders == ["me"] * len(in_time) + [None]

    run(tmp_path, monkeypatch, story)


def test_a_server_unsure_of_being_active_refuses_a_call(tmp_path, monkeypatch):
    """1. a batch is outstanding; 2. the coordinator is cut off: no call is heard, and none changes anything;
    3. it is back: the batch is still the one to acknowledge.
    """

    async def story(actor, coordinator, epoch):
        batch = await actor.answer(Get(CLIENT, epoch, 5, DEADLINE_S, None))
        assert await actor.answer(Confirm(CLIENT, epoch, batch.batch_id)) == 1.5, (
            "as long as the tenure lasts"
        )
        coordinator.cut_off = True
        machine = actor._candidate.group.machine
        before = machine.describe(0)["clients"]
        who = CLIENT, epoch
        for call in (
            Get(*who, 5, 0, batch.batch_id),
            Ack(*who, batch.batch_id),
            Rollback(*who),
            Plan(*who, batch.batch_id),
            Confirm(*who, batch.batch_id),
            LeaseState(CLIENT),
            Touch(*who),
            Release(*who),
            Unsubscribe(*who),
            SubscribeAt(CLIENT, "other", ""),
            GivePolicy("s0", Policy.HOLD),
            RemoveShard("s0", now=True),
            AddShard({"name": "s1", "files": str(tmp_path)}),
        ):
            with pytest.raises(CoordinatorUnavailable):
                await actor.answer(call)
        assert machine.describe(0)["clients"] == before
        coordinator.cut_off = False
        await actor.answer(Ack(*who, batch.batch_id))

    run(tmp_path, monkeypatch, story)


@pytest.mark.parametrize("timeout_s", [math.nan, math.inf, -1, 31])
def test_an_invalid_timeout_is_refused(tmp_path, monkeypatch, timeout_s):
    """A timer of NaN would stop every later one of the loop: all are tried after it."""

    async def story(actor, coordinator, epoch):
        machine = actor._candidate.group.machine
        before = machine.describe(0)["clients"]
        for call in (
            Get(CLIENT, epoch, 5, timeout_s),
            GetRange(CLIENT, epoch, OffsetRange(GroupPosition()), timeout_s),
        ):
            with pytest.raises(UsageError, match="not a number of seconds from 0"):
                await actor.answer(call)
        assert machine.describe(0)["clients"] == before
        assert await actor.answer(Get(CLIENT, epoch, 5, DEADLINE_S, None))

    run(tmp_path, monkeypatch, story)


def test_a_call_is_not_answered_by_a_server_that_was_cut_off_meanwhile(tmp_path, monkeypatch):
    """1. everything is read, and a get waits for more; 2. the coordinator is cut off; 3. the get's answer
    comes: it is refused. 4. So is an acknowledgement whose write took until then; it counts all the same.
    """

    async def story(actor, coordinator, epoch):
        who = CLIENT, epoch
        first = await actor.answer(Get(*who, 5, DEADLINE_S, None))
        store = actor._candidate._store
        put = store.put

        def slow(*value, **options):
            put(*value, **options)
            coordinator.cut_off = True

        monkeypatch.setattr(store, "put", slow)
        with pytest.raises((CoordinatorUnavailable, ServerUnavailable)):
            await actor.answer(Ack(*who, first.batch_id))
        monkeypatch.setattr(store, "put", put)
        coordinator.cut_off = False
        assert (await actor.answer(LeaseState(CLIENT)))["outstanding"] == []
        while (batch := await actor.answer(Get(*who, 100_000, 0.2, None))) is not None:
            await actor.answer(Ack(*who, batch.batch_id))
        waiting = asyncio.ensure_future(actor.answer(Get(*who, 5, DEADLINE_S, None)))
        await asyncio.sleep(0)
        coordinator.cut_off = True
        group = actor._candidate.group
        group._reply(max(group._answers), "a batch")
        with pytest.raises(ServerUnavailable, match="not the active one"):
            await waiting

    run(tmp_path, monkeypatch, story)


def test_what_operators_change_is_logged_and_a_new_shards_secrets_are_not(tmp_path, monkeypatch, caplog):
    async def story(actor, coordinator, epoch):
        async def want(*_):
            return {"role": "joining"}

        monkeypatch.setattr(actor._registration, "want", want)
        add = AddShard({"name": "s1", "host": "db", "user": "u", "password": "s3cret"})
        assert "s3cret" not in repr(add)
        with caplog.at_level("DEBUG"):
            await actor.answer(add)
            await actor.answer(GivePolicy("s0", Policy.HOLD))
            await actor.answer(ChooseType("shop.orders", "id", "text"))

    run(tmp_path, monkeypatch, story)
    assert "policy=hold" in caplog.text
    assert "table=shop.orders column=id type=text" in caplog.text
    assert "s3cret" not in caplog.text


def test_calls_wait_until_the_ddl_decisions_were_read(tmp_path, monkeypatch):
    """1. the server is elected and reads what was decided before; 2. a consumer comes: it has to wait."""
    reads, read_on = threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def get(self, key, epoch):
            if key == DDL_DECISIONS:
                reads.set()
                assert read_on.wait(DEADLINE_S)
            return super().get(key, epoch)

    async def story():
        settings = build_instance(
            {
                "preset": "memory",
                "destination": "shop",
                "shards": [{"name": "s0", "files": str(tmp_path)}],
                "merge": {"ddl": "first"},
            }
        )
        actor = object.__new__(GroupActor)
        await actor.__init__(settings, wiring.ServerIdentity("here:1", "me", ""), "shard/", LOG)
        assert await asyncio.to_thread(reads.wait, DEADLINE_S)
        with pytest.raises(ServerUnavailable):
            async with asyncio.timeout(DEADLINE_S):
                await actor.answer(SubscribeAt(CLIENT, "me", ""))
        closing = asyncio.ensure_future(actor.close())
        await asyncio.sleep(0)
        read_on.set()
        await closing

    monkeypatch.setattr(wiring, "coordinator", lambda *_: LocalCoordinator("shop"))
    monkeypatch.setattr(wiring, "store", lambda *_: Slow())
    monkeypatch.setattr(shard_channel.ray, "get_actor", lambda _: object())
    asyncio.run(story())


def test_a_new_process_waits_to_hear_of_shards_that_joined_before_it(tmp_path, monkeypatch):
    """1. cursors hold a shard that joined, and it has an actor: nothing begins without it; 2. the driver
    tells of it: it goes on. A shard without an actor is nobody that could be waited for.
    """

    def actor_of_s1(name):
        if name != "shard/s1":
            raise ValueError(name)
        return object()

    def definition(name):
        return {"name": name, "files": str(tmp_path / name)}

    def settings(*names):
        shards = [definition(name) for name in names]
        return build_instance({"preset": "memory", "destination": "shop", "shards": shards})

    def cursors(*names):
        positions = {name: Position("mysql-bin.000001", 4) for name in names}
        return [Subscription(CLIENT, "", GroupPosition(positions, 0))]

    async def story():
        actor = object.__new__(GroupActor)
        await actor.__init__(
            settings("s0"), wiring.ServerIdentity("here:1", "me", ""), "shard/", LOG, tick_s=0.01
        )
        async with asyncio.timeout(DEADLINE_S):
            await actor._candidate._hear_of_shards(cursors("s0", "s9"), coordinator)
        waiting = asyncio.ensure_future(actor._candidate._hear_of_shards(cursors("s0", "s1"), coordinator))
        async with asyncio.timeout(DEADLINE_S):
            await coordinator.asked_twice.wait()
        assert not waiting.done()
        await actor.register(settings("s0", "s1").shards[1])
        async with asyncio.timeout(DEADLINE_S):
            await waiting
        assert actor._registration.names == ["s0", "s1"]
        await actor.close()

    coordinator = Standby("shop")
    monkeypatch.setattr(shard_channel.ray, "get_actor", actor_of_s1)
    monkeypatch.setattr(wiring, "coordinator", lambda *_: coordinator)
    asyncio.run(story())
