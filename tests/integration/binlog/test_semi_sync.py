"""Semi-synchronous replication on real servers: a COMMIT returns after the reader's reply, and not before."""

from __future__ import annotations

import contextlib
import threading

import pymysql
import pytest
from support.deadline import await_true
from support.defaults import chunk_limits, source_reader
from support.sources.recorder import Recorder, await_rows, of_app, reading

from canal_group.actors.store.ring import RingStore
from canal_group.binlog.server.preflight.preflight import preflight
from canal_group.conf.stream_settings import StoreSettings
from canal_group.merge.errors import SourceUnfit
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError

#: what a COMMIT waits at most, milliseconds: far longer than a test takes
TIMEOUT_MS = 600_000
OPTIONS = ["--max-allowed-packet=64M"]


class Source:
    """A server with semi-synchronous replication.

    Args:
        server: a running one.
        prefix: what the names of its variables begin with.
    """

    def __init__(self, server, prefix):
        self.server, self.prefix = server, prefix

    def set(self, **variables):
        settings = (f"SET GLOBAL {self.prefix}_{name} = {value}" for name, value in variables.items())
        self.server.execute(*settings)

    def counts(self):
        """Return its counters by the ends of their names."""
        rows = self.server.execute(f"SHOW GLOBAL STATUS LIKE '{self.prefix}_%'")
        return {name[len(self.prefix) + 1 :]: value for name, value in rows}

    def count(self, name):
        return int(self.counts()[name])

    def kill_dumps(self):
        rows = self.server.execute(
            "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog%'"
        )
        for row in rows:
            with contextlib.suppress(pymysql.MySQLError):  # it has ended already
                self.server.execute(f"KILL {row[0]}")

    @contextlib.contextmanager
    def waiting_commit(self, value):
        """Commit a row in a thread, and wait until the source waits for a reply to it."""
        waiting = self.count("wait_sessions")
        thread = threading.Thread(
            target=self.server.execute, args=(f"INSERT INTO app.t VALUES ({value}, 'x')",)
        )
        thread.start()
        try:
            await_true(lambda: self.count("wait_sessions") > waiting, "the COMMIT waits")
            yield thread
        finally:
            self.set(enabled="OFF")
            thread.join(30)
            self.set(enabled="ON")


def returned(thread):
    thread.join(30)
    return not thread.is_alive()


@pytest.fixture(scope="module", params=[MariaDbServer, MySqlServer], ids=lambda make: make.engine)
def whole_source(request):
    try:
        server = request.param(options=OPTIONS).start()
    except ServerMissingError as error:
        pytest.skip(str(error))
    with server:
        prefix = "rpl_semi_sync_master"
        if server.engine == "mysql":
            prefix = "rpl_semi_sync_source"
            try:
                server.execute(f"INSTALL PLUGIN {prefix} SONAME 'semisync_source.so'")
            except pymysql.OperationalError as error:
                pytest.skip(f"MySQL's plugin for semi-synchronous replication is not installed: {error}")
        yield Source(server, prefix)


@pytest.fixture
def source(whole_source):
    """A source without replicas, on which a COMMIT waits for nobody until one comes."""
    no_replica = "wait_no_replica" if whole_source.server.engine == "mysql" else "wait_no_slave"
    whole_source.set(enabled="ON", timeout=TIMEOUT_MS, **{no_replica: "OFF"})
    whole_source.kill_dumps()
    await_true(lambda: not whole_source.count("clients"), "the last test's reader is gone")
    whole_source.server.execute(
        "DROP DATABASE IF EXISTS app",
        "CREATE DATABASE app",
        "CREATE TABLE app.t (id INT PRIMARY KEY, v LONGTEXT)",
    )
    whole_source.no_replica = no_replica
    return whole_source


def await_replica(source):
    """Wait until the source waits for the reader, which has caught up."""
    await_true(
        lambda: source.count("clients") == 1 and source.counts()["status"] == "ON", "the reader counts"
    )


class RingRecorder(Recorder):
    """A listener that stores what it is told in a ring, as a shard does."""

    def __init__(self, ring):
        super().__init__()
        self.ring = ring

    def chunk_read(self, chunk):
        self.ring.put(chunk)
        super().chunk_read(chunk)

    def free(self):
        """Free everything: all cursors are past it."""
        run = self.ring.get_within(0.0)
        self.ring.ack(int(run.headers["sequence"][-1]))


@contextlib.contextmanager
def reading_into(ring, address, start_by="auto"):
    recorder = RingRecorder(ring)
    reader = source_reader(address, of_app, chunk_limits(), recorder, ring=ring, start_by=start_by)

    def run():
        # A source that a test turns off at its end may be met by a reader that still reconnects.
        with contextlib.suppress(SourceUnfit):
            reader.run(None)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield recorder
    finally:
        reader.stop()
        thread.join(20)
        assert not thread.is_alive(), "the reader stops"


def test_a_commit_waits_for_the_listener(source, source_address):
    address = source_address(source.server, semi_sync="ring")
    before = source.count("yes_tx")
    with reading(address) as recorder:
        await_replica(source)
        source.server.execute("INSERT INTO app.t VALUES (1, 'a')")
        recorder.gate.clear()
        with source.waiting_commit(2) as commit:
            await_true(lambda: recorder.held, "the reader holds the row")
            assert commit.is_alive()
            assert source.count("wait_sessions") == 1
            recorder.gate.set()
            assert returned(commit)
            assert source.count("yes_tx") == before + 2
        # The source gives up on a reader that is held, and waits again when that has caught up.
        await_replica(source)
        source.set(timeout=1)
        recorder.gate.clear()
        source.server.execute("INSERT INTO app.t VALUES (3, 'a')", "INSERT INTO app.t VALUES (4, 'a')")
        assert source.counts()["status"] == "OFF"
        source.set(timeout=TIMEOUT_MS)
        recorder.gate.set()
        await_replica(source)
        yes = source.count("yes_tx")
        source.server.execute("INSERT INTO app.t VALUES (5, 'a')")
        assert source.count("yes_tx") == yes + 1
        await_rows(recorder, "t", 5)


def test_every_commit_is_replied_to_and_every_row_is_right(source, source_address):
    """Rotated files, events of several packets, changes of definitions, and several sessions at once."""
    address = source_address(source.server, semi_sync="ring", read_timeout_s=60.0)
    with reading(address) as recorder:
        await_replica(source)
        yes, no = source.count("yes_tx"), source.count("no_tx")
        source.server.execute(
            "INSERT INTO app.t VALUES (1, REPEAT('a', 17000000))",
            "FLUSH BINARY LOGS",
            "INSERT INTO app.t VALUES (2, REPEAT('b', 34000000))",
            "CREATE TABLE app.u (id INT)",
            "FLUSH BINARY LOGS",
        )
        sessions = [
            threading.Thread(
                target=source.server.execute,
                args=[f"INSERT INTO app.t VALUES ({100 * session + row}, 'c')" for row in range(50)],
            )
            for session in range(1, 5)
        ]
        for session in sessions:
            session.start()
        for session in sessions:
            session.join()
        # MySQL counts a group of transactions that were written together once.
        assert yes < source.count("yes_tx") <= yes + 203
        assert source.count("no_tx") == no
        await_rows(recorder, "t", 202)
        rows = {row["after"]["id"]: row["after"]["v"] for row in recorder.rows("t")}
        assert len(recorder.rows("t")) == 202
    assert rows.pop(1) == "a" * 17_000_000
    assert rows.pop(2) == "b" * 34_000_000
    assert rows == {100 * session + row: "c" for session in range(1, 5) for row in range(50)}
    assert not recorder.of("disconnected")


def test_a_commit_waits_until_the_ring_is_freed(source, source_address):
    """The source is silent meanwhile: no heartbeat wakes the reader."""
    address = source_address(source.server, semi_sync="cursor", heartbeat_ms=60_000, read_timeout_s=90.0)
    ring = RingStore(StoreSettings())
    with reading_into(ring, address) as recorder:
        await_replica(source)
        with source.waiting_commit(1) as commit:
            await_rows(recorder, "t", 1)
            assert source.count("wait_sessions") == 1
            assert commit.is_alive()
            recorder.free()
            assert returned(commit)


@pytest.mark.parametrize("start_by", ["file", "gtid"])
def test_a_lost_connection_does_not_answer_for_the_cursors(source, source_address, start_by):
    address = source_address(source.server, semi_sync="cursor")
    ring = RingStore(StoreSettings())
    with reading_into(ring, address, start_by) as recorder:
        await_replica(source)
        source.set(**{source.no_replica: "ON"})
        with source.waiting_commit(1) as commit:
            await_rows(recorder, "t", 1)
            source.kill_dumps()
            if (source.server.engine, start_by) == ("mysql", "gtid"):
                # It refuses a GTID whose COMMIT waits: the reader is away until the source gives up.
                await_true(
                    lambda: any("lacks" in str(e) for e in recorder.of("disconnected")), "it is refused"
                )
                assert source.count("wait_sessions") == 1
                return
            await_true(lambda: len(recorder.of("connected")) == 2, "the reader connects again")
            caught_up = len(recorder.of("caught_up"))
            await_true(lambda: len(recorder.of("caught_up")) > caught_up, "it has read to the end again")
            assert source.count("wait_sessions") == 1
            assert commit.is_alive()
            recorder.free()
            assert returned(commit)
        assert len(recorder.rows("t")) == 1, "what the ring holds is not read again"


def test_a_source_without_it_is_refused(source, source_address):
    source.set(enabled="OFF")
    address = source_address(source.server, semi_sync="ring")
    (check,) = [check for check in preflight(address) if check.name == "semi_sync"]
    assert not check.ok
    assert check.fix == f"SET GLOBAL {source.prefix}_enabled = ON;"
    with pytest.raises(SourceUnfit, match=f"semi_sync is {source.prefix}_enabled = OFF"), reading(address):
        pass
    with reading(source_address(source.server)) as recorder:
        source.server.execute("INSERT INTO app.t VALUES (1, 'a')")
        await_rows(recorder, "t", 1)
