"""Readers of one source that read from one dump server, on real servers."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import replace

import pytest
from support.ddl.backlog import PREPARE, backlog_bytes, sent_bytes, written
from support.deadline import await_true
from support.soak import first_quick
from support.sources.dumped_source import Source, dump_server_pids, ids, only
from support.sources.recorder import await_rows, reading

from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.merge.errors import DataError

TABLES = "abc"


def test_three_filters_one_dump(source: Source) -> None:
    """1. Three readers begin at once. 2. They share one dump, each its own rows. 3. They change files."""
    source.create(*TABLES)
    with contextlib.ExitStack() as readers:
        found = {
            table: readers.enter_context(reading(source.reader(number), select=only(table)))
            for number, table in enumerate(TABLES)
        }
        await_true(lambda: len(source.dumps) == 1, "one dump")
        dump = source.dumps
        for table in TABLES:
            source.insert(table, range(50))
        source.server.execute("FLUSH BINARY LOGS")
        for table in TABLES:
            source.insert(table, range(50, 100))
        for table, recorder in found.items():
            await_rows(recorder, table, 100)
            assert ids(recorder, table) == list(range(100))
            assert not recorder.of("disconnected")
            await_true(lambda read=recorder: len(read.of("caught_up")) > 3, "low watermarks")
        assert source.dumps == dump, "the same connection all the time"


def test_a_reader_begins_with_a_file(source: Source) -> None:
    """1. A reader is there when a file begins. 2. Another one attaches at that file's beginning."""
    source.create("a")
    with reading(source.reader(0), select=only("a")) as first:
        (begin,) = first.of("opened")
        await_true(lambda: len(source.dumps) == 1, "one dump")
        source.server.execute("FLUSH BINARY LOGS")
        source.insert("a", range(10))
        await_rows(first, "a", 10)
        file = str(source.server.execute("SHOW BINARY LOGS")[-1][0])
        start = replace(begin, file=file, offset=4, created_s=0)
        with reading(source.reader(1), start=start, select=only("a")) as second:
            await_rows(second, "a", 10)
            assert ids(second, "a") == list(range(10))
            await_true(lambda: len(source.dumps) == 1, "one dump")
            assert len(second.of("connected")) == 1, "it has read from the dump server from the beginning"


def test_a_first_start_has_its_backlog_sent_once(source: Source) -> None:
    """1. A backlog with statements. 2. A reader that knows nothing searches and reads what the window has."""
    source.server.execute(*PREPARE)
    address = source.reader(dump_window_bytes_max=64 << 20)
    with contextlib.closing(connect(address)) as connection:
        start = latest_position(address, connection, server_facts(address, connection))
    rows = written(source.server)
    before = sent_bytes(source.server)
    with reading(address, start=start) as recorder:
        await_true(lambda: recorder.of("caught_up") or recorder.error, "the end of the binlog")
        sent = sent_bytes(source.server) - before
        assert len(source.dumps) == 1
    for table, expected in rows.items():
        assert [row["after"] for row in recorder.rows(table)] == expected, table
    assert sent < 1.15 * backlog_bytes(source.server, start)
    for pid in dump_server_pids(address):
        os.kill(pid, signal.SIGKILL)


def test_a_late_joiner_moves_over(source: Source) -> None:
    """1. One reader is at the end. 2. Another is behind the window: it reads by itself, then moves over."""
    source.create("a")
    with reading(source.reader(0), select=only("a")) as first:
        (begin,) = first.of("opened")
        source.insert("a", range(20), "x" * 200_000)
        await_rows(first, "a", 20)
        with reading(source.reader(1), start=begin, select=only("a")) as late:
            await_rows(late, "a", 20)
            await_true(lambda: len(late.of("connected")) == 2, "it moves over")
            await_true(lambda: len(source.dumps) == 1, "one dump")
            source.insert("a", range(20, 40))
            await_rows(late, "a", 40)
            assert ids(late, "a") == list(range(40))
            assert not late.of("disconnected")
        await_rows(first, "a", 40)
        assert ids(first, "a") == list(range(40))


def test_the_dump_server_is_killed(source: Source) -> None:
    """1. The dump server is killed while rows are written. 2. The readers go on, and share a dump again."""
    source.create("a")
    with (
        reading(source.reader(0), select=only("a")) as one,
        reading(source.reader(1), select=only("a")) as two,
    ):
        for begin in (0, 100):
            await_true(lambda: len(source.dumps) == 1, "one dump")
            if begin:
                os.kill(source.dump_server(), signal.SIGKILL)
            source.insert("a", range(begin, begin + 100))
        for recorder in (one, two):
            await_rows(recorder, "a", 200)
            assert ids(recorder, "a") == list(range(200))
            assert not recorder.of("disconnected"), "it is not a failure of the source"
        await_true(lambda: len(source.dumps) == 1, "one dump again")


def test_a_slow_reader_does_not_stop_other_readers(source: Source) -> None:
    """1. A reader stops. 2. Another gets more than the window. 3. The first reads by itself, and returns."""
    source.create("a")
    with (
        reading(source.reader(0), select=only("a")) as slow,
        reading(source.reader(1), select=only("a")) as fast,
    ):
        await_true(lambda: len(source.dumps) == 1, "one dump")
        slow.gate.clear()
        source.insert("a", range(1))
        await_true(lambda: slow.held is not None, "it is held up")
        source.insert("a", range(1, 30), "x" * 200_000)
        await_rows(fast, "a", 30)
        slow.gate.set()
        await_rows(slow, "a", 30)
        await_true(lambda: len(source.dumps) == 1, "it is back")
        source.insert("a", range(30, 40))
        for recorder in (slow, fast):
            await_rows(recorder, "a", 40)
            assert ids(recorder, "a") == list(range(40))
            assert not recorder.of("disconnected")


# MySQL stamps microseconds: on MariaDB a claim may be wrong by a second without being noticed.
@pytest.mark.parametrize("source", ["mysql"], indirect=True)
def test_an_idle_dump_server_says_nothing_of_what_it_has_not_read(source: Source) -> None:
    """1. The dump server is paused. 2. A row is committed between heartbeats. 3. It resumes: none is late."""
    source.create("a")
    with reading(source.reader(0), select=only("a")) as recorder:
        await_true(lambda: recorder.of("caught_up"), "low watermarks")
        server = source.dump_server()
        for number in range(4):
            heard = len(recorder.of("caught_up"))
            os.kill(server, signal.SIGSTOP)
            try:
                # The dump server's socket has heartbeats from before the row, and from after it.
                source.server.execute("SELECT SLEEP(0.25)")
                source.insert("a", range(number, number + 1))
                source.server.execute("SELECT SLEEP(0.25)")
            finally:
                os.kill(server, signal.SIGCONT)
            await_rows(recorder, "a", number + 1)
            await_true(lambda before=heard: len(recorder.of("caught_up")) > before + 1, "low watermarks")
        assert not recorder.of("disconnected")
    frontier_us = 0
    for kind, value in recorder.events:
        if kind == "caught_up":
            frontier_us = max(frontier_us, value)
        elif kind == "chunk":
            commits_us = [int(header["commit_us"]) for header in value.headers]
            assert all(each >= frontier_us for each in commits_us), "it came after it was ruled out"


def test_a_position_of_another_history_is_not_served(source: Source) -> None:
    """1. A reader shares a dump. 2. One whose file was created at another time is refused by the source."""
    source.create("a")
    with reading(source.reader(0), select=only("a")) as recorder:
        (begin,) = recorder.of("opened")
        source.insert("a", range(1))
        await_rows(recorder, "a", 1)
        other = replace(begin, created_s=begin.created_s - 100)
        with (
            pytest.raises(Exception, match="was created at"),
            reading(source.reader(1), start=other, select=only("a")) as refused,
        ):
            await_true(lambda: refused.error, "it is refused")


def test_the_source_is_reset(own_mariadb, source_address) -> None:
    """1. The binary logs are reset. 2. The dump server ends. 3. The reader's own connection says why."""
    source = Source(own_mariadb, source_address)
    source.create("a")
    recorder = None

    def read_over_a_reset():
        nonlocal recorder
        with reading(source.reader(0), select=only("a")) as recorder:
            source.insert("a", range(10))
            own_mariadb.execute("FLUSH BINARY LOGS")
            source.insert("a", range(10, 20))
            await_rows(recorder, "a", 20)
            own_mariadb.execute("RESET MASTER")
            source.insert("a", range(20, 30))
            await_true(lambda: recorder.error, "it is refused")

    with pytest.raises(DataError, match="reset"):
        read_over_a_reset()
    assert ids(recorder, "a") == list(range(20)), "nothing of the new binary logs"


def test_the_source_restarts(own_mariadb, source_address) -> None:
    """1. The source ends and comes back. 2. The readers say that it was gone, and share a dump again."""
    source = Source(own_mariadb, source_address)
    source.create("a")
    with (
        reading(source.reader(0), select=only("a")) as one,
        reading(source.reader(1), select=only("a")) as two,
    ):
        await_true(lambda: len(source.dumps) == 1, "one dump")
        source.insert("a", range(10))
        own_mariadb.restart()
        source.insert("a", range(10, 20))
        for recorder in (one, two):
            await_rows(recorder, "a", 20)
            assert ids(recorder, "a") == list(range(20))
        await_true(lambda: len(source.dumps) == 1, "one dump again")


def test_a_reader_by_gtid_moves_over_at_the_end(source: Source) -> None:
    """1. A reader comes with a position of another server. 2. It reads by GTID. 3. It moves over."""
    source.create("a")
    with reading(source.reader(0), select=only("a")) as first:
        (begin,) = first.of("opened")
        source.insert("a", range(10))
        await_rows(first, "a", 10)
        if not begin.gtid_set:
            pytest.skip("the server writes no GTIDs")
        with reading(source.reader(1), start=replace(begin, server="4711"), select=only("a")) as other:
            await_rows(other, "a", 10)
            await_true(lambda: len(other.of("connected")) == 2, "it moves over")
            await_true(lambda: len(source.dumps) == 1, "one dump")
            os.kill(source.dump_server(), signal.SIGKILL)
            source.insert("a", range(10, 20))
            await_rows(other, "a", 20)
            assert ids(other, "a") == list(range(20))
            assert not other.of("disconnected")


def test_rows_that_were_prepared_before(source: Source) -> None:
    """1. Rows are prepared. 2. A reader attaches after that. 3. They are committed: it finds them, once."""
    source.create("a")
    with contextlib.closing(source.server.connect()) as connection, connection.cursor() as cursor:
        for statement in ("XA START 'x'", "INSERT INTO app.a VALUES (1, '')", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
        with reading(source.reader(0), select=only("a")) as recorder:
            source.insert("a", range(2, 4))
            await_rows(recorder, "a", 2)
            cursor.execute("XA COMMIT 'x'")
            source.insert("a", range(4, 6))
            await_rows(recorder, "a", 5)
            assert ids(recorder, "a") == [2, 3, 1, 4, 5]
            await_true(lambda: len(recorder.of("connected")) >= 2, "it reads from the dump server again")


@pytest.mark.parametrize("window_bytes", first_quick(0, [1 << 20, 64 << 20]))
def test_an_event_of_several_packets(source: Source, window_bytes: int) -> None:
    """A row of 17 MiB, which fits into the window of a dump server, or does not."""
    source.create("a")
    source.server.execute("SET GLOBAL max_allowed_packet = 67108864")
    with contextlib.ExitStack() as readers:
        found = [
            readers.enter_context(
                reading(source.reader(number, dump_window_bytes_max=window_bytes), select=only("a"))
            )
            for number in range(2)
        ]
        await_true(lambda: len(source.dumps) == 1, "one dump")
        for number in range(4):
            size = (17 << 20) if number % 2 else 1
            source.server.execute(f"INSERT INTO app.a VALUES ({number}, REPEAT('x', {size}))")
        for recorder in found:
            await_rows(recorder, "a", 4)
            assert ids(recorder, "a") == list(range(4))
            assert not recorder.of("disconnected")
        await_true(lambda: len(source.dumps) == 1, "one dump again")


@pytest.mark.soak
def test_by_tls(tls_mysql, source_address) -> None:
    """The dump server reaches the source as its readers do."""
    source = Source(tls_mysql.server, source_address)
    tls = {"ca": str(tls_mysql.ca), "cert": None, "key": None, "verify": True}
    tls_mysql.server.execute("CREATE DATABASE app")
    source.create("a")
    with (
        reading(source.reader(0, ssl=tls), select=only("a")) as one,
        reading(source.reader(1, ssl=tls), select=only("a")) as two,
    ):
        await_true(lambda: len(source.dumps) == 1, "one dump")
        source.insert("a", range(100), "x" * 20_000)
        for recorder in (one, two):
            await_rows(recorder, "a", 100)
            assert ids(recorder, "a") == list(range(100))


@pytest.mark.soak
def test_many_readers(source: Source) -> None:
    """32 readers, half of which begin late, while rows are written and the dump server is killed."""
    source.create(*(f"t{number}" for number in range(8)))
    source.server.execute("SET GLOBAL max_connections = 500")
    count = 32
    with contextlib.ExitStack() as readers:

        def begin(number, start=None):
            table = f"t{number % 8}"
            address = source.reader(number, dump_window_bytes_max=8 << 20)
            return readers.enter_context(reading(address, start=start, select=only(table)))

        found = [begin(0)]
        (start,) = found[0].of("opened")
        found += [begin(number, start) for number in range(1, count // 2)]
        written = 0
        for step in range(6):
            for table in range(8):
                source.insert(f"t{table}", range(written, written + 50), "x" * 5_000)
            written += 50
            if step == 2:
                found += [begin(number, start) for number in range(count // 2, count)]
            if step == 4:
                await_true(lambda: len(source.dumps) == 1, "one dump")
                os.kill(source.dump_server(), signal.SIGKILL)
        for number, recorder in enumerate(found):
            await_rows(recorder, f"t{number % 8}", written)
            assert ids(recorder, f"t{number % 8}") == list(range(written))
        await_true(lambda: len(source.dumps) == 1, "one dump")
