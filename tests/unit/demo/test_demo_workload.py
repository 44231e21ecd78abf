"""What a writer will do is a function of the seed, and every statement changes what it announces."""

import pytest

from canal_group.programs.demo.tables import ADDED_COLUMN
from playground.load.workload import NOW_US, Workload
from playground.options import DemoOptions


def workload(**changes):
    return list(
        Workload(**{"shard": 1, "shards": 4, "seed": 7, "transactions": 300, "big_rows": 1200} | changes)
    )


def test_the_same_seed_makes_the_same_statements():
    assert workload() == workload()


@pytest.mark.parametrize("change", [{"seed": 8}, {"shard": 2}])
def test_another_seed_or_shard_makes_others(change):
    assert workload(**change) != workload()


def test_it_has_every_kind_of_transaction():
    transactions = workload()
    single = [each.changes[0] for each in transactions if len(each.changes) == 1]
    several = [{change.table for change in each.changes} for each in transactions if len(each.changes) > 1]
    assert {change.op for change in single} >= {"INSERT", "UPDATE", "ALTER"}
    assert {change.op for each in transactions for change in each.changes} == {
        "INSERT",
        "UPDATE",
        "DELETE",
        "ALTER",
    }
    assert any(change.rows > 1 for change in single)
    assert {"orders", "items"} in several


def test_the_column_is_added_once_and_used_from_then_on():
    transactions = workload()
    (index,) = [n for n, each in enumerate(transactions) if each.changes[0].op == "ALTER"]
    uses = [any(ADDED_COLUMN in s.sql for s in each.statements) for each in transactions]
    assert not any(uses[:index])
    assert any(uses[index + 1 :])


def test_the_large_transaction_has_its_rows_for_any_insert_size():
    (large,) = [each for each in workload() if not each.small and each.changes[0].op == "INSERT"]
    assert sum(change.rows for change in large.changes) == 1200
    assert not [each for each in workload(big_rows=0) if not each.small and each.changes[0].op == "INSERT"]


def test_ids_are_unique_over_the_shards():
    seen = set()
    for shard in range(4):
        for transaction in workload(shard=shard):
            for statement in transaction.statements:
                if statement.change.op == "INSERT" and statement.change.table == "orders":
                    width = len(statement.arguments) // statement.change.rows
                    ids = statement.arguments[::width]
                    assert seen.isdisjoint(ids)
                    seen.update(ids)


def test_the_first_changes_are_gentle_and_inserts_and_updates_have_a_time():
    transactions = workload(gentle=50)
    assert [each.gentle for each in transactions[:50]] == [True] * 50
    assert not any(each.gentle for each in transactions[50:])
    for transaction in transactions:
        for statement in transaction.statements:
            assert (NOW_US in statement.arguments) == (statement.change.op in ("INSERT", "UPDATE"))


@pytest.mark.parametrize("name", ["shards", "transactions", "seconds", "big_transaction_rows"])
def test_a_size_of_nothing_is_refused(name):
    with pytest.raises(ValueError, match=name):
        DemoOptions(**{name: 0})
