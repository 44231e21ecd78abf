"""Commits that wait for a replica: they are written and delivered, and cannot be read yet."""

from __future__ import annotations

import threading

import pymysql
import pytest
from support.deadline import await_true
from support.sources.recorder import await_rows, reading
from support.sources.snapshot_walk import Copy, Walk

from canal_group.binlog.server.starts.latest import latest_position

#: how long a COMMIT waits for a replica that does not come, milliseconds
STALL_MS = 3_000
#: error of MySQL for a plugin
INSTALLED_ALREADY = 1125


class Stall:
    """A server whose commits wait for a replica: written and delivered, and not visible yet."""

    def __init__(self, server):
        self.server = server
        self.prefix = "rpl_semi_sync_source" if server.engine == "mysql" else "rpl_semi_sync_master"
        if server.engine == "mysql":
            try:
                server.execute(f"INSTALL PLUGIN {self.prefix} SONAME 'semisync_source.so'")
            except pymysql.MySQLError as error:
                if error.args[0] != INSTALLED_ALREADY:
                    pytest.skip(f"MySQL's plugin for semi-synchronous replication is missing: {error}")
        self.no_replica = "wait_no_replica" if server.engine == "mysql" else "wait_no_slave"

    def __enter__(self):
        """Make a table of one row; after that commits wait."""
        self.server.execute(
            "CREATE TABLE app.t (id BIGINT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO app.t VALUES (1, 'old')"
        )
        self.set(enabled="ON", timeout=STALL_MS, wait_point="'AFTER_SYNC'", **{self.no_replica: "ON"})
        return self

    def __exit__(self, *_):
        self.set(enabled="OFF")

    def set(self, **variables):
        self.server.execute(
            *(f"SET GLOBAL {self.prefix}_{name} = {value}" for name, value in variables.items())
        )


def updating(server):
    thread = threading.Thread(target=server.execute, args=("UPDATE app.t SET v = 'new' WHERE id = 1",))
    thread.start()
    return thread


def run_stalled(stalled, address, *, base_inside, point_of=None, settled=None):
    """Return a copy of a row that is updated, and what the page inside the stall had.

    Args:
        stalled: the server; its commits wait.
        address: of it.
        base_inside: whether the copy begins inside the stall.
        point_of: as for a `Copy`.
        settled: as for a `Walk`.
    """
    with Walk(address, settled=settled) as walk:
        base = latest_position(address, walk.connection, walk.facts)
        with reading(address, start=base) as recorder:
            await_true(lambda: recorder.of("caught_up"), "the reader has caught up")
            thread = updating(stalled)
            await_rows(recorder, "t", 1)
            if base_inside:
                base = latest_position(address, walk.connection, walk.facts)
            copy = Copy(walk, base, point_of)
            if not base_inside:
                for chunk in recorder.chunks:
                    copy.chunk(chunk)
            first = copy.read()
            thread.join(30)
            while copy.asked:
                copy.read()
            return copy, first
