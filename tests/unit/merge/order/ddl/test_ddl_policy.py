"""The policy on DDL: what is kept of decisions, and who is waited for."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge.errors import ConfigError
from canal_group.merge.order.ddl.policy import DdlPolicy, Origin, withhold
from canal_group.merge.order.ddl.rounds import DdlRounds, Shards
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.header import HEADER, WHOLE, Flag
from canal_group.merge.values.member import Policy
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import Position

ADD = 7


def mark(source="s.t0", *, statement=ADD, op="ALTER", tables=1, table="s.t"):
    return DdlMark(statement, op, table, source, tables)


def shop(rule=DdlRule.FIRST, **settings):
    """Three shards with one table: each adds a column, one after another, and a row after that."""
    sources = [
        Source(
            Tx(100 * (shard + 1), ddl=True, mark=mark()), Tx(100 * (shard + 1) + 1), Tx(1000), server=shard
        )
        for shard in range(3)
    ]
    world = World.of(*sources, ddl=rule, **settings)
    world.subscribe()
    return world


def seen(batch):
    """Return (shard, whether withheld) of the statements in a batch."""
    first = batch.headers[batch.headers["gtid_number"] == 1]
    return [(int(each["shard"]), bool(each["flags"] & Flag.WITHHELD)) for each in first]


@pytest.mark.parametrize(
    ("rule", "withheld"), [(DdlRule.FIRST, [False, True, True]), (DdlRule.LAST, [True, True, False])]
)
def test_a_restart_between_the_first_and_the_last_changes_nothing(rule, withheld):
    world = shop(rule)
    world.report_all()
    found = []
    for epoch in range(2, 6):
        batch = world.get(rows_max=1)
        if batch is None:
            break
        found += seen(batch)
        world.ack(batch.batch_id)
        world.epoch = epoch
        world.restart()
        world.start()
        world.subscribe()
        world.report_all()
    assert found == list(enumerate(withheld))


def test_nothing_goes_out_before_its_decision_is_durable():
    """1. The write is under way. 2. It is refused, and repeated with a tick. 3. Its answer is lost."""
    world = shop()
    world.decides = False
    world.report_all()
    assert world.get() is None
    world.decide(refused=True)
    assert world.deciding is None
    world.tick(1000)
    world.decide(refused=True, arrives=True)
    assert world.get() is None
    assert world.group.describe(0)["ddl"]["headers_waiting_for_store"] == 9
    world.tick(1000)
    world.decide()
    assert seen(world.get()) == [(0, False), (1, True), (2, True)]


def test_an_offset_range_that_is_read_again_has_the_same_statements():
    world = shop()
    world.report_all()
    cursor = world.stored["c"].cursor
    first = world.offset_range(OffsetRange(cursor))
    end = first.end
    world.ack(first.batch_id)
    world.lose(0)
    world.open_all()
    world.report_all()
    again = world.offset_range(OffsetRange(cursor, end))
    if again is None:
        world.open_all()
        world.report_all()
        again = world.offset_range(OffsetRange(cursor, end))
    assert seen(again) == seen(first) == [(0, False), (1, True), (2, True)]
    assert again.end.sequence == first.end.sequence == 9, "a withheld statement keeps its ordinal"


def test_a_skipped_shard_is_not_waited_for_and_brings_nothing_twice():
    world = shop(DdlRule.LAST)
    world.policy("s2", Policy.SKIP)
    for shard in (0, 1):
        world.report(shard)
        world.report(shard, 0, 10**6)
    assert seen(world.get()) == [(0, True), (1, False)]
    world.policy("s2", Policy.RESUME)
    world.report_all()
    assert seen(world.get()) == [(2, True)]
    assert world.group.describe(0)["ddl"]["missed"] == 0


def test_a_statement_that_does_not_come_is_named():
    world = shop(DdlRule.LAST)
    for shard in (0, 2):
        world.report(shard)
        world.report(shard, 0, 10**6)
    world.report(1, 0, 10**6)
    world.report(1, 0, source_us=10**6)
    found = world.group.describe(0)["ddl"]
    (statement,) = found["statements"]
    assert found["waiting"] == 1
    assert statement == {
        "statement": f"{ADD:016x}",
        "op": "ALTER",
        "table": "s.t",
        "first_at": f"s0 bin.000001:4 {world.sources[0].names[-1]}:1",
        "since_us": 100,
        "has": {"s0": 1, "s2": 1},
        "waits_for": ["s1"],
    }


def test_a_round_that_a_shard_left_open_is_missed_and_counted():
    rounds = DdlRounds(DdlRule.LAST)
    three, two = Shards(["a", "b", "c"]), Shards(["a", "b"])
    assert not rounds.decide("a", mark(), three)
    assert not rounds.decide("b", mark(), three)
    assert not rounds.decide("a", mark(), two), "c left: the first round is complete, and was withheld"
    assert rounds.missed == 1
    assert rounds.decide("b", mark(), two)


def test_a_shard_without_the_table_is_not_waited_for():
    shards = Shards(["a", "b", "c"], tables={"a": {"s.t"}, "b": {"s.t"}, "c": {"s.other"}})
    rounds = DdlRounds(DdlRule.LAST)
    assert [rounds.decide(shard, mark(), shards) for shard in "ab"] == [False, True]
    assert rounds.to_json() == [], "and the round is forgotten"


def test_a_table_that_is_created_comes_before_its_rows_with_each_rule():
    for rule in (DdlRule.FIRST, DdlRule.LAST):
        shards = Shards(["a", "b"], tables={"a": {"s.t"}, "b": set()})
        rounds = DdlRounds(rule)
        assert [rounds.decide(shard, mark(op="CREATE"), shards) for shard in "ab"] == [True, False]


def test_the_last_table_that_is_dropped_is_the_last():
    rounds, shards = DdlRounds(DdlRule.LAST), Shards(["a", "b"])
    drops = [("a", "s.t0", 2), ("b", "s.t0", 2), ("b", "s.t1", 1), ("a", "s.t1", 1)]
    found = [
        rounds.decide(shard, mark(source, op="ERASE", tables=left), shards) for shard, source, left in drops
    ]
    assert found == [False, False, False, True]


def test_a_table_that_is_made_later_begins_with_the_next_round():
    """The first round of the shard that is cut off stays open."""
    rounds, shards = DdlRounds(DdlRule.LAST), Shards(["a", "b"], skipped=["b"])
    assert rounds.decide("a", mark("s.t0"), shards)
    assert not rounds.decide("a", mark("s.t0", tables=2), shards)
    assert rounds.decide("a", mark("s.t1", tables=2), shards)


def test_the_bound_forgets_what_is_delivered_first():
    rounds, shards = DdlRounds(DdlRule.LAST, sources_max=2), Shards(["a", "b"])
    for statement in (1, 2):
        assert not rounds.decide("a", mark(statement=statement), shards)
    assert not rounds.decide("a", mark(statement=3), shards)
    assert rounds.missed == 1, "the oldest was withheld, and is given up"
    assert [each["statement"][-1] for each in rounds.describe(shards)] == ["2", "3"]


# ---- positions ---------------------------------------------------------------------------------------------


UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SERVER, OTHER = "server-1", "server-2"
NAMES = ("bin.000001", "bin.000002", UUID)
START = Position("bin.000001", 4, server=SERVER, created_s=100)


def headers(*offsets, gtids=()):
    """Return headers of DDL at (file, begin_offset)."""
    found = np.zeros(len(offsets), dtype=HEADER)
    for each, (file, offset) in zip(found, offsets, strict=True):
        each["flags"], each["rows"], each["row_end"], each["bytes"] = WHOLE | Flag.DDL, 1, 1, 10
        each["file"], each["begin_offset"], each["end_offset"] = file, offset, offset + 10
        each["gtid_source"] = 2
    for each, number in zip(found, gtids, strict=False):
        each["gtid_number"] = number
    return found


def decide(policy, given, end, *, statements=None, server=SERVER, created=None, before=START):
    marks = {at: mark(statement=(statements or [ADD] * len(given))[at]) for at in range(len(given))}
    origins = [Origin("a", server, created or {"bin.000001": 100, "bin.000002": 200})]
    found = policy.decide(
        given, marks, NAMES, origins, Shards(["a", "b"]), lambda _shard: before, lambda _shard: end
    )
    return found.tolist()


def after(file, offset, gtids="", server=SERVER, created_s=100):
    return Position(NAMES[file], offset, parse_gtid_set(gtids), server=server, created_s=created_s)


def reloaded(policy):
    return DdlPolicy(policy.rounds.rule, json.loads(json.dumps(policy.to_text())))


def test_what_is_read_again_finds_its_decision():
    policy = DdlPolicy(DdlRule.LAST)
    assert decide(policy, headers((0, 50), (0, 90)), after(0, 100)) == [True, True]
    version = policy.version
    policy = reloaded(policy)
    assert decide(policy, headers((0, 90)), after(0, 100)) == [True]
    assert decide(policy, headers((0, 50), (0, 90)), after(0, 100)) == [True, True]
    assert policy.version == 0 < version, "nothing was decided anew"
    assert [count["a"]["s.t0"] for count in [each["times"] for each in policy.rounds.to_json()]] == [2]


def test_a_statement_before_the_beginning_is_delivered_and_not_counted():
    policy = DdlPolicy(DdlRule.LAST)
    assert decide(policy, headers((1, 90)), after(1, 100, created_s=200), before=after(1, 50)) == [True]
    assert decide(policy, headers((0, 90)), after(0, 100)) == [False]
    assert policy.version == 1


def test_another_server_knows_it_by_gtid():
    policy = DdlPolicy(DdlRule.FIRST)
    both = headers((0, 50), (0, 90), gtids=(1, 2))
    assert decide(policy, both, after(0, 100, f"{UUID}:1-2"), statements=[1, 1]) == [False, False]
    again = headers((1, 4), (1, 40), (1, 80), gtids=(1, 2, 3))
    found = decide(policy, again, after(1, 90, f"{UUID}:1-3", OTHER), statements=[1, 1, 2], server=OTHER)
    assert found == [False, False, False]
    assert policy.version == 2
    assert len(policy.rounds.to_json()) == 2


def test_a_source_that_was_reset_begins_anew():
    """Its files have the names of earlier ones, and other statements at their offsets."""
    policy = DdlPolicy(DdlRule.LAST)
    decide(policy, headers((1, 50)), after(1, 60, created_s=200))
    reset = {"bin.000001": 900}
    found = decide(
        policy,
        headers((0, 20)),
        after(0, 30, created_s=900),
        statements=[8],
        created=reset,
        before=after(0, 4, created_s=900),
    )
    assert found == [True]
    assert policy.version == 2, "it was decided, and not taken for one of before"


def test_delivered_statements_are_bounded_and_what_is_older_is_delivered():
    policy = DdlPolicy(DdlRule.FIRST, delivered_max=4)
    for number in range(6):
        given = headers((0, 100 * number + 50))
        assert decide(policy, given, after(0, 100 * number + 60), statements=[number]) == [False]
    assert len(policy._older | policy._newer) <= 4
    version = policy.version
    every = headers(*((0, 100 * number + 50) for number in range(6)))
    assert decide(policy, every, after(0, 560), statements=list(range(6))) == [False] * 6
    assert policy.version == version


def test_decisions_of_another_rule_are_not_used():
    policy = DdlPolicy(DdlRule.LAST)
    decide(policy, headers((0, 50)), after(0, 100))
    assert json.loads(DdlPolicy(DdlRule.FIRST, policy.to_text()).to_text())["decided"] == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version":2}', '{"version":1,"rule":"last","rounds":3}'])
def test_malformed_stored_decisions_are_refused_with_a_hint(text):
    with pytest.raises(ConfigError, match=r"decisions of merge\.ddl cannot be read"):
        DdlPolicy(DdlRule.LAST, text)


def test_a_withheld_header_has_no_rows_and_no_batch_of_its_own():
    given = headers((0, 50), (0, 90))
    withhold(given, np.array([True, False]))
    assert given["rows"].tolist() == [0, 1]
    assert given["row_end"].tolist() == [1, 1]
    assert [bool(flags & Flag.DDL) for flags in given["flags"]] == [False, True]
