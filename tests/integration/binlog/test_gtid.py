"""Streams by GTID on real servers: resumes, tags, what is purged, and a server instead of another one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.deadline import await_true
from support.defaults import chunk_limits
from support.sources.recorder import await_rows, reading
from support.sources.replication import (
    FIRST_MARIADB,
    MAKES,
    OTHER_LOG,
    gtids,
    ids_of,
    insert,
    last_position,
    replicate,
    servers,
)

from canal_group.binlog.formats.gtid_sets import encode_gtid_set
from canal_group.binlog.server.listener import position_after
from canal_group.binlog.server.preflight.preflight import preflight
from canal_group.merge.errors import PositionPurged, PositionRefused, ShardUnavailable, SourceUnfit
from canal_group.merge.values.gtids.gtid import NO_GTIDS, parse_gtid_set
from canal_group.merge.values.position import Position
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer


@MAKES
def test_a_stream_by_gtid_goes_on_where_the_set_ends(make, source_address):
    """1. Rows are read, over two files. 2. From each set of GTIDs the rest comes, at any offset."""
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 0)
        with reading(address) as recorder:
            positions = recorder.of("opened")
            for number in (1, 2, 3):
                insert(server, number)
                await_rows(recorder, "g", number)
                positions.append(last_position(recorder, address))
                server.execute("FLUSH BINARY LOGS")
        for number, position in enumerate(positions):
            astray = replace(position, file="elsewhere.000099", offset=999)
            with reading(address, start=astray, start_by="gtid") as again:
                await_rows(again, "g", 3 - number)
                await_true(lambda again=again: again.of("caught_up"), "a promise after what was passed over")
            assert ids_of(again) == [1, 2, 3][number:]
            assert last_position(again, address).gtid_set == gtids(server)


@MAKES
def test_a_stream_by_gtid_goes_on_inside_a_transaction(make, source_address):
    count = 2000
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 0)
        with reading(address, limits=chunk_limits(rows_max=500)) as recorder:
            rows = ", ".join(f"({i}, REPEAT('x', 100))" for i in range(1, count + 1))
            server.execute(f"INSERT INTO app.g VALUES {rows}")
            await_rows(recorder, "g", count)
        fragment = next(chunk for chunk in recorder.chunks if chunk.headers[-1]["rows"])
        (opened,) = recorder.of("opened")
        position = position_after(opened, fragment, opened.server, {})
        assert 0 < position.rows_into_transaction < count
        insert(server, count + 1)
        with reading(address, start=position, start_by="gtid") as again:
            await_rows(again, "g", count - position.rows_into_transaction + 1)
        assert ids_of(again) == list(range(position.rows_into_transaction + 1, count + 2))
        astray = replace(position, file="elsewhere.000099")
        with (
            pytest.raises(PositionRefused, match="inside a transaction of it"),
            reading(address, start=astray, start_by="gtid") as again,
        ):
            await_true(lambda: again.error is not None, "the error")


def test_tagged_gtids(source_address):
    """1. Tagged and untagged transactions by turns. 2. Sets of both are understood, and written alike."""
    with servers(MySqlServer, []) as (server,):
        address = source_address(server)
        insert(server, 0)
        with reading(address) as recorder:
            positions = recorder.of("opened")
            for number, tag in enumerate(("", ":shop", "", ":a_tag_of_thirty_two_characters__", ":shop"), 1):
                server.execute(
                    f"SET gtid_next = 'AUTOMATIC{tag}'", f"INSERT INTO app.g VALUES ({number}, '')"
                )
                await_rows(recorder, "g", number)
                positions.append(last_position(recorder, address))
        assert "shop:1-2" in str(positions[-1].gtid_set)
        for number, position in enumerate(positions):
            with reading(address, start=replace(position, server="another")) as again:
                await_rows(again, "g", 5 - number)
                await_true(lambda again=again: again.of("caught_up"), "a promise")
            assert ids_of(again) == [1, 2, 3, 4, 5][number:]
        server.execute("FLUSH BINARY LOGS")
        (*_, (file, *_)) = server.execute("SHOW BINARY LOGS")
        written = (server.folder / "data" / file).read_bytes()
        assert encode_gtid_set(positions[-1].gtid_set) in written


@MAKES
def test_what_is_purged_is_named(make, source_address):
    with servers(make, []) as (server,):
        address = source_address(server)
        insert(server, 0)
        before = gtids(server)
        insert(server, 1, 2)
        server.execute("FLUSH BINARY LOGS")
        (*_, (file, *_)) = server.execute("SHOW BINARY LOGS")

        def purged():
            server.execute(f"PURGE BINARY LOGS TO '{file}'")
            return len(server.execute("SHOW BINARY LOGS")) == 1

        await_true(purged, "the server lets go of its old files")
        position = Position("mysql-bin.000001", 4, gtid_set=before, server="another")
        with pytest.raises(PositionPurged) as caught, reading(address, start=position) as recorder:
            await_true(lambda: recorder.error is not None, "the error")
        missing = str(caught.value.details["missing"])
        if make is MySqlServer:
            uuid = str(before).partition(":")[0]
            assert missing == f"{uuid}:2-3"
        else:
            assert missing == f"those after {before}, up to {gtids(server)}"
        assert missing in str(caught.value)
        assert caught.value.details["gtid_set"] == str(before)
        assert caught.value.details["oldest_file"] == file
        assert f"oldest file available is {file}" in str(caught.value)


@FIRST_MARIADB
def test_another_server_goes_on_by_gtid(make, source_address):
    """1. A server is read. 2. Its replica, whose binlog has another name and size, goes on from there."""
    with servers(make, [], [*OTHER_LOG, "--log-slave-updates=ON"]) as (source, replica):
        # What only the replica has stands before and between: its places are its own.
        replica.execute("CREATE DATABASE own", "CREATE TABLE own.t (id INT)")
        replicate(source, replica)
        with reading(source_address(source)) as recorder:
            insert(source, 1, 2, 3)
            await_rows(recorder, "g", 3)
        position = last_position(recorder, source_address(source))
        replica.execute("INSERT INTO own.t VALUES (1)")
        insert(source, 4, 5)
        await_true(lambda: gtids(replica).contains(gtids(source)), "the replica has all of it")
        source.stop()
        insert(replica, 6)
        with reading(source_address(replica), start=position) as again:
            await_rows(again, "g", 3)
            await_true(lambda: again.of("caught_up"), "a promise")
        assert ids_of(again) == [4, 5, 6]
        assert again.of("opened") == [position]
        there = last_position(again, source_address(replica))
        assert there.file.startswith("other-bin.")
        assert there.server != position.server
        insert(replica, 7)
        with reading(source_address(replica), start=there) as last:
            await_rows(last, "g", 1)
        assert ids_of(last) == [7]

        for refused, options, why in (
            (position, {"start_by": "file"}, "start_by is file"),
            (replace(position, gtid_set=NO_GTIDS), {}, "has no GTIDs"),
            (replace(position, rows_into_transaction=3), {}, "is inside a transaction"),
        ):
            with (
                pytest.raises(SourceUnfit, match="Another server answers") as caught,
                reading(source_address(replica), start=refused, **options) as recorder,
            ):
                await_true(lambda recorder=recorder: recorder.error is not None, "the error")
            assert why in str(caught.value)


def test_a_mysql_without_gtids_does_not_stand_in(source_address):
    with servers(MySqlServer, ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]) as (server,):
        position = Position("mysql-bin.000001", 4, gtid_set=parse_gtid_set("0-1-3"), server="another")
        for start_by, why in (("auto", "it writes no GTIDs"), ("gtid", "start_by is gtid")):
            with (
                pytest.raises(SourceUnfit, match=why),
                reading(source_address(server), start=position, start_by=start_by) as recorder,
            ):
                await_true(lambda recorder=recorder: recorder.error is not None, "the error")


def test_the_preflight_says_how_to_turn_gtids_on(source_address):
    """From each of MySQL's modes: what it says mends it."""
    steps = "ON_PERMISSIVE", "OFF_PERMISSIVE"
    with servers(MySqlServer, ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]) as (server,):
        address = source_address(server)
        for mode, way in (("OFF", ()), ("ON_PERMISSIVE", steps[:1]), ("OFF_PERMISSIVE", steps)):
            server.execute(*(f"SET GLOBAL gtid_mode = {step}" for step in way))
            (check,) = (each for each in preflight(address, gtids=True) if not each.ok)
            assert (check.name, check.found) == ("gtid_mode", mode)
            assert all(each.ok for each in preflight(address))
            server.execute(*check.fix.rstrip(";").split(";"))
            assert all(each.ok for each in preflight(address, gtids=True))


def test_mariadb_needs_no_gtid_mode(mariadb, source_address):
    found = {each.name: each for each in preflight(source_address(mariadb), gtids=True)}
    assert found["gtid_mode"].ok


def test_another_server_ends_the_reader(source_address):
    """A reader whose address another server takes over ends: what it handed over has to be opened anew."""
    with servers(MariaDbServer, [], OTHER_LOG) as (server, other):
        other.stop()

        def run():
            with reading(source_address(server)) as recorder:
                insert(server, 1)
                await_rows(recorder, "g", 1)
                server.stop()
                other.port = server.port
                other.start()
                await_true(lambda: recorder.error is not None, "the error")

        with pytest.raises(ShardUnavailable, match="Another server answers"):
            run()
