"""GTID sets against naive models: a Python set of (source, number), and a dict of domains."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from canal_group.merge.values.gtids.gtid import NO_GTIDS, MySqlGtidSet, parse_gtid_set

UUIDS = ["3e11fa47-71ca-11e1-9e33-c80aa9429562", "9b3c7f20-0001-11ee-8000-0242ac120002"]
SOURCES = [*UUIDS, f"{UUIDS[0]}:a", f"{UUIDS[0]}:b", f"{UUIDS[1]}:a"]

transactions = st.frozensets(st.tuples(st.sampled_from(SOURCES), st.integers(1, 30)), max_size=40)
domains = st.dictionaries(
    st.integers(0, 4), st.tuples(st.integers(1, 3), st.integers(1, 2**63 - 2)), max_size=4
)


def mysql(model):
    """The set of a model of (source, number), each source added at once."""
    result = NO_GTIDS
    for source in {source for source, _ in model}:
        result = result.add(source, [number for one, number in model if one == source])
    return result


def mariadb(model):
    result = NO_GTIDS
    for domain, (server, sequence) in model.items():
        result = result.add(f"{domain}-{server}", [sequence])
    return result


def members(gtids):
    """What a set's fields say, spelled out."""
    return {
        (f"{uuid}:{tag}" if tag else uuid, number)
        for (uuid, tag), intervals in getattr(gtids, "runs", ())
        for begin, end in intervals
        for number in range(begin, end)
    }


@given(transactions)
def test_mysql_holds_what_was_added_in_canonical_form(model):
    gtids = mysql(model)
    assert members(gtids) == model
    assert bool(gtids) == bool(model)
    for source, intervals in gtids.runs if isinstance(gtids, MySqlGtidSet) else ():
        assert intervals, source
        assert all(begin < end for begin, end in intervals)
        assert all(one[1] < two[0] for one, two in pairwise(intervals))


@given(transactions)
def test_mysql_text_comes_back(model):
    gtids = mysql(model)
    assert parse_gtid_set(str(gtids)) == gtids
    assert str(parse_gtid_set(str(gtids))) == str(gtids)


@given(domains)
def test_mariadb_text_comes_back(model):
    gtids = mariadb(model)
    assert parse_gtid_set(str(gtids)) == gtids
    assert bool(gtids) == bool(model)


@given(st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(1, 20)), max_size=25).flatmap(
    lambda added: st.tuples(st.just(added), st.permutations(added))
))  # fmt: skip
def test_mysql_add_does_not_depend_on_order(two_orders):
    one, two = NO_GTIDS, NO_GTIDS
    for source, number in two_orders[0]:
        one = one.add(source, [number])
    for source, number in two_orders[1]:
        two = two.add(source, [number])
    assert one == two == mysql(frozenset(two_orders[0]))


@given(transactions, transactions)
def test_mysql_union_and_contains_are_those_of_sets(one, two):
    assert members(mysql(one).union(mysql(two))) == one | two
    assert mysql(one).contains(mysql(two)) == (one >= two)
    assert mysql(one | two).contains(mysql(two))


@given(transactions, transactions, transactions)
def test_mysql_union_laws(one, two, three):
    a, b, c = mysql(one), mysql(two), mysql(three)
    assert a.union(b) == b.union(a)
    assert a.union(b).union(c) == a.union(b.union(c))
    assert a.union(a) == a
    assert a.union(NO_GTIDS) == a == NO_GTIDS.union(a)


@given(domains, domains, domains)
def test_mariadb_union_laws(one, two, three):
    a, b, c = mariadb(one), mariadb(two), mariadb(three)
    assert a.union(b) == b.union(a)
    assert a.union(b).union(c) == a.union(b.union(c))
    assert a.union(a) == a
    assert a.union(b).contains(a)
    assert a.union(b).contains(b)
    assert a.contains(b) == all(domain in one and two[domain][1] <= one[domain][1] for domain in two)


@given(domains, st.integers(0, 4), st.integers(1, 3), st.lists(st.integers(1, 99), min_size=1))
def test_mariadb_add_takes_the_last_number_in_order(model, domain, server, numbers):
    assert mariadb(model).add(f"{domain}-{server}", numbers) == mariadb(
        model | {domain: (server, numbers[-1])}
    )


@given(transactions, domains)
def test_holds_is_membership_number_by_number(model, model_of_domains):
    numbers = np.arange(32)
    for source in SOURCES:
        assert mysql(model).holds(source, numbers).tolist() == [
            (source, n) in model for n in numbers.tolist()
        ]
        assert not mariadb(model_of_domains).holds(source, numbers).any()
    for domain in range(5):
        _, last = model_of_domains.get(domain, (0, 0))
        held = mariadb(model_of_domains).holds(f"{domain}-9", np.array([0, 1, last, last + 1]))
        assert held.tolist() == [False, last >= 1, last >= 1, False]
        assert not mysql(model).holds(f"{domain}-9", numbers).any()
    assert not NO_GTIDS.holds(SOURCES[0], numbers).any()
