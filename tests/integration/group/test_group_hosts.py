"""A shard with a primary and a standby: the standby is read when the primary fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.deadline import await_true
from support.instance.inserted_rows import rows_until
from support.instance.shard_hosts import FAST, Pair, replicated, same
from support.soak import first_quick

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer


@pytest.fixture(params=first_quick(1, [MariaDbServer, MySqlServer]), ids=lambda make: make.engine)
def pair_of_servers(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    with replicated(request.param) as servers:
        yield servers


def test_a_standby_is_read_when_the_primary_is_gone(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, pair_of_servers: list[Any], tmp_path: Path
):
    primary, standby = pair_of_servers
    shop = Pair([primary], one_zookeeper.hosts, tmp_path)
    shards = [shop.hosts(pair_of_servers)]
    with shop.serve(shards=shards, reader=FAST) as instance, shop.connect(instance) as consumer:
        primary.execute(*(f"INSERT INTO shop_0.orders VALUES ({i}, 'x', 1)" for i in range(5)))
        assert [row["id"] for row in rows_until(consumer, 5)] == list("01234")
        primary.execute(
            "INSERT INTO shop_0.orders VALUES (5, 'x', 1)", "ALTER TABLE shop_0.orders DROP COLUMN price"
        )
        primary.execute("INSERT INTO shop_0.orders VALUES (6, 'y')")
        await_true(lambda: same(pair_of_servers), "the replica has it all")
        primary.kill()
        standby.execute("INSERT INTO shop_0.orders VALUES (7, 'z')")
        rows = rows_until(consumer, 3)
        assert [row["id"] for row in rows] == list("567")
        assert [sorted(row) for row in rows] == [["id", "note", "price"], ["id", "note"], ["id", "note"]]
        shard = consumer.status()["shards"][0]
        failover = shard["failover"]
        assert shard["source"] == failover["hosts"][1] == failover["last"]["to"]
        assert failover["switches"] == 1
        assert failover["last"]["gap_s"] > 0
        assert "refused" in failover["last"]["reason"] or "broke" in failover["last"]["reason"], failover


def test_a_standby_that_has_lost_what_was_read_is_refused_with_both_sets(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, pair_of_servers: list[Any], tmp_path: Path
):
    """The replica stops, rows are read from the primary only, and the replica becomes a primary."""
    primary, standby = pair_of_servers
    replica = "SLAVE" if isinstance(standby, MariaDbServer) else "REPLICA"
    shop = Pair([primary], one_zookeeper.hosts, tmp_path)
    with (
        shop.serve(shards=[shop.hosts(pair_of_servers)], reader=FAST) as instance,
        shop.connect(instance) as consumer,
    ):
        primary.execute("INSERT INTO shop_0.orders VALUES (1, 'x', 1)")
        assert len(rows_until(consumer, 1)) == 1
        await_true(lambda: same(pair_of_servers), "the replica has it all")
        standby.execute(f"STOP {replica}")
        primary.execute("INSERT INTO shop_0.orders VALUES (2, 'lost', 1)")
        assert len(rows_until(consumer, 1)) == 1
        standby.execute(f"RESET {replica} ALL")
        standby.execute(*(f"INSERT INTO shop_0.orders VALUES ({i}, 'other', 1)" for i in (3, 4, 5)))
        primary.kill()

        def error() -> str:
            return str(consumer.status()["shards"][0]["error"])

        await_true(lambda: "diverged" in error() or "cannot serve the position (1236)" in error(), "an error")
        assert "the position is after" in error().lower()


def test_a_primary_that_does_not_execute_the_statement_is_left(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, pair_of_servers: list[Any], tmp_path: Path
):
    """It sends its binlog on and on, but the operator says that it is not the primary any more."""
    primary, standby = pair_of_servers
    shop = Pair([primary], one_zookeeper.hosts, tmp_path)
    user = primary.address().user
    primary.execute(
        "CREATE TABLE shop_0.alive (id INT)", f"GRANT SELECT ON shop_0.alive TO '{user}'@'127.0.0.1'"
    )
    detecting = {"sql": "SELECT * FROM shop_0.alive", "interval_s": 0.1, "threshold": 2}
    with (
        shop.serve(shards=[shop.hosts(pair_of_servers)], reader={"detecting": detecting}) as instance,
        shop.connect(instance) as consumer,
    ):
        primary.execute("INSERT INTO shop_0.orders VALUES (1, 'x', 1)")
        assert len(rows_until(consumer, 1)) == 1
        await_true(lambda: same(pair_of_servers), "the replica has it all")
        primary.execute("SET SESSION sql_log_bin = 0", "DROP TABLE shop_0.alive")
        await_true(lambda: consumer.status()["shards"][0]["failover"]["switches"] == 1, "the standby is read")
        standby.execute("INSERT INTO shop_0.orders VALUES (2, 'x', 1)")
        assert [row["id"] for row in rows_until(consumer, 1)] == ["2"]
        assert "no such table (1146)" in consumer.status()["shards"][0]["failover"]["last"]["reason"]


def test_an_xa_transaction_prepared_before_a_switch_is_committed_after_it(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, pair_of_servers: list[Any], tmp_path: Path
):
    """Its rows are in another file of the standby's own binlog, before the first transaction to be read."""
    primary, standby = pair_of_servers
    shop = Pair([primary], one_zookeeper.hosts, tmp_path)
    with (
        shop.serve(shards=[shop.hosts(pair_of_servers)], reader=FAST) as instance,
        shop.connect(instance) as consumer,
    ):
        primary.execute(
            "XA START 'x'", "INSERT INTO shop_0.orders VALUES (1, 'xa', 1)", "XA END 'x'", "XA PREPARE 'x'"
        )
        primary.execute("INSERT INTO shop_0.orders VALUES (2, 'x', 1)")
        assert [row["id"] for row in rows_until(consumer, 1)] == ["2"]
        await_true(lambda: same(pair_of_servers), "the replica has it all")
        standby.execute("FLUSH BINARY LOGS")
        primary.kill()
        stop = "SLAVE" if isinstance(standby, MariaDbServer) else "REPLICA"
        standby.execute(f"STOP {stop}", "XA COMMIT 'x'", "INSERT INTO shop_0.orders VALUES (3, 'x', 1)")
        assert [row["id"] for row in rows_until(consumer, 2)] == list("13")
