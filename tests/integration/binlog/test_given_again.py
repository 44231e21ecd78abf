"""Numbers that are given again: a log that lost its end, was reset, or is of a server with another one's id.

What a server wrote under numbers that were read before is never left out: the stream is refused by name, with
the range in doubt. Where everything is the same, it goes on.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

import pytest
from support.deadline import await_true
from support.defaults import chunk_limits
from support.sources.purged_logs import NO_GTID_MODE, reset, rotate_and_purge
from support.sources.recorder import await_rows, reading
from support.sources.replication import (
    FIRST_MARIADB,
    MAKES,
    OTHER_LOG,
    gtids,
    ids_of,
    insert,
    read_all,
    replicate,
    servers,
)

from canal_group.binlog.server.listener import position_after
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.logged import logged_at_source
from canal_group.merge.errors import DataError, PositionRefused
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer

START_BY = pytest.mark.parametrize("start_by", ["auto", "gtid"])
REPLICA = [*OTHER_LOG, "--log-slave-updates=ON"]
MARIADB_ID = 1


def identity(address):
    with contextlib.closing(connect(address)) as connection:
        return server_facts(address, connection).identity


def logged(address, file, offset=4):
    """Every transaction of a file, and when the file was created."""
    address = replace(address, server_id=9002)
    with logged_at_source(address, identity(address), file, offset) as found:
        return found.created(), list(found)


def read_position(address, count):
    """Read what there is, and return the position after it as a cursor holds it."""
    position = read_all(address, count)
    created_s, _ = logged(address, position.file)
    return replace(position, created_s=created_s)


def end(server):
    statement = "SHOW BINARY LOG STATUS" if isinstance(server, MySqlServer) else "SHOW MASTER STATUS"
    ((file, offset, *_),) = server.execute(statement)
    return file, int(offset)


def cut(server, file, offset):
    """Kill a server, and take the end of a file of its binlog, as a power loss does that was not synced."""
    server.kill()
    os.truncate(server.folder / "data" / file, offset)
    server.start()


def refused(address, position, **options):
    """What a reader stops with; it hands nothing over."""

    def read():
        with reading(address, start=position, **options) as recorder:
            await_true(lambda: recorder.error is not None or recorder.rows("g"), "an end")
            assert ids_of(recorder) == []

    with pytest.raises(DataError) as caught:
        read()
    return caught.value


def goes_on(address, position, *ids, **options):
    with reading(address, start=position, **options) as recorder:
        await_rows(recorder, "g", len(ids))
        await_true(lambda: recorder.of("caught_up"), "a low watermark")
    assert ids_of(recorder) == list(ids)


@pytest.mark.parametrize(
    ("make", "options", "start_by"),
    [
        (MariaDbServer, [], "gtid"),
        pytest.param(MySqlServer, NO_GTID_MODE, "file", marks=pytest.mark.soak),
        pytest.param(MySqlServer, [], "gtid", marks=pytest.mark.soak),
        (MariaDbServer, [], "auto"),
    ],
    ids=["mariadb-gtid", "mysql-file", "mysql-gtid", "mariadb-auto"],
)
def test_a_server_that_lost_the_end_of_its_log(make, options, start_by, source_address):
    """1. Rows are read. 2. The log loses the last ones, and more are written, under the same numbers."""
    with servers(make, options) as (server,):
        address = source_address(server)
        insert(server, 1, 2, 3)
        file, offset = end(server)
        kept = read_all(address, 3)
        insert(server, 4, 5, 6, 7)
        position = read_position(address, 7)
        cut(server, file, offset)
        insert(server, *range(100, 106))
        error = refused(address, position, start_by=start_by)
        assert isinstance(error, PositionRefused)
        assert error.details["in_doubt"].startswith(f"{file}:{offset} to {position.offset}")
        if not options:
            assert f"after {kept.gtid_set}" in str(error)
            assert gtids(server).contains(position.gtid_set), "the numbers do not tell them apart"
        if make is MariaDbServer or start_by == "file":
            # Else MySQL refuses the GTIDs of the position that was kept, whatever is read further.
            error = refused(address, kept, start_by=start_by, read_to=lambda: (position,))
            assert error.details["offset"] == position.offset, "what was read further is compared too"
        goes_on(address, kept, *range(100, 106))


@MAKES
def test_a_server_that_was_reset_gives_its_numbers_again(make, source_address):
    """Offsets coincide as well: nothing but times tells, of the file or of the transaction."""
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 1, 2, 3)
        position = read_position(address, 3)
        reset(server)
        insert(server, 101, 102, 103, 104)
        assert gtids(server).contains(position.gtid_set)
        assert "created at" in str(refused(address, position, start_by="gtid"))
        unknown = replace(position, created_s=0)
        for start_by in ("auto", "gtid"):
            error = refused(address, unknown, start_by=start_by)
            assert "which was read" in str(error)
        elsewhere = replace(position, file="elsewhere.000001")
        assert error.details["in_doubt"] == f"the transactions up to {position.last.gtid}"
        assert position.last.gtid in str(refused(address, elsewhere, start_by="gtid"))


@START_BY
def test_a_promoted_replica_with_the_id_of_its_dead_source(start_by, source_address):
    """1. The replica lacks what was read last. 2. It takes the source's id and gives its numbers again."""
    with servers(MariaDbServer, [], ["--log-slave-updates=ON"]) as (source, replica):
        replicate(source, replica)
        insert(source, 1, 2, 3)
        await_true(lambda: gtids(replica).contains(gtids(source)), "the replica has all of it")
        replica.execute("STOP SLAVE", "RESET SLAVE ALL")
        # A position without the file's creation, as if both servers had created it within one second.
        behind = replace(read_position(source_address(source), 3), created_s=0)
        insert(source, 4, 5, 6, 7)
        position = read_position(source_address(source), 7)
        source.stop()
        replica.execute(f"SET GLOBAL server_id = {source.server_id}")
        await_true(
            lambda: replica.execute("SELECT UNIX_TIMESTAMP()")[0][0] * 1_000_000 > position.commit_us,
            "the next second",
        )
        insert(replica, *range(100, 106))
        assert gtids(replica).contains(position.gtid_set)
        for each in (position, replace(position, created_s=0)):
            refused(source_address(replica), each, start_by=start_by)
            refused(source_address(replica), behind, start_by=start_by, read_to=(each,).__iter__)
        goes_on(source_address(replica), behind, *range(100, 106), start_by=start_by)


def diverged(make, server, other, position, ids):
    """Let another server have other transactions under the numbers of a server, up to a position's."""
    if make is MariaDbServer:
        session = f"SET SESSION server_id = {server.server_id}"
        numbers = [f"SET SESSION gtid_seq_no = {number}" for number in range(1, len(ids) + 1)]
    else:
        uuid = position.server
        session = "SELECT 1"
        numbers = [f"SET gtid_next = '{uuid}:{number}'" for number in range(1, len(ids) + 1)]
    inserts = [f"INSERT INTO app.g VALUES ({each}, '')" for each in ids]
    other.execute(session, *(each for pair in zip(numbers, inserts, strict=True) for each in pair))


@FIRST_MARIADB
def test_another_server_with_other_transactions_under_the_numbers(make, source_address):
    """1. It has other ones under all numbers. 2. It has purged them, and nothing that it has is left out."""
    with servers(make, [], OTHER_LOG) as (server, other):
        insert(server, 1, 2, 3)
        address, theirs = source_address(server), source_address(other)
        position = read_all(address, 3)
        ((now_s,),) = other.execute("SELECT UNIX_TIMESTAMP()")
        await_true(lambda: other.execute("SELECT UNIX_TIMESTAMP()")[0][0] > now_s, "the next second")
        diverged(make, server, other, position, [101, 102, 103])
        assert gtids(other).contains(position.gtid_set)
        other.execute("FLUSH BINARY LOGS")
        error = refused(theirs, position)
        assert isinstance(error, PositionRefused)
        assert position.last.gtid in str(error)
        rotate_and_purge(other)
        insert(other, 104)
        goes_on(theirs, position, 104)


STATEMENTS = (
    "INSERT INTO app.g VALUES (1, 'a')",
    "BEGIN; INSERT INTO app.g VALUES (2, 'b'); SELECT SLEEP(1.2); UPDATE app.g SET v = 'c'; COMMIT",
    "SET timestamp = 1000000000; INSERT INTO app.g VALUES (3, 'd'); SET timestamp = DEFAULT",
    "CREATE TABLE app.h (id INT PRIMARY KEY); ALTER TABLE app.h ADD v INT; TRUNCATE app.h",
    "XA START 'x'; DELETE FROM app.g WHERE id = 3; XA END 'x'; XA PREPARE 'x'; DO SLEEP(1.2); XA COMMIT 'x'",
    "XA START 'y'; INSERT INTO app.g VALUES (5, 'f'); XA END 'y'; XA COMMIT 'y' ONE PHASE",
    "BEGIN; INSERT INTO app.h VALUES (1, 1); SAVEPOINT s; DELETE FROM app.h; ROLLBACK TO s; COMMIT",
    "ANALYZE TABLE app.g; CREATE USER other@'127.0.0.1'; DROP USER other@'127.0.0.1'; DROP TABLE app.h",
)


@FIRST_MARIADB
@pytest.mark.parametrize(
    "options", [[], pytest.param(["--slave-parallel-threads=4"], marks=pytest.mark.soak)]
)
def test_a_replica_has_the_times_of_its_source(make, options, source_address):
    """Of each kind of transaction: what is compared on another server is what replication keeps."""
    if options and make is MySqlServer:
        pytest.skip("its replicas apply in parallel without that")
    with servers(make, [], [*REPLICA, *options]) as (source, replica):
        replicate(source, replica)
        for statements in STATEMENTS:
            source.execute(*statements.split("; "))
        await_true(lambda: gtids(replica).contains(gtids(source)), "the replica has all of it")
        found = []
        for server in (source, replica):
            _, transactions = logged(source_address(server), end(server)[0])
            found.append({each.gtid: each.original_us for each in transactions})
        assert found[0] == found[1]
        assert len(found[0]) >= len(STATEMENTS)


@FIRST_MARIADB
def test_a_log_cut_before_a_consumed_transaction_skips_no_other_rows(make, source_address):
    """The next transaction is another one: no rows of it are taken for those that were read."""
    count = 2000
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 0)
        with reading(address, limits=chunk_limits(rows_max=500)) as recorder:
            file, offset = end(server)
            rows = ", ".join(f"({i}, REPEAT('x', 100))" for i in range(1, count + 1))
            server.execute(f"INSERT INTO app.g VALUES {rows}")
            await_rows(recorder, "g", count)
        fragment = next(chunk for chunk in recorder.chunks if chunk.headers[-1]["rows"])
        (opened,) = recorder.of("opened")
        position = position_after(opened, fragment, opened.server, {file: opened.created_s})
        assert (position.file, position.offset) == (file, offset)
        cut(server, file, offset)
        insert(server, *range(10_000, 10_000 + count // 100))
        for start_by in ("auto", "gtid"):
            error = refused(address, position, start_by=start_by)
            assert "rows were read" in str(error)
