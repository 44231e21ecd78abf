"""An instance with small rings, chunks, batches and replies: what is larger than they are."""

from __future__ import annotations

from typing import Any

import pytest
from integration.shared_servers import SharedShop
from integration.shop import Reading

REPLY_BYTES_MAX = 4_000


@pytest.fixture(scope="module")
def shared_options() -> dict[str, Any]:
    return {
        "store": {"size": 64, "mode": "items"},
        "reader": {"chunk_rows_max": 200},
        "batch": {"rows_max": 500},
        "gateway": {"port": 0, "reply_bytes_max": REPLY_BYTES_MAX},
    }


def test_a_huge_transaction_flows_through_small_rings_and_stays_whole(served: SharedShop):
    """A transaction of 6,000 rows, where rings, chunks and batches hold far fewer.

    1. it is delivered in several batches, none of which another shard's row interrupts;
    2. the cursor never stands inside it.
    """
    with served.connect() as consumer:
        served.write(0, 1, rows=6_000)
        served.write(1, 20)
        reading = Reading(consumer)
        reading.until(served.rows, batch_size=500)
        assert all(position.rows_into_transaction == 0 for position in consumer.cursor.shards.values())
    reading.check(served)
    assert len(reading.runs[0]) > 6


def test_a_reply_leaves_in_messages_of_bounded_size(served: SharedShop):
    with served.connect(shared_memory=False) as consumer:
        served.write(0, 1, rows=200)
        batch = consumer.get_without_ack(timeout=20)
        assert batch is not None
        rows = batch.envelope()
    sizes = [message.nbytes for message in rows.to_batches()]
    assert rows.num_rows == 200
    assert len(sizes) > 5
    assert max(sizes) < 2 * REPLY_BYTES_MAX


def test_a_consumer_that_stands_still_fills_the_rings_and_nothing_else(served: SharedShop):
    """200 transactions of each shard: the reading stops at the 64 slots of a ring, and goes on after."""
    with served.connect() as consumer:
        served.write_everywhere(200)
        held = consumer.get_without_ack(1, timeout=20)
        assert held is not None
        for shard in consumer.status()["shards"]:
            assert shard["ring"]["put"] - shard["ring"]["ack"] <= 64
            assert shard["counters"]["reconnects"] == 0
        consumer.rollback()
        reading = Reading(consumer)
        reading.until(served.rows)
    reading.check(served)
