"""Lanes of a shard on real servers whose clients begin with a snapshot, tables for them, and writers."""

from __future__ import annotations

import random
import threading
from contextlib import closing, contextmanager
from dataclasses import replace

import pymysql
from support.defaults import shard_wiring
from support.sources.snapshot_client import Copy

from canal_group.actors.shard.shard import Shard
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.conf.stream_settings import FilterSettings, SnapshotSettings
from canal_group.merge.snapshot.cursor import SnapshotCursor

ROWS = 12_000
FILTER = FilterSettings(white="app\\..*")
ID = "app-1-1700000000"


@contextmanager
def running(address, store=None, rules=(), **snapshot):
    changes = {} if store is None else {"store": store}
    kept = FilterSettings(white=FILTER.white, tables=rules)
    shard = Shard(shard_wiring(address, filter=kept, snapshot=SnapshotSettings(**snapshot), **changes))
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
