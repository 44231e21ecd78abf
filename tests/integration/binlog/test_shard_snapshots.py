"""Snapshots of a shard on real servers: a lane hands out the rows that there are, and every change."""

from __future__ import annotations

import random
import threading
from contextlib import closing, contextmanager
from dataclasses import replace

import pymysql
import pytest
from support.defaults import shard_wiring
from support.sources.snapshot_client import Copy, SnapshotClient

from canal_group.actors.shard.shard import Shard
from canal_group.binlog.archive.options import ArchiveOptions
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.start import latest_position
from canal_group.conf.stream_settings import FilterSettings, SnapshotSettings
from canal_group.merge.snapshot.cursor import SnapshotCursor

ROWS = 12_000
FILTER = FilterSettings(white="app\\..*")
ID = "app-1-1700000000"


@pytest.fixture(params=["mariadb", "mysql"])
def server(request):
    if request.param == "mariadb":
        return request.getfixturevalue("mariadb")
    mysql = request.getfixturevalue("two_mysqls")[0].start()
    mysql.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    return mysql


@pytest.fixture
def address(server, source_address, tmp_path):
    """The server, as an account that may SELECT, with an archive."""
    archive = ArchiveOptions(str(tmp_path / "archive"), 1.0, 1 << 40, None, 0.99, 0.98, None, None)
    return source_address(server, user="root", password=server.password, archive=archive)


@contextmanager
def running(address, **snapshot):
    shard = Shard(shard_wiring(address, filter=FILTER, snapshot=SnapshotSettings(**snapshot)))
    try:
        yield shard
    finally:
        shard.close(1 << 40)


def now(address):
    with closing(connect(address)) as connection:
        return latest_position(address, connection, server_facts(address, connection))


def begun(address, *wanted, **changes):
    """Return an empty copy that begins with a snapshot."""
    cursor = SnapshotCursor(ID, wanted=wanted or None)
    return Copy(replace(now(address), snapshot=replace(cursor, **changes).to_json()))


def filled(server, table, rows=ROWS, options=", PRIMARY KEY (id)"):
    server.execute(f"CREATE TABLE app.{table} (id BIGINT NOT NULL, v VARCHAR(40) NOT NULL{options})")
    for first in range(0, rows, 4_000):
        values = ", ".join(f"({2 * n}, 'old {n}')" for n in range(first, min(first + 4_000, rows)))
        server.execute(f"INSERT INTO app.{table} VALUES {values}")


def shown(server, table):
    """Return the table's rows by id, as it is now."""
    with server.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(f"SELECT * FROM app.{table}")
        return {row["id"]: row for row in cursor.fetchall()}


class Writer:
    """Changes rows of a table, each in a transaction, until it is closed."""

    def __init__(self, server, table, seed):
        self.server, self.table, self.chance = server, table, random.Random(seed)
        self.stopped, self.count = threading.Event(), 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            while not self.stopped.is_set():
                key, other = (self.chance.randrange(2 * ROWS) for _ in range(2))
                cursor.execute(
                    self.chance.choice(
                        [
                            f"INSERT IGNORE INTO app.{self.table} (id, v) VALUES ({key}, 'new {self.count}')",
                            f"UPDATE app.{self.table} SET v = 'changed {self.count}' WHERE id = {key}",
                            f"DELETE FROM app.{self.table} WHERE id = {key}",
                            f"UPDATE IGNORE app.{self.table} SET id = {other} WHERE id = {key}",
                        ]
                    )
                )
                connection.commit()
                self.count += 1

    def close(self):
        self.stopped.set()
        self.thread.join()


def caught_up(client, server, tables):
    """Return whether a client has the tables as they are."""
    return lambda: all(client.copy.rows.get(table, {}) == shown(server, table) for table in tables)


def test_a_lane_hands_out_full_tables_and_their_changes(server, address):
    """1. Three tables, one of which is altered, one emptied, one has no key, while they are read and written;
    one is not there. 2. The lane is lost, with all after an acknowledged position. 3. From there it hands out
    the same pages. 4. In the end the client has what the tables have; a mark says which one it lacks.
    """
    for table in ("t", "u"):
        filled(server, table)
    filled(server, "w", 300, options="")
    names = ["app.t", "app.u", "app.w", "app.gone"]
    added = {"c": 7}
    with closing(Writer(server, "t", 1)) as writer:
        with running(address, rows_per_s=20_000) as shard:
            client = SnapshotClient(shard, begun(address, *names), added)
            client.read_until(lambda: len(client.copy.pages) > 2, "pages")
            kept = client.saved()
            server.execute(
                "ALTER TABLE app.t ADD COLUMN c INT NOT NULL DEFAULT 7",
                "TRUNCATE app.u",
                "INSERT INTO app.u VALUES (1, 'after')",
            )
            count = len(kept.pages)
            client.read_until(lambda: len(client.copy.pages) > count + 2, "more", free=False)
            lost = client.copy.pages[count:]
        with running(address) as shard:
            client = SnapshotClient(shard, kept, added)
            client.read_until(lambda: client.copy.mark, "the mark")
            assert client.copy.pages[count : count + len(lost)] == lost
            changes = writer.count
            client.read_until(lambda: writer.count > changes + 20, "changes after the mark")
            writer.close()
            client.read_until(caught_up(client, server, "tuw"), "all changes")
            status = client.lane.describe()["snapshot"]
    assert (status["tables"], status["done"], status["over"]) == (4, 3, True)
    assert client.copy.mark.failed.keys() == {"app.gone"}
    assert "doesn't exist" in client.copy.mark.failed["app.gone"]
    assert client.copy.position.snapshot is None
