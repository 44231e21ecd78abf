"""A shard's primary is lost in the middle of a snapshot, while its replica lags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from support.deadline import await_true
from support.instance.shard_hosts import FAST, Pair, replicated
from support.instance.shop_copy import Copy, change
from support.soak import first_quick

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer

#: transactions
CHANGES = 40


class Replica:
    """The replica of a primary."""

    def __init__(self, primary: Any, server: Any) -> None:
        self.primary, self.server = primary, server
        self.mariadb = isinstance(server, MariaDbServer)
        self.word = "SLAVE" if self.mariadb else "REPLICA"

    def execute(self, words: str) -> None:
        """Execute a statement on its replication."""
        self.server.execute(words.replace("REPLICA", self.word))

    def end(self) -> tuple[str, int]:
        """Return where the primary's binlog ends."""
        file, offset, *_ = self.primary.execute(
            "SHOW MASTER STATUS" if self.mariadb else "SHOW BINARY LOG STATUS"
        )[0]
        return str(file), int(offset)

    def has(self, what: str) -> tuple[str, int]:
        """Return up to where it has the primary's binlog: `Read`, or `Exec`, applied it."""
        with self.server.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SHOW {self.word} STATUS")
            (row,) = cursor.fetchall()
        source = "Master" if self.mariadb else "Source"
        file = f"Relay_{source}_Log_File" if what == "Exec" else f"{source}_Log_File"
        return row[file], row[f"{what}_{source}_Log_Pos"]


@pytest.fixture(params=first_quick(1, [MySqlServer, MariaDbServer]), ids=lambda make: make.engine)
def servers(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    with replicated(request.param) as found:
        yield found


def test_failover_mid_page(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, servers: list[Any], tmp_path: Path
) -> None:
    """1. Pages come of the primary, and changes. 2. The replica receives all of it, and applies nothing any
    more: it lacks the points of the next pages, some of which are acknowledged. 3. The primary is lost; the
    replica is not read. 4. The replica applies its relay log, and is the primary: rows without an ack
    are read there. 5. The copy equals the replica.
    """
    primary, standby = servers
    replica, shop = Replica(*servers), Pair([primary], one_zookeeper.hosts, tmp_path)
    primary.execute(f"GRANT SELECT ON shop_0.* TO {primary.address().user}@127.0.0.1")
    shop.write(0, 40, 400)
    await_true(lambda: replica.has("Exec") == replica.end(), "the replica has it all")
    settings = {
        "archive": {"folder": str(tmp_path / "archive")},
        "snapshot": {"rows_per_s": 4_000},
        # What has room in it is as far as pages can be ahead of the copy.
        "store": {"size": 8, "mode": "items"},
    }
    with (
        shop.serve(shards=[shop.hosts(servers)], reader=FAST, **settings) as instance,
        shop.connect(instance, client_id="copy", snapshot="initial") as consumer,
    ):
        copy = Copy(consumer)
        change(shop, 1, CHANGES)
        copy.until(lambda: copy.reads)
        replica.execute("STOP REPLICA SQL_THREAD")
        stopped = replica.end()
        change(shop, 2, CHANGES)
        copy.until(lambda: acknowledged(copy) > stopped)
        reads = copy.reads
        copy.until(lambda: copy.reads > reads)
        end = replica.end()
        await_true(lambda: replica.has("Read") == end, "the replica has received it")
        assert replica.has("Exec") != end
        primary.kill()
        # What is read of it by now is taken.
        copy.until(lambda: "lacks transactions that were read" in str(consumer.status()["shards"][0]))
        assert not copy.marks
        reads = copy.reads
        replica.execute("START REPLICA SQL_THREAD")
        await_true(lambda: replica.has("Exec") == end, "the replica has applied it")
        replica.execute("STOP REPLICA")
        replica.execute("RESET REPLICA ALL")
        shop.servers = [standby]
        # Nothing is written to it yet.
        copy.until(lambda: copy.reads > reads)
        change(shop, 3, CHANGES)
        copy.complete(shop)
        copy.check(shop)
        assert [dict(mark.failed) for mark in copy.marks] == [{}]
        assert acknowledged(copy)[0].startswith("other-bin."), "it is the replica's"


def acknowledged(copy: Copy) -> tuple[str, int]:
    """Return up to where of the shard's binlog a copy is."""
    position = copy.consumer.cursor.shards["s0"]
    return position.file, position.offset
