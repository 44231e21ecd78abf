"""Semi-synchronous replies after the archive's sync: what a COMMIT was answered for outlasts its source."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from dataclasses import replace

import pymysql
import pytest
from support.binlog.archived import content, position_of
from support.deadline import await_true
from support.soak import first_quick
from support.sources.archived_source import Archived
from support.sources.dumped_source import only
from support.sources.recorder import reading

from canal_group.merge.errors import DataError, PositionPurged, SourceUnavailable

#: what a COMMIT waits at most, milliseconds: far longer than a test takes
TIMEOUT_MS = 600_000


def wait_for_replies(archived: Archived) -> str:
    """Let commits wait for replies, before they are visible, and the log not be synced; return the prefix."""
    object.__setattr__(archived, "semi_sync", "archive")
    server, prefix, no_replica = archived.server, "rpl_semi_sync_master", "wait_no_slave"
    if server.engine == "mysql":
        prefix, no_replica = "rpl_semi_sync_source", "wait_no_replica"
        try:
            server.execute(f"INSTALL PLUGIN {prefix} SONAME 'semisync_source.so'")
        except pymysql.OperationalError as error:
            pytest.skip(f"MySQL's plugin for semi-synchronous replication is not installed: {error}")
    server.execute(
        "SET GLOBAL sync_binlog = 0",
        f"SET GLOBAL {prefix}_wait_point = 'AFTER_SYNC'",
        f"SET GLOBAL {prefix}_timeout = {TIMEOUT_MS}",
        f"SET GLOBAL {prefix}_{no_replica} = OFF",
        f"SET GLOBAL {prefix}_enabled = ON",
    )
    return prefix


@pytest.mark.parametrize("archived", first_quick(1, ["mariadb", "mysql"]), indirect=True)
def test_what_was_answered_is_archived_when_the_source_forgets_it(archived: Archived) -> None:
    """1. Sessions commit. 2. The source is killed, and loses a part of its log. 3. It gives numbers again."""
    archived.create("a")
    prefix = wait_for_replies(archived)
    server, answered = archived.server, set[int]()

    def clients() -> int:
        return int(server.execute(f"SHOW GLOBAL STATUS LIKE '{prefix}_clients'")[0][1])

    def commit(begin: int) -> None:
        with contextlib.suppress(pymysql.MySQLError, OSError):
            for number in range(begin, begin + 100_000):
                server.execute(f"INSERT INTO app.a VALUES ({number}, 'row-{number}-')")
                answered.add(number)

    address = archived.reader()

    def read_over_a_loss() -> None:
        with reading(address, select=only("a")) as recorder:
            await_true(lambda: clients() == 1, "the dump server counts as a replica")
            file, kept = position_of(server)
            sessions = [threading.Thread(target=commit, args=(begin * 100_000,)) for begin in range(4)]
            for session in sessions:
                session.start()
            await_true(lambda: len(answered) >= 200, "commits are answered")
            server.kill()
            for session in sessions:
                session.join()
            log = server.folder / "data" / file
            os.truncate(log, random.Random(1).randint(kept, kept + (log.stat().st_size - kept) // 2))
            server.start()
            await_true(lambda: len(archived.archive.histories()) == 2, "a history of what it has now")
            with contextlib.suppress(pymysql.MySQLError):
                server.execute("INSERT INTO app.a VALUES (900001, 'again')")
            await_true(lambda: recorder.error, "the reader is refused")

    with pytest.raises(DataError):
        read_over_a_loss()
    first, _ = archived.archive.histories()
    archive = b"".join(content(first, entry.name) for entry in first.manifest.files)
    assert not [number for number in answered if f"row-{number}-".encode() not in archive]
    assert b"again" not in archive


@pytest.mark.parametrize("archived", first_quick(1, ["mariadb", "mysql"]), indirect=True)
def test_a_commit_waits_for_the_sync(archived: Archived) -> None:
    """1. A row is in the archive, and not synced: COMMIT waits. 2. The next dump server syncs it."""
    object.__setattr__(archived, "options", replace(archived.options, sync_s=3_600.0))
    archived.create("a")
    wait_for_replies(archived)
    server = archived.server

    def written(text: bytes) -> bool:
        with contextlib.suppress(PositionPurged, SourceUnavailable):  # it has just been begun
            histories = archived.archive.histories()
            return bool(histories) and text in content(histories[-1], position_of(server)[0])
        return False

    with reading(archived.reader(), select=only("a")):
        await_true(lambda: written(b"CREATE TABLE"), "the archive is written")
        commit = threading.Thread(target=server.execute, args=("INSERT INTO app.a VALUES (1, 'row-1-')",))
        commit.start()
        await_true(lambda: written(b"row-1-"), "the row is written")
        server.execute("SELECT SLEEP(0.5)")
        assert commit.is_alive()
        os.kill(archived.dump_server(), signal.SIGKILL)
        commit.join(30)
        assert not commit.is_alive()
