"""A whole instance on sources with semi-synchronous replication: a COMMIT waits for the cursors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop, in_background
from integration.zookeeper_fixtures import eventually

#: what a COMMIT waits at most, milliseconds: far longer than a test takes
TIMEOUT_MS = 600_000


@pytest.fixture
def semi_sync_shop(shop: Shop) -> Iterator[Shop]:
    """Two MariaDB shards; a COMMIT waits for nobody until a replica comes."""
    for server in shop.servers:
        server.execute(
            "SET GLOBAL rpl_semi_sync_master_wait_no_slave = OFF",
            f"SET GLOBAL rpl_semi_sync_master_timeout = {TIMEOUT_MS}",
            "SET GLOBAL rpl_semi_sync_master_enabled = ON",
        )
    yield shop
    for server in shop.servers:
        server.execute(
            "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
            "SET GLOBAL rpl_semi_sync_master_wait_no_slave = DEFAULT",
            "SET GLOBAL rpl_semi_sync_master_timeout = DEFAULT",
        )


def status(shop: Shop, name: str) -> Any:
    """Return a counter of the first shard's server."""
    ((_, value),) = shop.servers[0].execute(f"SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master_{name}'")
    return value


def test_a_commit_waits_for_the_cursors_of_all_clients(semi_sync_shop: Shop) -> None:
    """1. two clients take a row whose COMMIT waits; 2. one acknowledges it; 3. the other one does."""
    shop = semi_sync_shop
    with (
        shop.serve(reader={"semi_sync": "cursor"}) as instance,
        shop.connect(instance, client_id="one") as one,
        shop.connect(instance, client_id="other") as other,
    ):
        eventually(lambda: status(shop, "clients") == "1" and status(shop, "status") == "ON", "a replica")
        commit = in_background(lambda: shop.write(0, 1))
        try:
            batches = [consumer.get_without_ack(10, timeout=DEADLINE_S) for consumer in (one, other)]
            assert all(batch is not None and batch.envelope().num_rows == 1 for batch in batches)
            one.ack(batches[0].batch_id)
            assert commit.is_alive()
            assert status(shop, "wait_sessions") == "1"
            other.ack(batches[1].batch_id)
            commit.join(DEADLINE_S)
            assert not commit.is_alive()
            assert status(shop, "no_tx") == "0"
        finally:
            shop.servers[0].execute("SET GLOBAL rpl_semi_sync_master_enabled = OFF")
            commit.join(DEADLINE_S)
