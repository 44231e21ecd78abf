"""One of the statements that say the same of the tables with one name is delivered, on real servers."""

from __future__ import annotations

from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually
from support.soak import first_quick

import canal_group

ROUTED = {"white": r"shop_\d+\..*", "routes": [{"match": r"shop_\d+\.orders.*", "to": "shop.orders"}]}

OF_THE_SECOND_TABLE = "alter table `shop_0`.`orders_2` add `C` int /* by hand */"
OF_THE_OTHER_SHARD = "ALTER TABLE orders ADD  c  INT"


def read(consumer: canal_group.Consumer, rows: int) -> tuple[list[int], list[tuple[str, str]]]:
    """Read and acknowledge so many rows; return their ids, and (shard, text) of the statements."""
    ids: list[int] = []
    statements: list[tuple[str, str]] = []
    while len(ids) < rows:
        batch = consumer.get_without_ack(timeout=DEADLINE_S)
        assert batch is not None, (ids, statements)
        found = batch.envelope().to_pylist()
        ids += [int(dict(each["after"])["id"]) for each in found if each["op"] == "INSERT"]
        statements += [(each["shard"], each["sql"]) for each in found if each["sql"] is not None]
        consumer.ack(batch.batch_id)
    return ids, statements


def counted(consumer: canal_group.Consumer) -> tuple[int, int]:
    """Return how many statements were delivered, and withheld, as of the last tick."""
    status = consumer.status()["group"]["ddl"]
    return status["delivered"], status["withheld"]


def alter_around_a_restart(shop: Shop, rule: str) -> dict[str, list[tuple[str, str]]]:
    """1. A shard has two of the tables, the other has one. 2. One of them is altered, and what it brings is
    acknowledged. 3. The instance ends; the other two are altered in other words. 4. It begins again.

    Returns:
        The statements that a consumer received before the restart and after it.
    """
    first, second = shop.servers
    first.execute("CREATE TABLE shop_0.orders_2 LIKE shop_0.orders")
    options: dict[str, Any] = {"filter": ROUTED, "merge": {"ddl": rule}}
    with shop.serve(**options) as instance, shop.connect(instance) as consumer:
        first.execute("INSERT INTO shop_0.orders VALUES (1, '', 1)")
        second.execute("INSERT INTO shop_1.orders VALUES (2, '', 1)")
        assert sorted(read(consumer, 2)[0]) == [1, 2]
        first.execute("ALTER TABLE shop_0.orders ADD c INT", "INSERT INTO shop_0.orders VALUES (3, '', 1, 7)")
        ids, before = read(consumer, 1)
        assert ids == [3]
        counts = (1, 0) if rule == "first" else (0, 1)
        eventually(lambda: counted(consumer) == counts, "the counts of the tick")
        if rule == "last":
            (waiting,) = consumer.status()["group"]["ddl"]["statements"]
            assert waiting["has"] == {"s0": 1}
            assert waiting["waits_for"] == ["s0", "s1"]
    first.execute(
        OF_THE_SECOND_TABLE,
        "INSERT INTO shop_0.orders_2 VALUES (4, '', 1, 7)",
    )
    second.execute("USE shop_1", OF_THE_OTHER_SHARD, "INSERT INTO orders VALUES (5, '', 1, 7)")
    with shop.serve(**options) as instance, shop.connect(instance) as consumer:
        ids, after = read(consumer, 2)
        assert sorted(ids) == [4, 5]
        counts = (0, 2) if rule == "first" else (1, 1)
        eventually(lambda: counted(consumer) == counts, "the counts of the tick")
        status = consumer.status()["group"]["ddl"]
        assert status["waiting"] == status["missed"] == 0
    return {"before": before, "after": after}


def check(shop: Shop, rule: str) -> None:
    found = alter_around_a_restart(shop, rule)
    if rule == "first":
        assert found == {"before": [("s0", "ALTER TABLE shop_0.orders ADD c INT")], "after": []}
    else:
        # Times of one second are not ordered between shards.
        either = [("s0", OF_THE_SECOND_TABLE), ("s1", OF_THE_OTHER_SHARD)]
        assert found in [{"before": [], "after": [last]} for last in either]


@pytest.mark.parametrize("rule", first_quick(0, ["last", "first"]))
def test_one_statement_for_three_tables(shop: Shop, rule: str):
    check(shop, rule)


@pytest.mark.soak
@pytest.mark.parametrize("rule", ["first", "last"])
def test_one_statement_for_tables_of_both_vendors(mixed_shop: Shop, rule: str):
    check(mixed_shop, rule)
