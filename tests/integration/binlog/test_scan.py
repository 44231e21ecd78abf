"""Starts on real servers: times, files and offsets, GTID sets, in binlogs of several files."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.defaults import chunk_limits
from support.sources.recorder import await_rows, reading

from canal_group.binlog.files.beginning import beginning as beginning_in_files
from canal_group.binlog.files.binlog_files import files_in
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.server.binlog_stream import stream_of
from canal_group.binlog.server.clock import SourceClock
from canal_group.binlog.server.low_watermarks import CaughtUp
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.beginning import beginning
from canal_group.binlog.server.starts.binary_logs import binlog_files
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.binlog.server.starts.start import earliest_position
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.errors import DataError, PositionPurged, SourceUnfit
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.start import After, At, Holding, InFile
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError
from playground.database.servers import start_all

ROWS = 24


@pytest.fixture(scope="module", params=[MySqlServer, MariaDbServer], ids=lambda make: make.engine)
def written(request):
    """A server with a few transactions in each of four files."""
    server = request.param()
    try:
        start_all([server])
        server.execute("CREATE DATABASE app", "CREATE TABLE app.g (id INT PRIMARY KEY, v INT)")
        for number in range(ROWS):
            if number % 6 == 5:
                server.execute("FLUSH BINARY LOGS")
            server.execute(f"INSERT INTO app.g VALUES ({number}, {number})")
        yield server
    except ServerMissingError as error:
        pytest.skip(str(error))
    finally:
        server.close()


@contextlib.contextmanager
def asking(server, source_address):
    address = source_address(server)
    with contextlib.closing(connect(address)) as connection:
        yield address, connection, server_facts(address, connection)


def transactions(address, connection, facts):
    """Every transaction, read from the beginning: (file, begin, end, commit time)."""
    stream = stream_of(
        address,
        FromOffset(earliest_position(address, connection, facts)),
        Decoding(lambda *_: None, chunk_limits()),
        lambda: SourceClock.measure(connection),
    )
    found = []
    with contextlib.closing(stream):
        for item in stream:
            if isinstance(item, CaughtUp):
                return found, stream.whole_seconds
            found += [
                (
                    item.names[each["file"]],
                    int(each["begin_offset"]),
                    int(each["end_offset"]),
                    int(each["commit_us"]),
                )
                for each in item.headers
            ]
    return found, stream.whole_seconds


def test_a_time_is_where_a_scan_of_everything_finds_it(written, source_address):
    with asking(written, source_address) as (address, connection, facts):
        known, whole = transactions(address, connection, facts)
        end = latest_position(address, connection, facts)
        assert len({each[0] for each in known}) > 2
        times = sorted({each[3] + step for each in known[:: 3 if whole else 5] for step in (-1, 0, 1)})
        for time_us in times:
            least = time_us - time_us % 1_000_000 if whole else time_us
            first = next((number for number, each in enumerate(known) if each[3] >= least), None)
            found = beginning(At(time_us), address, connection, facts)
            if first is None:
                assert (found.file, found.offset) == (end.file, end.offset)
            else:
                assert (found.file, found.offset) == known[first][:2], time_us
                assert end.gtid_set.contains(found.gtid_set)
                assert found.gtid_set != end.gtid_set or not facts.gtids


def test_from_a_time_on_exactly_the_later_rows_are_read(written, source_address):
    with asking(written, source_address) as (address, connection, facts):
        known, whole = transactions(address, connection, facts)
        time_us = known[len(known) // 2][3]
        later = sum(each[3] >= (time_us - time_us % 1_000_000 if whole else time_us) for each in known)
        found = beginning(At(time_us), address, connection, facts)
    with reading(address, start=found) as recorder:
        rows = min(later, ROWS)
        await_rows(recorder, "g", rows)
        assert [row["after"]["id"] for row in recorder.rows("g")] == list(range(ROWS - rows, ROWS))


def test_an_offset_is_a_start_where_a_transaction_begins(written, source_address):
    with asking(written, source_address) as (address, connection, facts):
        known, _ = transactions(address, connection, facts)
        file, begin, end, _ = known[len(known) // 2]
        first, last = (beginning(InFile(file, offset), address, connection, facts) for offset in (begin, end))
        assert (first.offset, last.offset) == (begin, end)
        if facts.gtids:
            assert last.gtid_set.contains(first.gtid_set)
            assert first.gtid_set != last.gtid_set
        with pytest.raises(
            DataError, match=f"No transaction of shard s1 begins at {file}:{begin + 1}"
        ) as told:
            beginning(InFile(file, begin + 1), address, connection, facts)
        assert file in told.value.hint
        with pytest.raises(PositionPurged, match="has no binlog file"):
            beginning(InFile("other.000001", 4), address, connection, facts)


def test_an_offset_inside_a_transaction_is_a_start_before_it_if_asked_for(written, source_address):
    with asking(written, source_address) as (address, connection, facts):
        known, _ = transactions(address, connection, facts)
        for file, begin, end, _ in (known[len(known) // 2], known[-1]):
            before = beginning(InFile(file, begin), address, connection, facts)
            for offset in (begin, begin + 1, end - 1):
                found = beginning(Holding(file, offset), address, connection, facts)
                assert (found, found.gtid_set) == (before, before.gtid_set)
            after = beginning(Holding(file, end), address, connection, facts)
            assert after == beginning(InFile(file, end), address, connection, facts)
            with pytest.raises(DataError, match="No transaction of shard s1 begins"):
                beginning(InFile(file, end - 1), address, connection, facts)
        with pytest.raises(PositionPurged, match="has no binlog file"):
            beginning(Holding("other.000001", 4), address, connection, facts)


def test_a_gtid_set_is_a_start(written, source_address):
    with asking(written, source_address) as (address, connection, facts):
        if not facts.gtids:
            pytest.skip("the server writes no GTIDs")
        known, _ = transactions(address, connection, facts)
        half = beginning(InFile(known[-4][0], known[-4][2]), address, connection, facts)
        start = beginning(After(half.gtid_set), address, connection, facts)
        other = "0-1-42" if not facts.mariadb else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
        with pytest.raises(SourceUnfit, match="no GTIDs of the kind"):
            beginning(After(parse_gtid_set(other)), address, connection, facts)
    with reading(address, start=start) as recorder:
        await_rows(recorder, "g", 3)
        assert [row["after"]["id"] for row in recorder.rows("g")] == [ROWS - 3, ROWS - 2, ROWS - 1]


@pytest.mark.parametrize("start", ["earliest", "latest", "-1h"])
def test_a_cursor_comes_before_a_configured_start(written, source_address, start):
    with asking(written, source_address) as (address, connection, facts):
        known, _ = transactions(address, connection, facts)
        cursor = beginning(InFile(known[-4][0], known[-4][2]), address, connection, facts)
    with reading(address, start=cursor, begin=start) as recorder:
        await_rows(recorder, "g", 3)
        assert [row["after"]["id"] for row in recorder.rows("g")] == [ROWS - 3, ROWS - 2, ROWS - 1]
    with reading(address, begin="earliest") as recorder:
        await_rows(recorder, "g", ROWS)


def test_a_time_means_the_same_in_the_files_of_a_server(written, source_address):
    files = files_in(Path(written.folder) / "data")
    with asking(written, source_address) as (address, connection, facts):
        commits = [each[-1] for each in transactions(address, connection, facts)[0]]
        assert len(files) == len(binlog_files(address, connection))
        for time_us in [commits[0], *(each - 1 for each in commits[1::7]), commits[-1]]:
            on_server = beginning(At(time_us), address, connection, facts)
            in_files = beginning_in_files(At(time_us), "s0", written.folder, files, lambda: False)
            assert in_files == replace(on_server, server="")


def test_a_time_before_what_was_purged_is_refused(written, source_address):
    with asking(written, source_address) as (address, connection, facts):
        second = binlog_files(address, connection)[1]
        written.execute(f"PURGE BINARY LOGS TO '{second}'")
        assert binlog_files(address, connection)[0] == second
        with pytest.raises(PositionPurged, match=f"its oldest file, {second}, was created at") as told:
            beginning(At(time.time_ns() // 1000 - 3_600_000_000), address, connection, facts)
        assert "later time" in told.value.hint
