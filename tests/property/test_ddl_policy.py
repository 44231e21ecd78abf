"""The policy on DDL in a group: what is lost, read again or restarted changes no decision."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st
from support.group.builders import Source, Tx, World

from canal_group.merge.errors import CanalGroupError, RolledBack
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.header import Flag

SHARDS, TABLES, CLIENTS = 3, 2, ("c", "d")
SCRIPT = (7, 8, 7)
SOURCES = [(shard, table) for shard in range(SHARDS) for table in range(TABLES)]
#: (source, whether it has its next statement, or else a row), in the order of the commits
ORDERS = st.lists(st.tuples(st.sampled_from(SOURCES), st.booleans()), min_size=1, max_size=24)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("report"), st.integers(0, SHARDS - 1), st.integers(1, 4)),
        st.tuples(st.sampled_from(["get", "ack", "roll back"]), st.sampled_from(CLIENTS)),
        st.tuples(st.just("consume"), st.sampled_from([CLIENTS, CLIENTS, CLIENTS[:1]]), st.integers(1, 4)),
        st.tuples(st.sampled_from(["hold writes", "decide", "refuse", "lose answer", "restart", "tick"])),
        st.just(("report all",)),
        st.tuples(st.just("lose"), st.integers(0, SHARDS - 1)),
    ),
    max_size=40,
)


class Case:
    """A group and what its clients have received."""

    def __init__(self, order, rule):
        self.delivered = set()
        steps, transactions, rounds = Counter(), [[] for _ in range(SHARDS)], defaultdict(list)
        for number, ((shard, table), is_ddl) in enumerate(order):
            step = steps[shard, table]
            mark = None
            if is_ddl and step < len(SCRIPT):
                steps[shard, table] += 1
                statement = SCRIPT[step]
                mark = DdlMark(statement, "ALTER", "s.t", f"s.t{table}", TABLES)
                rounds[statement, SCRIPT[: step + 1].count(statement)].append(
                    (shard, len(transactions[shard]))
                )
            transactions[shard].append(Tx(1000 * (number + 1), ddl=mark is not None, mark=mark))
            # Batches end at rows.
            transactions[shard].append(Tx(1000 * (number + 1) + 1))
        for each in transactions:
            # A header without rows waits for one that has some.
            each.append(Tx(1_000_000))
        #: (shard, number of the transaction)
        self.ddls = {each for times in rounds.values() for each in times}
        if rule is DdlRule.FIRST:
            self.expected = {times[0] for times in rounds.values()}
        else:
            self.expected = {times[-1] for times in rounds.values() if len(times) == len(SOURCES)}
        self.world = World.of(
            *(Source(*each, server=shard) for shard, each in enumerate(transactions)), ddl=rule
        )
        for client in CLIENTS:
            self.world.subscribe(client)
        self.outstanding = {client: [] for client in CLIENTS}
        self.seen = {client: set() for client in CLIENTS}

    def get(self, client):
        world = self.world
        try:
            batch = world.get(client, 2)
        except RolledBack:
            self.outstanding[client].clear()
            return False
        if batch is None:
            return False
        self.outstanding[client].append(batch.batch_id)
        for header in batch.headers:
            key = int(header["shard"]), int(header["gtid_number"]) - 1
            flags = int(header["flags"])
            if key in self.ddls:
                withheld = key not in self.expected
                assert bool(flags & Flag.WITHHELD) == withheld == (not header["rows"]), "as the model says"
                assert bool(flags & Flag.DDL) != withheld
                self.seen[client].add(key)
            else:
                assert not flags & Flag.WITHHELD
        return True

    def run(self, step):  # noqa: C901, PLR0912 - one case a step
        world = self.world
        match step:
            case ("report", shard, count):
                if shard not in world.opening:
                    world.report(shard, count)
                    if world.rings[shard].at == len(world.sources[shard].headers):
                        world.report(shard, 0, 10**9)
            case ("report all",):
                for shard in range(SHARDS):
                    self.run(("report", shard, 1000))
            case ("consume", clients, count):
                for client in clients:
                    for _ in range(count):
                        self.get(client)
                        self.run(("ack", client))
            case ("hold writes",):
                world.decides = False
            case ("get", client):
                self.get(client)
            case ("ack", client) if self.outstanding[client]:
                try:
                    world.ack(self.outstanding[client].pop(0), client)
                except RolledBack:
                    self.outstanding[client].clear()
            case ("roll back", client):
                self.outstanding[client].clear()
                with contextlib.suppress(CanalGroupError):
                    world.rollback(None, client)
            case ("decide" | "refuse" | "lose answer" as how,) if world.deciding is not None:
                world.decides = how == "decide"
                world.decide(refused=how != "decide", arrives=how == "lose answer")
            case ("lose", shard) if not world.opening:
                world.lose(shard)
                world.open_all()
            case ("restart",):
                self.restart()
            case ("tick",):
                world.tick(1000)

    def restart(self):
        world = self.world
        world.epoch += 1
        world.restart()
        world.start()
        world.open_all()
        for client in CLIENTS:
            world.request_subscribe(client)
            world.lease()
            world.open_all()
            world.save()
            self.outstanding[client].clear()

    def settle(self):
        self.world.tick(1000)
        self.world.decides = True
        if self.world.deciding is not None:
            self.world.decide()
        for shard in range(SHARDS):
            self.run(("report", shard, 1000))
        for client in CLIENTS:
            tries = 0
            while self.get(client) or tries == 0:
                tries += 1 if not self.outstanding[client] else 0
                if self.outstanding[client]:
                    self.run(("ack", client))


@given(ORDERS, st.sampled_from([DdlRule.FIRST, DdlRule.LAST]), STEPS)
def test_every_client_sees_the_same_statements(order, rule, steps):
    case = Case(order, rule)
    for step in steps:
        case.run(step)
    case.settle()
    for client in CLIENTS:
        assert case.seen[client] == case.ddls, "each header comes, delivered or withheld"
    ddl = case.world.group.describe(0)["ddl"]
    assert ddl["missed"] == 0
    assert ddl["headers_waiting_for_store"] == 0
