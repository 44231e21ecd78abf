"""DDL rounds against a model that knows the whole order."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from canal_group.merge.order.ddl.rounds import DdlRounds, Shards
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.values.ddl_mark import DdlMark

#: statements in the order in which each table has them: the first one comes again
SCRIPT = (7, 8, 7, 9, 7)
SHARDS = ("a", "b", "c")
#: tables of each shard with the one name
TABLES = {"a": 1, "b": 2, "c": 3}
SOURCES = [(shard, f"{shard}.t{table}") for shard in SHARDS for table in range(TABLES[shard])]
#: which source has its next statement
ORDERS = st.lists(st.sampled_from(SOURCES), max_size=40)


def times_of(order):
    """Return (source, statement, round) of each time; a source that is through has nothing more."""
    index, rounds, found = Counter(), Counter(), []
    for source in order:
        if index[source] < len(SCRIPT):
            statement = SCRIPT[index[source]]
            index[source] += 1
            rounds[source, statement] += 1
            found.append((source, statement, rounds[source, statement]))
    return found


def model(times, rule):
    """Return which times are delivered: of each round the first, or the last if every source has had it."""
    indexes = defaultdict(list)
    for index, (_, statement, number) in enumerate(times):
        indexes[statement, number].append(index)
    if rule is DdlRule.FIRST:
        return {each[0] for each in indexes.values()}
    return {each[-1] for each in indexes.values() if len(each) == len(SOURCES)}


@given(ORDERS, st.sampled_from([DdlRule.FIRST, DdlRule.LAST]), st.booleans(), st.integers(0, 40))
def test_each_round_is_delivered_once_and_where_the_rule_says(order, rule, known, stored_at):
    """Whether the first rule knows how many tables there are does not matter, nor a restart in between."""
    times, shards, found = times_of(order), Shards(SHARDS), set()
    rounds = DdlRounds(rule)
    for index, ((shard, source), statement, _) in enumerate(times):
        if index == stored_at:
            value = json.loads(json.dumps(rounds.to_json()))
            rounds = DdlRounds(rule)
            rounds.load_json(value)
        count = TABLES[shard] if known or rule is DdlRule.LAST else 0
        if rounds.decide(shard, DdlMark(statement, "ALTER", "s.t", source, count), shards):
            found.add(index)
    assert found == model(times, rule)
    assert rounds.missed == 0
    begun = {each[1:] for each in times}
    waiting = len({statement for statement, _ in begun if rule is DdlRule.LAST} & set(pending(times)))
    assert rounds.withheld == waiting == len(rounds.describe(shards))
    whole = len(times) == len(SOURCES) * len(SCRIPT)
    assert not whole or not (known or rule is DdlRule.LAST) or rounds.to_json() == []


def pending(times):
    """Return the statements that some source has had more often than another."""
    counts = Counter((source, statement) for source, statement, _ in times)
    return [
        statement
        for statement in set(SCRIPT)
        if max(counts[source, statement] for source in SOURCES)
        > min(counts[source, statement] for source in SOURCES)
    ]
