"""Limits of snapshots on real servers: while a source does much for others, no page is read of it."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace

import pytest
from support.binlog.archived import options_of
from support.deadline import await_true
from support.sources.replication import FIRST_MARIADB, OTHER_LOG, replicate, servers
from support.sources.snapshot_client import SnapshotClient
from support.sources.snapshot_lanes import begun, filled, running

from canal_group.binlog.server.replication import lag_s
from canal_group.binlog.server.source import connect, server_facts

#: more than other tests leave behind
HISTORY = 60


@pytest.fixture
def address_to(source_address, tmp_path):
    """Returns the address of a server, as an account that may all, with an archive."""
    archive = options_of(tmp_path)
    return lambda server: source_address(server, user="root", password=server.password, archive=archive)


def waits_for(client):
    return client.lane.describe()["snapshot"]["waits_for"] or ""


def test_threads_running_max(mariadb, address_to):
    address = address_to(mariadb)
    filled(mariadb, "t", 2_000)
    sleepers = [threading.Thread(target=mariadb.execute, args=("SELECT SLEEP(1.2)",)) for _ in range(4)]
    for each in sleepers:
        each.start()
    with running(address, workers=1, threads_running_max=1) as shard:
        client = SnapshotClient(shard, begun(address))
        client.read_until(lambda: "threads of the server are running" in waits_for(client), "it waits")
        assert client.lane.describe()["snapshot"]["rows"] == 0
        client.read_until(lambda: client.copy.mark, "the mark")
    for each in sleepers:
        each.join()
    assert len(client.copy.rows["t"]) == 2_000


def test_rows_per_s(mariadb, address_to):
    address = address_to(mariadb)
    filled(mariadb, "t", 2_000)
    began_s = time.monotonic()
    with running(address, workers=1, rows_per_s=600) as shard:
        client = SnapshotClient(shard, begun(address))
        client.read_until(lambda: client.copy.mark, "the mark")
    assert time.monotonic() - began_s > 1
    assert len(client.copy.rows["t"]) == 2_000


def test_history_list_max(server, address_to):
    """A transaction that is open for long keeps old rows."""
    address = address_to(server)
    filled(server, "t", 20)
    with contextlib.closing(server.connect()) as old, old.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT COUNT(*) FROM app.t")
        server.execute(*(f"UPDATE app.t SET v = '{n}' WHERE id = 2" for n in range(3 * HISTORY)))
        with running(address, history_list_max=HISTORY) as shard:
            client = SnapshotClient(shard, begun(address))
            client.read_until(lambda: "InnoDB's history list has" in waits_for(client), "it waits")
            assert client.lane.describe()["snapshot"]["rows"] == 0
            cursor.execute("ROLLBACK")

            def is_over():
                # A server that is idle may purge nothing.
                server.execute("UPDATE app.t SET v = UUID() WHERE id = 2")
                return client.copy.mark

            client.read_until(is_over, "the mark")
    assert len(client.copy.rows["t"]) == 20


def test_a_limit_that_may_not_be_asked_for(server, address_to):
    """Nothing is read, and it is said which statement helps; after that it goes on."""
    on_mariadb = server.engine == "mariadb"
    filled(server, "t", 20)
    server.execute(
        "DROP USER IF EXISTS canal_limited@'%'",
        "CREATE USER canal_limited@'%' IDENTIFIED BY 'secret'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, REFERENCES ON *.* TO canal_limited@'%'",
        "GRANT SELECT ON app.* TO canal_limited@'%'",
    )
    address = replace(address_to(server), user="canal_limited", password="secret")
    limit = {"replica_lag_max_s": 10} if on_mariadb else {"history_list_max": 1_000_000}
    with running(address, **limit) as shard:
        client = SnapshotClient(shard, begun(address))
        client.read_until(lambda: "GRANT" in waits_for(client), "it waits")
        right = "SLAVE MONITOR" if on_mariadb else "PROCESS"
        statement = f"GRANT {right} ON *.* TO `canal_limited`@`%`;"
        assert waits_for(client).endswith(statement)
        assert client.lane.describe()["snapshot"]["failed"] == {}
        server.execute(statement)
        client.read_until(lambda: client.copy.mark, "the mark")
    assert len(client.copy.rows["t"]) == 20
    assert client.copy.mark.failed == {}


@FIRST_MARIADB
def test_replica_lag_max_s(make, address_to):
    """1. A replica has a row that it cannot apply: it lags, and is not read. 2. It applies it, and is read.
    3. Where replication has stopped, and where there is none, nothing lags.
    """
    with servers(make, [], [*OTHER_LOG, "--log-slave-updates=ON"]) as (source, replica):
        replicate(source, replica)
        filled(source, "t", 20)
        address = address_to(replica)
        await_true(lambda: replica.execute("SHOW TABLES FROM app LIKE 't'"), "the table")
        await_true(lambda: replica.execute("SELECT COUNT(*) FROM app.t") == ((20,),), "its rows")
        with contextlib.closing(replica.connect()) as locker, locker.cursor() as cursor:
            cursor.execute("LOCK TABLES app.g READ, app.t READ")
            source.execute("INSERT INTO app.g VALUES (1, 'late')")
            with contextlib.closing(connect(address)) as connection:
                facts = server_facts(address, connection)
                await_true(lambda: lag_s(address, connection, facts), "a lag")
            with running(address, replica_lag_max_s=0.5) as shard:
                client = SnapshotClient(shard, begun(address))
                client.read_until(lambda: "behind its own source" in waits_for(client), "it waits")
                assert client.lane.describe()["snapshot"]["done"] == 0
                cursor.execute("UNLOCK TABLES")
                client.read_until(lambda: client.copy.mark, "the mark")
        assert client.copy.rows["t"].keys() == {2 * number for number in range(20)}
        with contextlib.closing(connect(address)) as connection:
            facts = server_facts(address, connection)
            assert lag_s(address, connection, facts) is not None
            replica.execute("STOP SLAVE" if facts.mariadb else "STOP REPLICA")
            assert lag_s(address, connection, facts) is None
        address = address_to(source)
        with contextlib.closing(connect(address)) as connection:
            assert lag_s(address, connection, server_facts(address, connection)) is None
