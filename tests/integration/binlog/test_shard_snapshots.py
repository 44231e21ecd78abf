"""Snapshots of a shard on real servers: a lane hands out the rows that there are, and every change."""

from __future__ import annotations

import queue
import random
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace

import pymysql
import pytest
from support.binlog.archived import options_of
from support.deadline import await_true
from support.defaults import ring_of, shard_wiring
from support.sources.snapshot_client import Copy, SnapshotClient

from canal_group.actors.shard.shard import Shard
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.start import latest_position
from canal_group.binlog.snapshot import page_reader, table_pages
from canal_group.conf.stream_settings import FilterSettings, SnapshotSettings
from canal_group.merge.snapshot.cursor import SnapshotCursor

ROWS = 12_000
FILTER = FilterSettings(white="app\\..*")
ID = "app-1-1700000000"


@pytest.fixture
def address(server, source_address, tmp_path):
    """The server, as an account that may SELECT, with an archive."""
    return source_address(server, user="root", password=server.password, archive=options_of(tmp_path))


@contextmanager
def running(address, store=None, **snapshot):
    changes = {} if store is None else {"store": store}
    shard = Shard(shard_wiring(address, filter=FILTER, snapshot=SnapshotSettings(**snapshot), **changes))
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


def test_tables_that_cannot_be_read_fail_by_name(server, address):
    """1. While a snapshot is paused, the stream goes on. 2. Going on it reads the rows of conditions; a wrong
    one, one that is not one expression, a table without the right and one that is gone fail. 3. The mark
    says so.
    """
    for table in "abcde":
        filled(server, table, 20)
    reader = replace(address, user="canal_reader", password="secret")
    server.execute(
        "CREATE USER canal_reader@'%' IDENTIFIED BY 'secret'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, REFERENCES ON *.* TO canal_reader@'%'",
        *(f"GRANT SELECT ON app.{table} TO canal_reader@'%'" for table in "acde"),
    )
    where = {"app.a": "id < 10 OR id = 20", "app.c": "nope = 1", "app.e": "id < 10) OR (id = 20"}
    names = [f"app.{table}" for table in "abcde"]
    try:
        with running(reader) as shard:
            client = SnapshotClient(shard, begun(address, *names, where=where, paused=True))
            server.execute("INSERT INTO app.a VALUES (11, 'new')", "DROP TABLE app.d")
            client.read_until(lambda: client.copy.rows.get("a"), "a change")
            assert client.copy.rows == {"a": {11: {"id": 11, "v": "new"}}}
            assert client.lane.describe()["snapshot"]["paused"]
            client.reopen(paused=False)
            client.read_until(lambda: client.copy.mark, "the mark")
            status = client.lane.describe()["snapshot"]
    finally:
        server.execute("DROP USER canal_reader@'%'")
    assert sorted(client.copy.rows["a"]) == [0, 2, 4, 6, 8, 11, 20]
    assert client.copy.rows.keys() == {"a"}
    failed = client.copy.mark.failed
    assert failed.keys() == status["failed"].keys() == {"app.b", "app.c", "app.d", "app.e"}
    assert "GRANT SELECT" in failed["app.b"]
    assert "Unknown column 'nope'" in failed["app.c"]
    assert "doesn't exist" in failed["app.d"]
    assert "syntax" in failed["app.e"]
    assert status["rows"] == 6


def test_a_full_ring_holds_back_readers_of_pages_only(server, address):
    """Whoever asks how far the snapshot is, or closes the lane, does not wait for room."""
    filled(server, "t")
    with running(address, store=ring_of("items", 2)) as shard:
        client = SnapshotClient(shard, begun(address))
        await_true(lambda: client.lane.describe()["ring"]["full"], "the ring is full")
        answers = queue.SimpleQueue()
        asking = threading.Thread(
            target=lambda: answers.put((client.lane.describe()["snapshot"], shard.close(1 << 40)))
        )
        asking.start()
        status, _ = answers.get(timeout=10)
    assert (status["tables"], status["done"], status["failed"]) == (1, 0, {})
    assert status["rows"] > 0
    await_true(
        lambda: not any(each.name.startswith("snapshot-") for each in threading.enumerate()),
        "those who read pages have ended",
        10,
    )


@pytest.mark.parametrize("limit", ["threads_running_max", "rows_per_s"])
def test_a_source_that_does_much_is_left_alone(mariadb, source_address, tmp_path, limit):
    archive = options_of(tmp_path)
    address = source_address(mariadb, user="root", password=mariadb.password, archive=archive)
    filled(mariadb, "t", 2_000)
    limits = {"threads_running_max": 1} if limit == "threads_running_max" else {"rows_per_s": 600}
    sleepers = [threading.Thread(target=mariadb.execute, args=("SELECT SLEEP(1.2)",)) for _ in range(4)]
    for each in sleepers if limit == "threads_running_max" else ():
        each.start()
    began_s = time.monotonic()
    with running(address, workers=1, **limits) as shard:
        client = SnapshotClient(shard, begun(address))
        if limit == "threads_running_max":
            await_true(
                lambda: "threads of the server" in (client.lane.describe()["snapshot"]["waits_for"] or ""),
                "it waits",
            )
            assert client.lane.describe()["snapshot"]["rows"] == 0
        client.read_until(lambda: client.copy.mark, "the mark")
    assert time.monotonic() - began_s > 1
    assert len(client.copy.rows["t"]) == 2_000


def test_a_table_without_a_key_has_a_limit(mariadb, source_address, tmp_path, monkeypatch):
    monkeypatch.setattr(table_pages, "WHOLE_BYTES_MAX", 100_000)
    monkeypatch.setattr(table_pages, "SELECT_BYTES_MAX", 20_000)
    monkeypatch.setattr(page_reader.PageReader.pages, "__kwdefaults__", {"bytes_max": 10_000})
    address = source_address(mariadb, user="root", password=mariadb.password, archive=options_of(tmp_path))
    filled(mariadb, "large", 8_000, options="")
    filled(mariadb, "small", 2_000, options="")
    filled(mariadb, "keyed", 8_000)
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address))
        client.read_until(lambda: client.copy.mark, "the mark")
    assert client.copy.mark.failed.keys() == {"app.large"}
    assert {table: len(rows) for table, rows in client.copy.rows.items()} == {"small": 2_000, "keyed": 8_000}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_lane_that_is_lost_often(server, address, seed):
    """With images that lack columns, keys that change, and tables that are emptied or altered meanwhile."""
    chance = random.Random(seed)
    for table in "tu":
        filled(server, table)
    image = chance.choice(["FULL", "MINIMAL", "NOBLOB"])
    server.execute(f"SET GLOBAL binlog_row_image = '{image}'")
    try:
        with closing(Writer(server, "t", seed)) as writer, closing(Writer(server, "u", -seed)) as other:
            copy = begun(address)
            for _ in range(chance.randrange(2, 6)):
                with running(address, rows_per_s=40_000) as shard:
                    client = SnapshotClient(shard, copy, {"c": 7})
                    for _ in range(chance.randrange(20)):
                        client.read(items_max=chance.choice([3, 100_000]))
                    copy = client.saved()
                    if chance.random() < 0.3:
                        server.execute("TRUNCATE app.u")
                    for _ in range(chance.randrange(20)):
                        client.read(free=False)
            with running(address) as shard:
                client = SnapshotClient(shard, copy, {"c": 7})
                client.read_until(lambda: client.copy.mark, "the mark")
                writer.close()
                other.close()
                client.read_until(caught_up(client, server, "tu"), "all changes")
        assert client.copy.mark.failed == {}
    finally:
        server.execute("SET GLOBAL binlog_row_image = 'FULL'")
