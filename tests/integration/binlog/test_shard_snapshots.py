"""Snapshots of a shard on real servers: a lane hands out the rows that there are, and every change."""

from __future__ import annotations

import queue
import random
import shutil
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.binlog.archived import options_of
from support.deadline import await_true
from support.defaults import ring_of
from support.sources.snapshot_client import SnapshotClient
from support.sources.snapshot_lanes import ROWS, Writer, begun, caught_up, filled, running, shown

from canal_group.actors.snapshot import lane_snapshot, page_workers
from canal_group.binlog.snapshot import page_reader, point_reader, table_pages


@pytest.fixture
def address(server, source_address, tmp_path):
    """The server, as an account that may SELECT, with an archive."""
    return source_address(server, user="root", password=server.password, archive=options_of(tmp_path))


def test_crash_between_pages_and_replay_of_page(server, address):
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
    assert (status["tables"], status["done"], status["over"]) == (3, 3, True)
    assert (client.copy.mark.failed, client.copy.mark.absent) == ({}, ("app.gone",))
    assert client.copy.position.snapshot is None


def test_rows_that_move_without_events(server, address):
    """1. A table that is being read exchanges rows with one that was read. 2. One that was read is emptied.
    3. One has no rows, and fails; with those of a file it is read again.
    """
    parts = "PARTITION p0 VALUES LESS THAN (9000), PARTITION p1 VALUES LESS THAN MAXVALUE"
    for table, rows in {"f": 30, "t": ROWS, "u": 30, "w": 300}.items():
        filled(server, table, rows)
    filled(server, "other", 200)
    server.execute(*(f"ALTER TABLE app.{each} PARTITION BY RANGE (id) ({parts})" for each in "tw"))
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH TABLES app.other FOR EXPORT")
        cursor.execute("SELECT @@datadir")
        folder = Path(cursor.fetchone()[0]) / "app"
        shutil.copy(folder / "other.ibd", folder / "copied.ibd")
    names = [f"app.{each}" for each in "uwft"]
    with running(address, rows_per_s=8_000) as shard:
        client = SnapshotClient(shard, begun(address, *names))
        client.read_until(lambda: len(client.copy.rows.get("t", ())) > 1_000, "a part of t")
        read = {table: len(client.copy.rows[table]) for table in "fuw"}
        server.execute(
            "ALTER TABLE app.t EXCHANGE PARTITION p0 WITH TABLE app.u",
            "ALTER TABLE app.w TRUNCATE PARTITION p0",
            "INSERT INTO app.w VALUES (1, 'after'), (10001, 'after')",
            "ALTER TABLE app.f DISCARD TABLESPACE",
        )
        client.read_until(lambda: "app.f" in client.lane.describe()["snapshot"]["failed"], "f fails")
        shutil.move(folder / "copied.ibd", folder / "f.ibd")
        server.execute("ALTER TABLE app.f IMPORT TABLESPACE", "UPDATE app.f SET v = 'after' WHERE id = 2")
        client.read_until(lambda: client.copy.mark, "the mark")
        client.read_until(caught_up(client, server, "tuwf"), "all rows")
        assert read == {"f": 30, "u": 30, "w": 300}
        assert client.copy.mark.failed == {}
        server.execute("ALTER TABLE app.t DROP PARTITION p0")
        client.read_until(lambda: client.copy.rows["t"] == {}, "a statement that says so after the mark")


def test_pause_resume_bad_condition_dropped_table_missing_right(server, address):
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
    where = {"app.a": "id < 10 OR id = 20", "app.c": "nope = 1", "app.e": "id < < 10"}
    names = [f"app.{table}" for table in (*"abcde", "never")]
    try:
        with running(reader) as shard:
            client = SnapshotClient(shard, begun(address, *names, where=where, paused=True))
            server.execute("DROP TABLE app.d", "INSERT INTO app.a VALUES (11, 'new')")
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
    assert failed.keys() == {"app.b", "app.c", "app.e"}
    assert status["failed"] == failed
    assert client.copy.mark.absent == ("app.d", "app.never"), "although they could not be selected"
    assert "GRANT SELECT" in failed["app.b"]
    assert "names nope, which is not a column" in failed["app.c"]
    assert "does not understand a statement (1064)" in failed["app.e"]
    assert status["rows"] == 6


def test_net_write_timeout(server, address):
    """A full ring holds back readers of pages, and keeps no transaction open. Whoever asks how far it is, or
    closes the lane, does not wait for room.
    """
    filled(server, "t")
    with running(address, store=ring_of("items", 2)) as shard:
        client = SnapshotClient(shard, begun(address))
        await_true(lambda: client.lane.describe()["ring"]["full"], "the ring is full")
        await_true(
            lambda: not server.execute("SELECT 1 FROM information_schema.innodb_trx"), "no transaction"
        )
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


@pytest.mark.parametrize("how", ["quiet", "rotated", "reset"])
def test_idle_source(server, address, how):
    """Pages enter although nothing is written: where a file ends or begins, and in the first one there is."""
    filled(server, "t", 2_000)
    if how == "reset":
        server.execute("RESET MASTER" if server.engine == "mariadb" else "RESET BINARY LOGS AND GTIDS")
    if how == "rotated":
        server.execute("FLUSH BINARY LOGS")
    copy = begun(address)
    if how == "rotated":
        server.execute("FLUSH BINARY LOGS")
    with running(address) as shard:
        client = SnapshotClient(shard, copy)
        client.read_until(lambda: client.copy.mark, "the mark")
        assert client.copy.rows["t"] == shown(server, "t")
        assert client.lane.held.intake.commit_us > 0
        server.execute("INSERT INTO app.t VALUES (1, 'after')")
        client.read_until(caught_up(client, server, "t"), "a change")


def test_purge_mid_snapshot_and_shard_moves_mid_range(server, address, tmp_path):
    """1. A lane is lost with its disk, while the source purges what it can. 2. On another machine, which has
    the cursor only, what was not acknowledged is read again.
    """
    filled(server, "t")
    with closing(Writer(server, "t", 5)) as writer:
        with running(address, rows_per_s=5_000) as shard:
            client = SnapshotClient(shard, begun(address))
            client.read_until(lambda: client.copy.pages, "a page")
            copy, count = client.saved(), len(client.copy.pages)
            client.read_until(lambda: len(client.copy.pages) > count, "another one", free=False)
        server.execute("FLUSH BINARY LOGS", f"PURGE BINARY LOGS TO '{copy.position.file}'")
        with running(replace(address, archive=options_of(tmp_path / "other"))) as shard:
            client = SnapshotClient(shard, copy)
            client.read_until(lambda: client.copy.mark, "the mark")
            writer.close()
            client.read_until(caught_up(client, server, "t"), "all changes")
    assert client.copy.mark.failed == {}


def test_metadata_lock_and_undo_growth(server, address):
    """While a snapshot is read, and waits for its limit of rows, a statement does not wait, and InnoDB has no
    old transaction.
    """
    filled(server, "t")
    with running(address, rows_per_s=2_000) as shard:
        client = SnapshotClient(shard, begun(address), {"c": 7})
        client.read_until(lambda: client.copy.pages, "a page")
        began_s = time.monotonic()
        server.execute(
            "SET SESSION lock_wait_timeout = 2", "ALTER TABLE app.t ADD COLUMN c INT NOT NULL DEFAULT 7"
        )
        assert time.monotonic() - began_s < 2
        for _ in range(5):
            client.read()
            old = "TIMESTAMPDIFF(SECOND, trx_started, NOW()) > 1"
            assert not server.execute(f"SELECT * FROM information_schema.innodb_trx WHERE {old}")
        assert not client.copy.mark


def test_pages_wait_for_a_client_but_not_for_ever(mariadb, source_address, tmp_path, monkeypatch):
    """It acknowledges nothing, and gets all of the table."""
    monkeypatch.setattr(lane_snapshot, "HELD_MAX", 1)
    monkeypatch.setattr(page_workers, "_ROOM_MAX_S", 0.3)
    address = source_address(mariadb, user="root", password=mariadb.password, archive=options_of(tmp_path))
    filled(mariadb, "t", 2_000)
    with running(address, workers=1) as shard:
        client = SnapshotClient(shard, begun(address))
        client.read_until(lambda: client.copy.pages, "a page", free=False)
        began_s = time.monotonic()
        client.read_until(lambda: client.copy.mark, "the mark", free=False)
    assert time.monotonic() - began_s > 0.3
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


@pytest.mark.parametrize("references", [", REFERENCES", ""])
def test_select_on_some_columns_names_the_grant(server, address, references):
    filled(server, "part", 5)
    reader = replace(address, user="canal_part", password="secret")
    server.execute(
        "CREATE USER canal_part@'%' IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT{references} ON *.* TO canal_part@'%'",
        "GRANT SELECT (id) ON app.part TO canal_part@'%'",
    )
    try:
        with running(reader) as shard:
            client = SnapshotClient(shard, begun(address, "app.part"))
            client.read_until(lambda: client.copy.mark, "the mark")
    finally:
        server.execute("DROP USER canal_part@'%'")
    assert client.copy.rows == {}
    failure = client.copy.mark.failed["app.part"]
    assert failure.endswith("GRANT SELECT ON `app`.* TO `canal_part`@`%`;")


ALTERS = {
    "another name of the index": ("RENAME INDEX u TO w", "RENAME INDEX w TO u"),
    "another key": ("DROP INDEX u, ADD UNIQUE u (v)", "DROP INDEX u, ADD UNIQUE u (id)"),
    "other columns": ("ADD COLUMN c INT", "DROP COLUMN c"),
}


@pytest.mark.parametrize("alters", ALTERS.values(), ids=ALTERS)
def test_a_table_that_is_altered_while_it_is_read_is_read(server, address, alters):
    """Six times between a look at the table, its plan and its pages."""
    filled(server, "t", 3_000, options=", UNIQUE u (id)")
    with running(address, rows_per_s=2_000) as shard:
        client = SnapshotClient(shard, begun(address, "app.t"))
        for round_ in range(6):
            pages = len(client.copy.pages)
            server.execute(f"ALTER TABLE app.t {alters[round_ % 2]}")
            client.read_until(lambda seen=pages: len(client.copy.pages) > seen or client.copy.mark, "a page")
        client.read_until(lambda: client.copy.mark, "the mark")
    assert client.copy.mark.failed == {}
    assert {key: row["v"] for key, row in client.copy.rows["t"].items()} == {
        key: row["v"] for key, row in shown(server, "t").items()
    }


def test_a_table_that_is_dropped_before_it_is_read_did_not_fail(server, address):
    """As tools do with the table that they have copied: before its turn, and while it is read."""
    for table in ("t", "u", "_t_del"):
        filled(server, table, 3_000)
    with running(address, rows_per_s=3_000) as shard:
        client = SnapshotClient(shard, begun(address))
        client.read_until(lambda: client.copy.pages, "a page")
        server.execute("DROP TABLE app._t_del", "DROP TABLE app.u")
        client.read_until(lambda: client.copy.mark, "the mark")
        status = client.lane.describe()["snapshot"]
    assert client.copy.mark.failed == {}
    assert status["failed"] == {}
    assert client.copy.rows["t"] == shown(server, "t")


def test_an_inserted_row_that_a_page_has_gets_its_defaults(mysql, source_address, tmp_path, monkeypatch):
    """A row is inserted, by an image that lacks a column, after a page's point and before its SELECT."""
    address = source_address(mysql, user="root", password=mysql.password, archive=options_of(tmp_path))
    filled(mysql, "t", 100)
    mysql.execute("ALTER TABLE app.t ALTER v SET DEFAULT 'usual'")
    read_point, keys = vars(point_reader.PointReader)["_low"], iter((51,))

    def insert_after(reader):
        point = read_point(reader)
        for key in keys:
            mysql.execute("SET SESSION binlog_row_image = MINIMAL", f"INSERT INTO app.t (id) VALUES ({key})")
        return point

    monkeypatch.setattr(point_reader.PointReader, "_low", insert_after)
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address, "app.t"))
        client.read_until(lambda: client.copy.mark, "the mark")
    assert client.copy.rows["t"][51] == {"id": 51, "v": "usual"}
    assert client.copy.rows["t"] == shown(mysql, "t")


def test_a_table_of_many_columns_is_read(server, address):
    columns = ", ".join(f"c{number} INT" for number in range(1_000))
    server.execute(f"CREATE TABLE app.t (id INT PRIMARY KEY, {columns})")
    server.execute("INSERT INTO app.t (id, c999) VALUES (1, 7)")
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address, "app.t"))
        client.read_until(lambda: client.copy.mark, "the mark")
    assert (client.copy.mark.failed, client.copy.rows["t"]) == ({}, shown(server, "t"))


def test_a_table_that_grows_faster_than_it_is_read_is_read(server, address):
    """Rows are inserted after its last one, until the mark is there."""
    filled(server, "t", 3_000)
    with running(address, rows_per_s=2_000) as shard:
        client = SnapshotClient(shard, begun(address, "app.t"))
        for first in range(10_000, 60_000, 100):
            values = ", ".join(f"({key}, 'new')" for key in range(first, first + 100))
            server.execute(f"INSERT INTO app.t VALUES {values}")
            client.read_until(
                lambda key=first: client.copy.mark or key in client.copy.rows.get("t", {}), "rows"
            )
            if client.copy.mark:
                break
        assert client.copy.mark, "it ends while rows come"
        client.read_until(caught_up(client, server, "t"), "all rows")
    assert sum(len(ids) for *_, ids in client.copy.pages) < 10_000
