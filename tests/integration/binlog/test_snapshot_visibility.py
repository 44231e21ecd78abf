"""Snapshots of real servers whose commits can be read in another order than they are written or counted."""

from __future__ import annotations

import contextlib
import itertools
import threading
from contextlib import closing

import pytest
from support.binlog.archived import options_of
from support.deadline import await_true
from support.soak import first_quick
from support.sources.replication import OTHER_LOG, replicate, servers
from support.sources.snapshot_client import SnapshotClient
from support.sources.snapshot_lanes import Writer, begun, caught_up, filled, running, shown

from playground.database.mysql import MySqlServer

#: rows that each session inserts, at most
WRITTEN_MAX = 2_000


@pytest.mark.parametrize("threads", first_quick(1, [2, 5]))
@pytest.mark.parametrize("case", ["visible_before_gtid_executed", "binlog_order_commits_off"])
def test_of_tiny_commits(mysql, source_address, tmp_path, case, threads):
    """Many sessions insert, one row each: no row is read before its insert is delivered, and none is lost."""
    address = source_address(mysql, user="root", password=mysql.password, archive=options_of(tmp_path))
    filled(mysql, "t", 2_000)
    mysql.execute(f"SET GLOBAL binlog_order_commits = {'OFF' if case.endswith('off') else 'ON'}")
    stopped = threading.Event()

    def insert(first):
        with closing(mysql.connect()) as connection, connection.cursor() as cursor:
            for key in itertools.islice(itertools.count(first, 2 * threads), WRITTEN_MAX):
                if stopped.is_set():
                    break
                cursor.execute(f"INSERT INTO app.t VALUES ({key}, 'new')")

    writers = [threading.Thread(target=insert, args=(2 * each + 1,)) for each in range(threads)]
    try:
        for each in writers:
            each.start()
        with running(address) as shard:
            client = SnapshotClient(shard, begun(address))
            client.read_until(lambda: client.copy.mark, "the mark")
            for number in range(10):
                # What is inserted meanwhile is read, too.
                client.begin_again(number)
                client.read_until(lambda: client.copy.mark, "another mark")
            stopped.set()
            client.read_until(lambda: not any(each.is_alive() for each in writers), "the end of writing")
            client.read_until(caught_up(client, mysql, "t"), "all changes")
        assert len(client.copy.rows["t"]) > 2_100
    finally:
        stopped.set()
        for each in writers:
            each.join()
        mysql.execute("SET GLOBAL binlog_order_commits = ON")


@pytest.mark.soak
def test_replica_gaps(source_address, tmp_path):
    """A replica applies side by side, and commits in another order: what it has executed has gaps."""
    apart = ["--replica-parallel-workers=8", "--replica-preserve-commit-order=OFF"]
    with servers(MySqlServer, [], [*OTHER_LOG, *apart]) as (source, replica):
        replicate(source, replica)
        filled(source, "t")
        await_true(lambda: caught_up_with(source, replica), "the replica has it all")
        address = source_address(
            replica, user="root", password=replica.password, archive=options_of(tmp_path)
        )
        with contextlib.ExitStack() as open_:
            writers = [open_.enter_context(closing(Writer(source, "t", seed))) for seed in range(3)]
            with running(address) as shard:
                client = SnapshotClient(shard, begun(address))
                client.read_until(lambda: client.copy.mark, "the mark")
                for number in range(5):
                    client.begin_again(number)
                    client.read_until(lambda: client.copy.mark, "another mark")
                for each in writers:
                    each.close()
                client.read_until(lambda: caught_up_with(source, replica), "the replica has it all")
                client.read_until(caught_up(client, replica, "t"), "all changes")


def caught_up_with(source, replica):
    return replica.execute("SHOW TABLES FROM app LIKE 't'") and shown(source, "t") == shown(replica, "t")
