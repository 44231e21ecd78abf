"""Binlogs that a server rotates, purges and resets."""

from __future__ import annotations

import time

from integration.shop import DEADLINE_S
from support.deadline import await_true
from support.sources.recorder import reading
from support.sources.replication import ids_of

from playground.database.mysql import MySqlServer
from playground.database.server_process import DatabaseServer

NO_GTID_MODE = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]


def files_of(server):
    return [row[0] for row in server.execute("SHOW BINARY LOGS")]


def rotate_and_purge(server, times=3):
    """Begin new files, as a server does every night, and let go of all but the last."""
    for _ in range(times):
        server.execute("FLUSH BINARY LOGS")
    last = files_of(server)[-1]

    def purged():
        server.execute(f"PURGE BINARY LOGS TO '{last}'")
        return files_of(server) == [last]

    await_true(purged, "the server lets go of its old files")
    return last


def reset(server):
    """Begin the binary logs anew, in a later second than they were begun before."""
    mysql = isinstance(server, MySqlServer)
    statement = "RESET BINARY LOGS AND GTIDS" if mysql else "RESET MASTER"
    ((begun,),) = server.execute("SELECT UNIX_TIMESTAMP()")
    await_true(lambda: server.execute("SELECT UNIX_TIMESTAMP()")[0][0] > begun, "the next second")
    server.execute(statement)


def read_from(address, position):
    with reading(address, start=position) as recorder:
        await_true(lambda: recorder.error is not None or recorder.rows("g"), "an end")
        assert ids_of(recorder) == []


def purge_all_but_the_last(server: DatabaseServer) -> None:
    """Purge a source's binlogs, as soon as the source lets go of the binlogs that were being read."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        names = [row[0] for row in server.execute("SHOW BINARY LOGS")]
        if len(names) == 1:
            return
        assert time.monotonic() < deadline_s, f"{names} are not purged"
        server.execute(f"PURGE BINARY LOGS TO '{names[-1]}'")
