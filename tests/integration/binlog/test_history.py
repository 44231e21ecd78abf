"""A binlog that goes on without being read: rotated, purged, or reset and begun anew."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from support.deadline import await_true
from support.sources.purged_logs import NO_GTID_MODE, files_of, read_from, reset, rotate_and_purge
from support.sources.recorder import await_rows, reading
from support.sources.replication import MAKES, gtids, ids_of, insert, servers

from canal_group.binlog.server.reader import SourceReader
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.latest import latest_position
from canal_group.binlog.server.starts.start import gtids_at
from canal_group.merge.errors import DataError, PositionPurged, SourceUnavailable
from canal_group.merge.values.gtids.gtid import NO_GTIDS
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer


@pytest.fixture
def followed(monkeypatch):
    """Every reader that is made, in turn."""
    made = []
    init = SourceReader.__init__

    def remember(self, *arguments, **options):
        init(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(SourceReader, "__init__", remember)
    return made


@MAKES
def test_an_idle_source_rotates_and_purges(make, source_address, followed):
    """1. Nothing is written while files come and go: the reader's position moves along. 2. The server is
    restarted, and what it then writes comes. 3. A cursor of before all that goes on as well: nothing is
    missing.
    """
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 1)
        with reading(address) as recorder:
            (cursor,) = recorder.of("opened")
            last = rotate_and_purge(server)
            await_true(lambda: followed[0].position.file == last, "the reader's position moves")
            assert followed[0].position.gtid_set == cursor.gtid_set == gtids(server)
            server.kill()
            server.start()
            insert(server, 2)
            await_rows(recorder, "g", 1)
        assert ids_of(recorder) == [2]
        assert cursor.file not in files_of(server)
        with reading(address, start=cursor) as again:
            await_rows(again, "g", 1)
        assert ids_of(again) == [2]
        assert followed[1].position == followed[0].position


@MAKES
def test_a_purge_that_took_transactions_along_is_told(make, source_address):
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 1)
        with reading(address) as recorder:
            (cursor,) = recorder.of("opened")
        insert(server, 2)
        last = rotate_and_purge(server)
        with pytest.raises(PositionPurged) as caught, reading(address, start=cursor) as again:
            await_true(lambda: again.error is not None, "the error")
        assert caught.value.details["oldest_file"] == last
        assert ids_of(again) == []


def test_a_purge_without_gtids_has_an_unknown_extent(source_address):
    with servers(MySqlServer, NO_GTID_MODE) as (server,):
        address = source_address(server)
        with reading(address) as recorder:
            (cursor,) = recorder.of("opened")
        assert cursor.gtid_set is NO_GTIDS
        rotate_and_purge(server)
        with pytest.raises(PositionPurged), reading(address, start=cursor) as again:
            await_true(lambda: again.error is not None, "the error")


@MAKES
def test_a_reset_is_seen_though_the_offsets_coincide(make, source_address, followed):
    """1. Rows are read, or none at all. 2. The binary logs are reset, and longer than they were. 3. None of
    their rows is passed over in silence: the error says when each of the two files was created.
    """
    with servers(make, []) as (server,):
        address = source_address(server)
        reset(server)
        with reading(address) as recorder:
            (begin,) = recorder.of("opened")
            insert(server, 1, 2, 3)
            await_rows(recorder, "g", 3)
        after = followed[0].position
        assert begin.created_s
        assert after.created_s == begin.created_s
        reset(server)
        insert(server, *range(101, 111))
        assert gtids(server).contains(after.gtid_set), "their GTIDs do not tell them apart"
        for position in (begin, after):
            with pytest.raises(DataError, match="the binary logs were reset") as caught:
                read_from(address, position)
            assert caught.value.details["expected_created_s"] == begin.created_s
            assert caught.value.details["created_s"] > begin.created_s
            assert not isinstance(caught.value, PositionPurged)


def test_a_position_in_a_file_from_before_a_reset_is_not_called_purged(source_address):
    """The reset binary logs begin with a lower number."""
    with servers(MariaDbServer, []) as (server,):
        address = source_address(server)
        insert(server, 1)
        server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        with reading(address) as recorder:
            (position,) = recorder.of("opened")
        reset(server)
        insert(server, 101, 102)
        with pytest.raises(DataError, match="the binary logs were reset"):
            read_from(address, position)


@MAKES
def test_the_creation_of_a_file_survives_rotation_and_restart(make, source_address, followed):
    """What a reader says of a file the server says of it again, also of one that begins in its middle."""
    with servers(make, []) as (server,):
        address = source_address(server)
        with reading(address) as recorder:
            for number in (1, 2, 3):
                insert(server, number)
                await_rows(recorder, "g", number)
                position = followed[0].position
                with reading(replace(address, server_id=9002), start=position) as again:
                    await_true(lambda again=again: again.of("caught_up"), "a promise")
                server.execute("FLUSH BINARY LOGS")
        created = followed[0].created
        assert set(files_of(server)[:3]) <= created.keys()
        server.restart()
        with reading(address, start=position) as again:
            insert(server, 4)
            await_rows(again, "g", 1)
        assert followed[-1].created[position.file] == position.created_s == created[position.file]
        astray = replace(position, created_s=position.created_s - 1)
        with pytest.raises(DataError, match="or another server answers"):
            read_from(address, astray)


@pytest.mark.parametrize("offset", [5 << 30, 4 << 30], ids=["beyond 4 GiB", "at 4 GiB"])
def test_a_mariadb_that_does_not_say_its_gtids_is_asked_again(mariadb, source_address, offset):
    """Its answer is NULL beyond 4 GiB: a position without GTIDs could not be found on another server."""
    address = source_address(mariadb)
    with contextlib.closing(connect(address)) as connection:
        facts = server_facts(address, connection)
        end = latest_position(address, connection, facts)
        assert end.gtid_set == gtids(mariadb)
        with pytest.raises(SourceUnavailable, match="does not say which GTIDs are before"):
            gtids_at(address, connection, end.file, offset)
