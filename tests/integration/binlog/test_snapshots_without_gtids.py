"""Snapshots of a MySQL without GTIDs: nothing proves what is visible, so a setting says when it is."""

from __future__ import annotations

from contextlib import closing

import pytest
from integration.group_fixtures import all_started
from support.binlog.archived import options_of
from support.soak import first_quick
from support.sources.snapshot_client import SnapshotClient
from support.sources.snapshot_lanes import Writer, begun, caught_up, filled, running
from support.sources.stall import STALL_MS, Stall, run_stalled

from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.binlog.snapshot.visibility import SettledLog
from canal_group.conf.load import build_instance
from canal_group.merge.snapshot.point import LogOffset
from canal_group.programs.command.check.snapshot_check import check_snapshot
from playground.database.mysql import MySqlServer

NO_GTIDS = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]


@pytest.fixture(scope="module")
def without_gtids():
    with all_started(MySqlServer(options=NO_GTIDS)) as (server,):
        yield server


@pytest.fixture
def server(without_gtids):
    without_gtids.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    return without_gtids


@pytest.fixture
def address(server, source_address, tmp_path):
    return source_address(server, user="root", password=server.password, archive=options_of(tmp_path))


def checked(address, tmp_path, **snapshot):
    """Return whether `check` finds a proof, and which."""
    shard = {"name": "s1", "host": "h", "user": "root"}
    value = {"preset": "memory", "destination": "d", "shards": [shard], "filter": {"white": r"app\..*"}}
    begins = {"archive": {"folder": str(tmp_path)}, "consumer": {"snapshot": "initial"}}
    checks = check_snapshot(build_instance({**value, **begins, "snapshot": snapshot}), address)
    return next((each.ok, each.found) for each in checks if each.name == "snapshot")


def test_its_tables_fail_by_name_without_the_setting(server, address, tmp_path):
    """And with one that a COMMIT may exceed."""
    filled(server, "t", 20)
    assert checked(address, tmp_path) == (False, "not proven: the server has no GTIDs")
    with running(address) as shard:
        client = SnapshotClient(shard, begun(address))
        client.read_until(lambda: client.copy.mark, "the mark")
    assert "or snapshot.visible_after_s to when a commit can be read" in client.copy.mark.failed["app.t"]
    assert client.copy.rows == {}
    server.execute("DROP TABLE app.t")
    with Stall(server):
        ok, says = checked(address, tmp_path, visible_after_s=STALL_MS / 1000)
        assert (ok, says.partition(" for")[0]) == (False, "not proven: a COMMIT waits up to 3 s")
        with running(address, visible_after_s=STALL_MS / 1000) as shard:
            client = SnapshotClient(shard, begun(address))
            client.read_until(lambda: client.copy.mark, "the mark")
        assert "snapshot.visible_after_s above 3." in client.copy.mark.failed["app.t"]


@pytest.mark.parametrize("seed", first_quick(1, range(5)))
def test_a_copy_is_what_the_tables_have(server, address, tmp_path, seed):
    """Two tables, of which one is written to, and one without a key."""
    assert checked(address, tmp_path, visible_after_s=0.5)[0]
    filled(server, "t")
    filled(server, "w", 300, options="")
    with closing(Writer(server, "t", seed)) as writer, running(address, visible_after_s=0.5) as shard:
        client = SnapshotClient(shard, begun(address))
        client.read_until(lambda: client.copy.mark, "the mark")
        writer.close()
        client.read_until(caught_up(client, server, "tw"), "all changes")
    assert client.copy.mark.failed == {}
    assert len(client.copy.pages) > 3


class AtOnce:
    """What is written counts as visible."""

    after_s = 0.0

    def __init__(self, address):
        self.address = address

    def written(self, server, end):
        """Nothing is noted."""

    def settled(self, _server):
        return end_of(self.address)[1]


def end_of(address):
    """Return a server's identity, and where its binlog ends."""
    with closing(connect(address)) as connection:
        facts = server_facts(address, connection)
        end = latest_position(address, connection, facts)
        return facts.identity, LogOffset(end.file, end.offset)


@pytest.mark.parametrize("waits", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_semi_sync_stall(server, address, waits):
    """An update whose commit waits is not visible. If all that is written counts as visible, it is lost."""
    now_s = 0.0
    after_s = STALL_MS / 1000 + 1
    with Stall(server):
        settled = SettledLog(after_s, lambda: now_s) if waits else AtOnce(address)
        settled.written(*end_of(address))
        now_s += after_s
        copy, first = run_stalled(server, address, base_inside=False, settled=settled)
    assert first == {1: "old"}
    assert copy.rows == {1: "new" if waits else "old"}
