"""Whole instances on real MySQL servers, alone and together with MariaDB."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from integration.shared_servers import SharedShop
from integration.shop import Reading, Shop, in_background
from support.defaults import address_of

from canal_group.binlog.server.source import SourceAddress, connect, query
from canal_group.merge.errors import SourceUnfit
from playground.database.server_process import DatabaseServer

SECOND_US = 1_000_000


@pytest.fixture(scope="module")
def shared_servers(two_mysqls: list[DatabaseServer]) -> list[DatabaseServer]:
    return two_mysqls


def delivered(reading):
    return pa.concat_tables([table for run in reading.runs for table in run])


def test_two_mysql_shards_merge_in_commit_order_within_a_second(served: SharedShop):
    """Commits that follow each other on two servers by less than a millisecond come in just that order.

    1. both shards get transactions by turns, each begun when the one before was committed;
    2. the stream is that order, though all of it fits into a second or two;
    3. keys are the microseconds that the servers stamped.
    """
    with served.connect() as consumer:
        for _ in range(30):
            served.write(0, 1)
            served.write(1, 1)
        reading = Reading(consumer)
        reading.until(served.rows)
    reading.check(served)
    rows = delivered(reading)
    assert [int(dict(after)["id"]) for after in rows["after"].to_pylist()] == list(range(60))
    keys = rows["key_us"].to_pylist()
    assert len(set(keys)) == 60
    assert any(key % SECOND_US for key in keys)
    assert keys == rows["commit_us"].to_pylist(), "no key had to be raised"
    assert {gtid.count("-") for gtid in rows["gtid"].to_pylist()} == {4}, "a server's uuid, and a number"


def test_an_idle_mysql_shard_delays_no_client(served: SharedShop):
    with served.connect() as consumer:
        served.write(0, 20)
        reading = Reading(consumer)
        reading.until(served.rows)
    reading.check(served)


def test_a_ddl_and_typed_rows_of_mysql_reach_a_consumer(served: SharedShop):
    with served.connect() as consumer:
        served.write(0, 1)
        served.servers[0].execute(
            "ALTER TABLE shop_0.orders ADD COLUMN detail JSON",
            """INSERT INTO shop_0.orders VALUES (1000, 'é', 1.5, '{"b": 1, "a": [true, "ü"]}')""",
        )
        rows, orders = [], []
        while len(rows) < 3:
            batch = consumer.get_without_ack(timeout=20)
            assert batch is not None
            rows += batch.envelope().to_pylist()
            orders += batch.table("shop.orders").to_pylist()
            consumer.ack(batch.batch_id)
    assert [row["op"] for row in rows] == ["INSERT", "ALTER", "INSERT"]
    last = orders[-1]
    assert (last["id"], last["note"], str(last["price"])) == (1000, "é", "1.50")
    assert last["detail"] == '{"a": [true, "ü"], "b": 1}', "as the server prints it"


@pytest.mark.soak
def test_a_killed_mysql_returns_without_loss_or_duplicates(mysql_shop: Shop):
    """1. rows flow; 2. one server is killed with SIGKILL and restarted on its data; 3. its rows come once."""
    with mysql_shop.serve() as instance, mysql_shop.connect(instance) as consumer:
        mysql_shop.write_everywhere(40, rows=2)
        reading = Reading(consumer)
        reading.until(100)
        mysql_shop.servers[0].kill()
        mysql_shop.write(1, 10)
        mysql_shop.servers[0].start()
        mysql_shop.write_everywhere(40, rows=2)
        reading.until(mysql_shop.rows)
        assert consumer.status()["shards"][0]["counters"]["reconnects"] > 0
    reading.check(mysql_shop)
    assert reading.rollbacks == 0, "no ring was lost"
    assert len(delivered(reading)) == mysql_shop.rows


def test_mariadb_and_mysql_are_shards_of_one_group(mixed_shop: Shop):
    with mixed_shop.serve() as instance, mixed_shop.connect(instance) as consumer:
        writing = in_background(lambda: mixed_shop.write_everywhere(60, rows=2))
        reading = Reading(consumer)
        reading.until(200)
        writing.join()
        reading.until(mixed_shop.rows)
    reading.check(mixed_shop)
    rows = delivered(reading)
    mariadb, mysql = (rows.filter(pc.equal(rows["shard"], shard)) for shard in ("s0", "s1"))
    assert not any(time % SECOND_US for time in mariadb["commit_us"].to_pylist())
    assert any(time % SECOND_US for time in mysql["commit_us"].to_pylist())


def source(server, **changes) -> SourceAddress:
    where = server.address()
    fields = {
        "name": "s1",
        "host": where.host,
        "port": where.port,
        "user": where.user,
        "password": where.password,
        "server_id": 9001,
    }
    return address_of(**{**fields, **changes})


def test_caching_sha2_lets_the_right_password_in_without_tls(two_mysqls):
    """The server's cache is emptied first: what is tested is the long way, with the server's public key."""
    server = two_mysqls[0].start()
    ((plugin,),) = server.execute("SELECT plugin FROM mysql.user WHERE user = 'canal'")
    assert plugin == "caching_sha2_password"
    server.execute("FLUSH PRIVILEGES")
    for _ in range(2):  # the second time the short way
        connection = connect(source(server))
        connection.close()
    with pytest.raises(SourceUnfit, match="1045"):
        connect(source(server, password="wrong"))


@pytest.mark.soak
def test_an_instance_reads_over_verified_tls(one_ray, one_zookeeper, tls_mysql, tmp_path):
    """The account may come over TLS only, and the server must prove that it is 127.0.0.1."""
    shop = Shop([tls_mysql.server], one_zookeeper.hosts, tmp_path)
    each_shard = {"ssl": {"ca": str(tls_mysql.ca), "verify": True}, "password_lifetime_s": 0.0}
    with shop.serve(each_shard=each_shard) as instance, shop.connect(instance) as consumer:
        shop.write(0, 10)
        reading = Reading(consumer)
        reading.until(shop.rows)
    reading.check(shop)


def test_tls_refuses_a_server_that_another_authority_signed(tls_mysql):
    known = {"ca": str(tls_mysql.ca), "verify": True}
    address = source(tls_mysql.server, ssl=known)
    connection = connect(address)
    assert query(address, connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0]["Value"]
    connection.close()
    with pytest.raises(SourceUnfit, match="shows a certificate that is not trusted"):
        connect(source(tls_mysql.server, ssl={**known, "ca": str(tls_mysql.other_ca)}))
    with pytest.raises(SourceUnfit, match=r"(?i)localhost"):
        connect(source(tls_mysql.server, ssl=known, host="localhost"))
    with pytest.raises(SourceUnfit, match="1045"):
        connect(source(tls_mysql.server))
