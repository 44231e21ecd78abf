"""Two shards are read from replicas that lag differently: which server's commit times order their rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from integration.shop import DEADLINE_S, Shop
from support.deadline import await_true
from support.soak import first_quick
from support.sources.replication import replicate

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.shard.wiring import shard_source
from canal_group.binlog.server.preflight.preflight import preflight
from canal_group.binlog.server.source import SourceAddress, connect, server_facts
from canal_group.binlog.server.starts.scan import Scan
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError
from playground.database.servers import start_all


def origin(lag_max_s: float) -> dict[str, Any]:
    return {"commit_time": "origin", "replica_lag_max_s": lag_max_s}


#: more than the tests last: until then nothing is late
NEVER_LATE = origin(3600)


class Replicas(Shop):
    """Two primaries, each with a replica, which its shard is read from."""

    def __init__(self, primaries: list[Any], replicas: list[Any], zookeeper: str, folder: Path) -> None:
        super().__init__(primaries, zookeeper, folder)
        self.primaries, self.servers = primaries, replicas
        self.mariadb = isinstance(primaries[0], MariaDbServer)
        for shard in range(len(primaries)):
            self.await_replicated(shard)

    def insert(self, shard: int, number: int, *before: str) -> None:
        """Commit a row on a primary, on MariaDB in a second of its own."""
        primary = self.primaries[shard]
        if self.mariadb:
            ((now_s,),) = primary.execute("SELECT UNIX_TIMESTAMP()")
            await_true(lambda: primary.execute("SELECT UNIX_TIMESTAMP()") > ((now_s,),), "the next second")
        primary.execute(*before, f"INSERT INTO shop_{shard}.orders VALUES ({number}, 'x', 1)")

    def await_replicated(self, shard: int) -> None:
        """Wait until the replica has all rows of the primary."""
        count = f"SELECT COUNT(*) FROM shop_{shard}.orders"
        servers = self.primaries[shard], self.servers[shard]

        def same() -> bool:
            with contextlib.suppress(pymysql.Error):
                one, other = (server.execute(count) for server in servers)
                return bool(one == other)
            return False

        await_true(same, "the replica has it all")

    @contextlib.contextmanager
    def lagging(self, shard: int) -> Iterator[None]:
        """Let a replica apply nothing meanwhile."""
        word = "SLAVE" if self.mariadb else "REPLICA"
        self.servers[shard].execute(f"STOP {word}")
        try:
            yield
        finally:
            self.servers[shard].execute(f"START {word}")

    def write_by_turns(self) -> None:
        """Commit 0 and 2 on one shard, 1 and 3 on the other, and replicate the first."""
        tagged = () if self.mariadb else ("SET SESSION gtid_next = 'AUTOMATIC:turn'",)
        self.insert(0, 0)
        self.insert(1, 1, *tagged)
        self.insert(0, 2, *tagged)
        self.insert(1, 3)
        self.await_replicated(0)

    def await_low_watermark(self, consumer: canal_group.Consumer, shard: int) -> None:
        """Wait until an idle shard has reported one that was made more than a second from now."""
        ((now_s,),) = self.servers[shard].execute("SELECT UNIX_TIMESTAMP(NOW(6))")

        def frontier_us() -> int:
            return int(consumer.status()["group"]["shards"][shard]["frontier_us"])

        later = f"SELECT UNIX_TIMESTAMP(NOW(6)) > {now_s + 1}"
        await_true(lambda: self.servers[shard].execute(later) == ((1,),), "a second later")
        before_us = frontier_us()
        await_true(lambda: frontier_us() != before_us, "the low watermark moves")

    def source(self, shard: int, reader: dict[str, Any]) -> SourceAddress:
        settings = self.settings(reader=reader)
        source = shard_source(settings, settings.shards[shard])
        assert isinstance(source, SourceAddress)
        return source


@pytest.fixture(scope="module", params=first_quick(1, [MySqlServer, MariaDbServer]), ids=lambda m: m.engine)
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[list[Any], list[Any]]]:
    """Return two primaries, and a replica of each."""
    primaries = [request.param(), request.param()]
    replicas = [request.param(options=["--log-slave-updates=ON"]) for _ in primaries]
    try:
        start_all([*primaries, *replicas])
        for pair in zip(primaries, replicas, strict=True):
            replicate(*pair)
        yield primaries, replicas
    except ServerMissingError as error:
        pytest.skip(str(error))
    finally:
        for server in (*primaries, *replicas):
            server.close()


@pytest.fixture
def shop(
    one_ray: None,
    one_zookeeper: EmbeddedZooKeeper,
    servers: tuple[list[Any], list[Any]],
    tmp_path: Path,
) -> Replicas:
    return Replicas(*servers, one_zookeeper.hosts, tmp_path)


def rows_until(consumer: canal_group.Consumer, count: int) -> list[dict[str, Any]]:
    """Read and acknowledge at least so many inserted rows, in order."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        batch = consumer.get_without_ack(timeout=DEADLINE_S)
        assert batch is not None, found
        found += [row for row in batch.envelope().to_pylist() if row["op"] == "INSERT"]
        consumer.ack(batch.batch_id)
    return found


def ids_of(rows: list[dict[str, Any]]) -> list[int]:
    return [int(dict(row["after"])["id"]) for row in rows]


def late_of(consumer: canal_group.Consumer, shard: int) -> int:
    return int(consumer.status()["group"]["shards"][shard]["late"])


@pytest.mark.soak
def test_by_origin_rows_wait_for_the_replica_that_lags(shop: Replicas):
    with shop.serve(reader=NEVER_LATE) as instance, shop.connect(instance) as consumer:
        with shop.lagging(1):
            shop.write_by_turns()
            shop.await_low_watermark(consumer, 1)
        shop.await_replicated(1)
        shop.insert(0, 4)
        # An idle replica's low watermark is an hour behind; a table that is not kept moves the frontier too.
        shop.primaries[1].execute(
            "CREATE DATABASE IF NOT EXISTS alive",
            "CREATE TABLE IF NOT EXISTS alive.beat (id INT)",
            "INSERT INTO alive.beat VALUES (1)",
        )
        rows = rows_until(consumer, 5)
        assert ids_of(rows) == [0, 1, 2, 3, 4]
        assert not any(row["late"] for row in rows)
        times = [row["commit_us"] for row in rows]
        assert times == sorted(set(times)) == [row["key_us"] for row in rows]
        assert consumer.status()["group"]["late"] == 0
    # A start at a time means the same time.
    for reader, first in ((NEVER_LATE, 3), ({}, 1)):
        if not (shop.mariadb and not reader):
            address = shop.source(1, reader)
            with contextlib.closing(connect(address)) as connection:
                scan = Scan(address, connection, server_facts(address, connection))
                found = scan.at_time(times[2])
            positions = {
                row["pos"]: number
                for row, number in zip(rows, ids_of(rows), strict=True)
                if row["shard"] == "s1"
            }
            assert positions[found.offset] == first


@pytest.mark.soak
def test_by_replica_rows_go_out_as_the_replicas_wrote_them(shop: Replicas):
    """A MariaDB replica writes no times of its own: what it lags is late."""
    with shop.serve() as instance, shop.connect(instance) as consumer:
        with shop.lagging(1):
            shop.write_by_turns()
            assert ids_of(rows_until(consumer, 2)) == [0, 2]
        rows = rows_until(consumer, 2)
        assert ids_of(rows) == [1, 3]
        assert rows[0]["late"] == shop.mariadb, "1 was committed before 2"
        assert late_of(consumer, 1) == sum(row["late"] for row in rows)


@pytest.mark.soak
def test_by_origin_what_lags_more_than_is_allowed_for_is_late_and_counted(shop: Replicas):
    with shop.serve(reader=origin(1)) as instance, shop.connect(instance) as consumer:
        with shop.lagging(1):
            shop.write_by_turns()
            assert ids_of(rows_until(consumer, 2)) == [0, 2], "an idle replica delays the others by a second"
        rows = rows_until(consumer, 2)
        assert ids_of(rows) == [1, 3]
        assert rows[0]["late"], "1 was committed before 2"
        assert late_of(consumer, 1) == sum(row["late"] for row in rows)


@pytest.mark.soak
def test_by_origin_an_idle_primary_causes_no_delay(shop: Replicas):
    shop.servers = shop.primaries
    if shop.mariadb:
        (_, fix), *_ = [
            (check.found, check.fix)
            for check in preflight(shop.source(0, NEVER_LATE))
            if check.name == "reader.commit_time"
        ]
        assert fix == "GRANT SLAVE MONITOR ON *.* TO `canal`@`127.0.0.1`;"
        for primary in shop.primaries:
            primary.execute(fix.rstrip(";"))
    with shop.serve(reader=NEVER_LATE) as instance, shop.connect(instance) as consumer:
        shop.insert(0, 0)
        assert ids_of(rows_until(consumer, 1)) == [0]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("reader", "read", "says"),
    [
        (NEVER_LATE, "replica", "origin: it is a replica; while it is idle, other shards wait 3600 s for it"),
        (NEVER_LATE, "primary", "origin: it replicates no server"),
        ({}, "replica", "replica, but its binlog has only the commit times of its origin"),
        ({}, "primary", None),
    ],
)
def test_the_check_says_what_the_setting_means(
    shop: Replicas, reader: dict[str, Any], read: str, says: str | None
):
    if read == "primary":
        shop.servers = shop.primaries
    found = [check for check in preflight(shop.source(0, reader)) if check.name == "reader.commit_time"]
    if says is None or (not reader and not shop.mariadb):
        assert not found
        return
    assert found[0].ok
    if not (shop.mariadb and reader and read == "primary"):
        assert found[0].found.startswith(says)
