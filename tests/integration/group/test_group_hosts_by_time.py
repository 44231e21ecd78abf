"""A standby is read without GTIDs: the transaction that was delivered last is found there, or it is not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S
from support.deadline import await_true
from support.instance.inserted_rows import rows_until
from support.instance.shard_hosts import FAST, Pair, same

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError
from playground.database.servers import start_all

NO_GTIDS = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]


@pytest.fixture
def pair_without_gtids() -> Iterator[list[MySqlServer]]:
    """Return a primary and its replica, which have executed the same."""
    primary = MySqlServer(options=NO_GTIDS)
    standby = MySqlServer(options=[*NO_GTIDS, "--log-bin=other-bin", "--log-replica-updates=ON"])
    try:
        start_all([primary, standby])
        primary.execute(
            "SET SESSION sql_log_bin = 0",
            f"CREATE USER repl@'127.0.0.1' IDENTIFIED BY '{primary.password}'",
            "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'",
        )
        standby.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {primary.port}, "
            f"SOURCE_USER = 'repl', SOURCE_PASSWORD = '{primary.password}', GET_SOURCE_PUBLIC_KEY = 1",
            "START REPLICA",
        )
        yield [primary, standby]
    except ServerMissingError as error:
        pytest.skip(str(error))
    finally:
        for server in (primary, standby):
            server.close()


def by_time(shop: Pair, servers: list[MySqlServer]) -> list[dict[str, Any]]:
    return [{**shop.hosts(servers), "start_by": "time"}]


def insert(server: MySqlServer, *ids: int) -> None:
    server.execute(*(f"INSERT INTO shop_0.orders VALUES ({i}, 'x', 1)" for i in ids))


def ids_until(consumer: canal_group.Consumer, count: int) -> list[str]:
    """Read and acknowledge ids; what a switch rolls back comes again and counts once."""
    found: list[str] = []
    while len(found) < count:
        with contextlib.suppress(canal_group.RolledBack):
            batch = consumer.get_without_ack(timeout=DEADLINE_S)
            assert batch is not None, found
            rows = batch.envelope().to_pylist()
            consumer.ack(batch.batch_id)
            found += [dict(row["after"])["id"] for row in rows if row["op"] == "INSERT"]
    return found


@pytest.mark.soak
def test_every_row_comes_once_after_the_last_transaction_was_found(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, pair_without_gtids: list[MySqlServer], tmp_path: Path
):
    primary, standby = pair_without_gtids
    shop = Pair([primary], one_zookeeper.hosts, tmp_path)
    with (
        shop.serve(shards=by_time(shop, pair_without_gtids), reader=FAST) as instance,
        shop.connect(instance) as consumer,
    ):
        insert(primary, 0, 1, 2, 3, 4)
        assert [row["id"] for row in rows_until(consumer, 5)] == list("01234")
        insert(primary, 5, 6)
        await_true(lambda: same(pair_without_gtids), "the replica has it all")
        standby.execute("FLUSH BINARY LOGS")
        primary.kill()
        insert(standby, 7, 8)
        # What is acknowledged during the switch comes again: nothing without GTIDs says that it is the same.
        await_true(lambda: consumer.status()["shards"][0]["failover"]["continued"], "the standby is read")
        assert ids_until(consumer, 4) == list("5678")
        continued = consumer.status()["shards"][0]["failover"]["continued"]
        assert (continued["by"], continued["possibly_repeated"]) == ("time", 0)
        assert continued["dropped"] >= 5


@pytest.mark.soak
def test_what_may_come_twice_is_counted_if_the_last_transaction_was_lost(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, pair_without_gtids: list[MySqlServer], tmp_path: Path
):
    """The replica stops, a row is read from the primary only, and the replica becomes a primary."""
    primary, standby = pair_without_gtids
    shop = Pair([primary], one_zookeeper.hosts, tmp_path)
    with (
        shop.serve(shards=by_time(shop, pair_without_gtids), reader=FAST) as instance,
        shop.connect(instance) as consumer,
    ):
        insert(primary, 1)
        assert len(rows_until(consumer, 1)) == 1
        await_true(lambda: same(pair_without_gtids), "the replica has it all")
        standby.execute("STOP REPLICA")
        insert(primary, 2)
        assert len(rows_until(consumer, 1)) == 1
        primary.kill()

        await_true(lambda: "none that was committed later" in str(consumer.status()), "it is retried")
        insert(standby, 3, 4)
        assert ids_until(consumer, 3) == list("134")
        continued = consumer.status()["shards"][0]["failover"]["continued"]
        assert (continued["by"], continued["dropped"]) == ("time", 0)
        assert continued["possibly_repeated"] >= 1
