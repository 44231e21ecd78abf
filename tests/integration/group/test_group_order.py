"""Whole instances that are ordered by a global id, on real servers."""

from __future__ import annotations

import time

import pytest
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S

WITHIN_S = 3.0


@pytest.fixture(scope="module")
def shared_options() -> dict[str, object]:
    return {"merge": {"order_by": {r"shop\.orders": "id"}, "commit_within_s": WITHIN_S}}


def insert(shop: SharedShop, shard: int, *ids: int, before_s: int = 0) -> None:
    """Commit one row a transaction, stamped so many seconds before now."""
    shop.servers[shard].execute(
        f"SET TIMESTAMP = {int(time.time()) - before_s}",
        *(f"INSERT INTO shop_{shard}.orders VALUES ({number}, 'note', 1)" for number in ids),
    )


def read(consumer, count):
    rows, deadline_s = [], time.monotonic() + DEADLINE_S
    while len(rows) < count:
        assert time.monotonic() < deadline_s, f"only {rows} came"
        batch = consumer.get_without_ack(timeout=DEADLINE_S)
        if batch is not None:
            rows += batch.table("shop.orders").to_pylist()
            consumer.ack(batch.batch_id)
    return rows


def test_ids_order_the_stream_against_the_commit_times(served: SharedShop):
    """1. one server commits greater ids earlier, the other smaller ones later, and then both are idle; 2. the
    stream is in the order of ids, although no more ids come; 3. updates and deletes of old rows follow what
    their shard sent before; 4. an id that comes too late is delivered, flagged and counted.
    """
    with served.connect() as consumer:
        insert(served, 0, 20, 40, 60, before_s=2)
        insert(served, 1, 10, 30, 50)
        rows = read(consumer, 6)
        assert [row["id"] for row in rows] == [10, 20, 30, 40, 50, 60]
        times = [row["_commit_us"] for row in rows]
        assert max(times[1::2]) < min(times[0::2]), "commit times say something else"
        assert not any(row["_late"] for row in rows)

        served.servers[0].execute(
            "UPDATE shop_0.orders SET note = 'other' WHERE id = 20",
            "DELETE FROM shop_0.orders WHERE id = 40",
        )
        insert(served, 1, 70)
        rows = read(consumer, 3)
        assert [(row["id"], row["_op"]) for row in rows if row["_shard"] == "s0"] == [
            (20, "UPDATE"),
            (40, "DELETE"),
        ]
        assert not any(row["_late"] for row in rows)

        insert(served, 1, 15)
        (row,) = read(consumer, 1)
        assert (row["id"], row["_late"]) == (15, True)
        group = consumer.status()["group"]
    assert (group["late"], group["shards"][1]["late"]) == (1, 1)
    assert (group["order"]["kind"], group["order"]["commit_within_s"]) == ("id", WITHIN_S)
    assert group["order"]["watermark_id"] >= 70
