"""A random walk of the group alone: what no shell does so often, with settings that the worlds lack.

Shards are lost, skipped, added and removed, sources purge, writes fail, consumers are silent, leave, are
taken over, and ask for earlier positions. Nothing is checked but what the machine asserts of itself.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from support.defaults import batch_limits
from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Get, OfConsumer, Plan, Release, Rollback, Touch, Unsubscribe
from canal_group.merge.calls.operators import SetClientAside
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import (
    CanalGroupError,
    CoordinatorUnavailable,
    CorruptEvent,
    PositionPurged,
    ShardUnavailable,
    UsageError,
)
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.order.dead_shard import WAIT, DeadShard
from canal_group.merge.values.commit_time import OF_THE_SERVER_READ, CommitTimes
from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.loss import Purged
from canal_group.merge.values.member import Policy
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition

CLIENTS = ("one", "two")
TRANSACTIONS, SHARDS_MAX, STEPS = 8, 3, 120
LEASE_US, DROP_US, SKIP_US = 2_000_000, 600_000, 900_000


def walk(seed: int) -> None:
    """Take a seed's steps.

    Raises:
        AssertionError: the machine contradicts itself.
    """
    one = Walk(seed)
    for _ in range(STEPS):
        one.step()


class Walk:
    """One group, and what happens to it.

    Args:
        seed: determines all of it.
    """

    def __init__(self, seed: int) -> None:
        chance = self._chance = Random(seed)
        sources = [self._source(shard) for shard in range(chance.randint(1, 2))]
        self._world = World.of(
            *sources,
            start=False,
            lease_us=LEASE_US,
            drop_after_us=chance.choice((DROP_US, DROP_US, None)),
            unacknowledged_us=chance.choice((DROP_US // 2, None)),
            dead_shard=chance.choice((WAIT, DeadShard("skip_after", SKIP_US))),
            apart_max_us=chance.choice((None, 20)),
            purged=chance.choice((Purged.FAIL, Purged.FAIL, *Purged)),
            ids_within_us=chance.choice((None, None, None, 20)),
            commit_times=chance.choice((OF_THE_SERVER_READ, CommitTimes("origin", 5))),
            ddl=chance.choice((DdlRule.EVERY, DdlRule.EVERY, *DdlRule)),
            limits=batch_limits(
                rows_max=4, outstanding_max=3, ddl_isolation=chance.random() < 0.5, ring_headers_max=6
            ),
            quiet_us=1,
        )
        self._world.forgets = self._world.decides = False
        self._world.ring_size = 6
        #: index of the oldest transaction that a source still has
        self._oldest = [0] * len(sources)
        #: positions of all shards at which somebody once was
        self._positions = [GroupPosition({f"s{shard}": each.start for shard, each in enumerate(sources)})]
        self._actions = (
            *(self._settle, self._settle, self._settle, self._open, self._report, self._lose, self._fail),
            *(self._purge, self._tick, self._tick, self._save, self._save, self._forget, self._decide),
            *(self._subscribe, self._subscribe, self._lease, self._fail_to_subscribe, self._get, self._get),
            *(self._get_range, self._get_range, self._ack, self._ack, self._rollback, self._release),
            *(
                self._unsubscribe,
                self._set_aside,
                self._time_out,
                self._operate,
                self._describe,
                self._restart,
            ),
        )
        self._world.start()

    def step(self) -> None:
        """Do one thing."""
        self._chance.choice(self._actions)()

    def _source(self, shard: int) -> Source:
        marks = (
            DdlMark(statement, op, "shop.t", f"shop_{shard}.t", self._chance.randint(0, 2))
            for statement, op in enumerate(("ALTER", "CREATE", "ERASE", "RENAME"), 1)
        )
        statements = ({"ddl": True, "mark": mark} for mark in marks)
        kinds = ({}, {}, {}, {}, {"rows": (2, 1)}, {"rows": (0,)}, {"ddl": True}, *statements)
        return Source(
            *(
                Tx(10 * number + shard, order_id=10 * number + shard, **self._chance.choice(kinds))
                for number in range(1, TRANSACTIONS + 1)
            ),
            server=shard,
        )

    def _settle(self) -> None:
        """Let everything that was begun succeed."""
        self._open()
        self._report()
        while self._world.leasing:
            self._world.lease()
        while self._world.saving:
            self._world.save()

    def _client(self) -> str:
        return self._chance.choice(CLIENTS)

    # ---- shards and sources ------------------------------------------------------------------------------

    @property
    def _open_shards(self) -> list[int]:
        members = range(len(self._world.group._stream.membership.members))
        return [shard for shard in members if shard not in self._world.opening]

    def _open(self) -> None:
        for shard, asked in list(self._world.opening.items()):
            source = self._world.sources[shard]
            if self._chance.random() < 0.1:
                error = ShardUnavailable("It does not answer yet.")
                self._world.tell(ev.ShardNotOpened(shard, asked.generation, error))
                continue
            if asked.position is None or source.index_after(asked.position) >= self._oldest_header(shard):
                self._world.open(shard)
                continue
            ends = {"earliest": source.ends[self._oldest[shard]], "latest": source.ends[-1]}
            told = {name: json.dumps(position.to_dict()) for name, position in ends.items()}
            error = PositionPurged("It is gone.", **told)
            self._world.tell(ev.ShardFailed(shard, asked.generation, error, self._world.now_us))

    def _oldest_header(self, shard: int) -> int:
        source, oldest = self._world.sources[shard], self._oldest[shard]
        return source.index_after(source.ends[oldest - 1]) if oldest else 0

    def _report(self) -> None:
        for shard in self._open_shards:
            ring = self._world.rings[shard]
            moved = self._world.report(shard, self._chance.randint(0, 4))
            if self._chance.random() < 0.1:
                tables = frozenset(self._chance.sample((f"shop_{shard}.t", f"shop_{shard}.u"), 1))
                now_us = self._world.now_us
                self._world.tell(ev.ShardReported(shard, ring.generation, None, None, now_us, tables=tables))
            low_us = ring.source.latest_low_watermark(ring.at)
            if self._chance.random() < 0.8:
                self._world.report(shard, 0, low_us, self._chance.choice((None, min(low_us, 100), 50)))
            elif not moved:
                self._world.full(shard)

    def _lose(self) -> None:
        for shard in self._open_shards[:1]:
            self._world.lose(shard)

    def _fail(self) -> None:
        """Let a shard stop at its data, or at what its source has purged, after it brought something."""
        for shard in self._open_shards[-1:]:
            error = self._chance.choice((CorruptEvent("It is damaged."), PositionPurged("It is gone.")))
            generation = self._world.rings[shard].generation
            self._world.tell(ev.ShardFailed(shard, generation, error, self._world.now_us))

    def _purge(self) -> None:
        shard = self._chance.randrange(len(self._oldest))
        self._oldest[shard] = min(self._oldest[shard] + 1, TRANSACTIONS - 1)

    def _operate(self) -> None:
        world, chance = self._world, self._chance
        names = [member.name for member in world.group._stream.membership.members]
        try:
            match chance.randrange(5):
                case 0 | 1:
                    world.policy(chance.choice(names), chance.choice(list(Policy)))
                case 2 if len(world.sources) < SHARDS_MAX and len(names) == len(world.sources):
                    self._oldest.append(0)
                    world.add(self._source(len(world.sources)), chance.choice((None, world.sources[0].start)))
                case 3:
                    gone = world.group._stream.membership.orphans
                    name = chance.choice((*names, *gone, *gone))
                    world.remove(name, now=chance.random() < 0.6, until_us=chance.choice((0, 50)))
                case _:
                    world.policy(chance.choice(names), Policy.RESUME)
        except CanalGroupError:
            pass  # it is refused

    def _restart(self) -> None:
        """Elect another server; its settings may lack a shard that the cursors have."""
        world = self._world
        if self._chance.random() < 0.7:
            return
        if len(world.sources) > 1 and self._chance.random() < 0.3:
            world.settings = type(world.settings)(
                **{name: getattr(world.settings, name) for name in world.settings.__slots__}
                | {"shards": world.settings.shards[:-1]}
            )
            world.sources.pop()
            self._oldest.pop()
        world.epoch += 1
        world.restart()
        world.start()

    # ---- the stores --------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._world.saving:
            error = self._chance.choice((None, None, CoordinatorUnavailable("away"), UsageError("no")))
            self._world.save(error, arrives=isinstance(error, CoordinatorUnavailable))

    def _forget(self) -> None:
        if self._world.forgetting:
            self._world.forget(self._chance.choice((None, CoordinatorUnavailable("away"))))

    def _decide(self) -> None:
        if self._world.deciding is not None:
            self._world.decide(refused=self._chance.random() < 0.3)

    # ---- consumers ---------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        chance, ends = self._chance, None
        if chance.random() < 0.2:
            ends = {f"s{shard}": source.ends[-1] for shard, source in enumerate(self._world.sources)}
        self._world.request_subscribe(
            self._client(),
            chance.choice("xxxy"),
            chance.choice((None, *Resume)),
            may_disturb=chance.random() < 0.7,
            start=chance.choice((None, None, *self._positions)),
            move=chance.random() < 0.5,
            table_filter=chance.choice(("", "shop.t")),
            ends=ends,
            keep=chance.random() < 0.2,
            look=chance.random() < 0.2,
        )

    def _lease(self) -> None:
        if not self._world.leasing:
            return
        if self._chance.random() < 0.8:
            self._world.lease()
        else:
            asked = self._world.leasing.pop(0)
            self._world.tell(ev.LeaseFailed(asked.number, asked.client_id, CoordinatorUnavailable("away")))

    def _fail_to_subscribe(self) -> None:
        """Let a subscription be refused that a consumer repeats which has just moved to another position."""
        client = self._client()
        self._world.request_range(OffsetRange(self._chance.choice(self._positions)), client)
        self._world.request_subscribe(client, "x")
        while self._world.leasing:
            self._world.lease()
        while self._world.saving:
            self._world.save(UsageError("no"))

    def _get(self) -> None:
        client, world = self._client(), self._world
        found = world.group._subscribers.find(client)
        seen = found.delivery.ledger.next_id - 1 if found is not None else 0
        seen_id = self._chance.choice((None, seen, seen, seen - 1))
        epoch, rows_max = world.epochs.get(client, 0), self._chance.randint(1, 3)
        world.tell(ev.Asked(world.call(), Get(client, epoch, rows_max, 0.0, seen_id), world.now_us))

    def _get_range(self) -> None:
        chance = self._chance
        start, until = chance.choice(self._positions), chance.choice((None, None, *self._positions))
        offset_range = OffsetRange(
            start,
            until,
            rows_max=chance.randint(1, 9),
            rows_min=chance.choice((0, 0, 3)),
            key_us_max=chance.choice((None, None, 50)) if until is None else None,
            may_be_empty=until is None and chance.random() < 0.5,
        )
        self._world.request_range(
            offset_range, self._client(), may_rewind=chance.random() < 0.8, may_disturb=chance.random() < 0.7
        )

    def _ack(self) -> None:
        found = self._world.group._subscribers.find(self._client())
        if found is None or found.cursor is None:
            return
        outstanding = found.delivery.ledger.outstanding
        self._positions = [*self._positions[-6:], found.cursor, *(batch.end for batch in outstanding[-1:])]
        batch_ids = [batch.batch_id for batch in outstanding[:2]] + [found.delivery.ledger.next_id]
        world, batch_id = self._world, self._chance.choice((batch_ids[0], *batch_ids))
        world.request_ack(batch_id, found.client_id)
        epoch = world.epochs.get(found.client_id, 0)
        world.tell(ev.Asked(world.call(), Plan(found.client_id, epoch, batch_id), world.now_us))

    def _rollback(self) -> None:
        self._tell(Rollback)

    def _release(self) -> None:
        self._tell(Release)

    def _unsubscribe(self) -> None:
        if self._chance.random() < 0.5:
            self._tell(Unsubscribe)

    def _set_aside(self) -> None:
        if self._chance.random() < 0.3:
            world = self._world
            world.tell(ev.Asked(world.call(), SetClientAside(self._client()), world.now_us))

    def _tell(self, kind: type[OfConsumer[Any]]) -> None:
        client, world = self._client(), self._world
        world.tell(ev.Asked(world.call(), kind(client, world.epochs.get(client, 0)), world.now_us))

    # ---- time --------------------------------------------------------------------------------------------

    def _time_out(self) -> None:
        found = self._world.group._subscribers.find(self._client())
        for call in list(found.delivery.waiting) if found is not None else ():
            self._world.tell(ev.GetTimedOut(call, found.client_id))

    def _tick(self) -> None:
        if self._chance.random() < 0.5:
            self._tell(Touch)
        reachable = self._chance.random() < 0.9
        self._world.tick(self._chance.choice((1, 1, DROP_US, LEASE_US + 1)), reachable=reachable)

    def _describe(self) -> None:
        group, source = self._world.group, self._chance.choice(self._world.sources)
        group.describe(self._world.now_us)
        number = self._chance.randint(1, TRANSACTIONS)
        group.trace(f"{source.names[-1]}:{number}", {})
        members = group._stream.membership.members
        assert set(group.gone).isdisjoint(member.name for member in members if member.counted)
