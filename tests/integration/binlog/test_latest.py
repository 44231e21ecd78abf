"""The end of a MySQL server's binlog: file, offset and GTIDs of one moment, whoever commits meanwhile."""

from __future__ import annotations

import re
import threading
from contextlib import closing, contextmanager

import pytest
from support.deadline import await_true
from support.sources.recorder import await_rows, reading
from support.sources.stall import Stall, updating

from canal_group.binlog.server.source import connect, query, server_facts
from canal_group.binlog.server.starts import latest
from canal_group.binlog.server.starts.beginning import beginning
from canal_group.binlog.server.starts.start import executed_gtids
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.start import At

WRITERS = 2
LOOKS = 6
FAR_US = 4_000_000_000_000_000


@pytest.fixture
def server(mysql):
    """The shared server, in a new file."""
    mysql.execute("FLUSH BINARY LOGS")
    return mysql


@pytest.fixture
def asked(server, source_address):
    """Return an address, a connection and the facts of the server."""
    address = source_address(server)
    with closing(connect(address)) as connection:
        yield address, connection, server_facts(address, connection)


@contextmanager
def stalling(server):
    """Begin an update whose COMMIT waits: its GTID is written, and not executed."""
    with Stall(server):
        end = server.execute("SHOW BINARY LOG STATUS")[0][1]
        thread = updating(server)
        await_true(lambda: server.execute("SHOW BINARY LOG STATUS")[0][1] > end, "the update is written")
        try:
            yield
        finally:
            thread.join()


def shown_before(address, connection, position):
    """Return the GTIDs before an offset as the server shows its events."""
    shown = query(address, connection, f"SHOW BINLOG EVENTS IN '{position.file}'")
    infos = [(str(row["Event_type"]), str(row["Info"]), row.number("End_log_pos")) for row in shown]
    texts = [info.replace("\n", "") for kind, info, _ in infos if kind == "Previous_gtids" and info]
    for kind, info, end in infos:
        if kind == "Gtid" and end < position.offset:
            texts.append(re.findall("'(.*)'", info)[0])
    return parse_gtid_set(",".join(texts))


def test_inside_a_stall(server, asked):
    with stalling(server):
        found = latest.latest_position(*asked)
        executed = executed_gtids(*asked)
        assert found.gtid_set == shown_before(*asked[:2], found)
        assert found.gtid_set.contains(executed)
        assert found.gtid_set != executed, "the update is visible: nothing waited"
        late = beginning(At(FAR_US), *asked)
        assert (late.file, late.offset, late.gtid_set) == (found.file, found.offset, found.gtid_set)
    server.execute("INSERT INTO app.t VALUES (2, 'after')")
    for start_by in ("file", "gtid"):
        with reading(asked[0], start=found, start_by=start_by) as recorder:
            await_rows(recorder, "t", 1)
            assert [row["after"]["id"] for row in recorder.rows("t")] == [2]


def test_inside_a_stall_where_some_transactions_have_no_gtid(server, source_address):
    address = source_address(server)
    server.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    try:
        with closing(connect(address)) as connection, stalling(server):
            facts = server_facts(address, connection)
            found = latest.latest_position(address, connection, facts)
            assert found.gtid_set == shown_before(address, connection, found)
            assert found.gtid_set != executed_gtids(address, connection, facts)
    finally:
        server.execute("SET GLOBAL gtid_mode = ON")


def test_a_server_that_gives_no_gtids_is_not_searched(server, source_address, monkeypatch):
    monkeypatch.setattr(latest, "_TRIES", 0)
    monkeypatch.setattr(latest, "_written", lambda *_: pytest.fail("its binlog is read"))
    modes = ["ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"]
    address = source_address(server)
    try:
        server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in modes))
        with closing(connect(address)) as connection:
            facts = server_facts(address, connection)
            found = latest.latest_position(address, connection, facts)
            assert found.gtid_set == executed_gtids(address, connection, facts)
    finally:
        server.execute(*(f"SET GLOBAL gtid_mode = {mode}" for mode in (*modes[1::-1], "ON")))


@pytest.mark.parametrize("tries", [0, 1_000])
def test_while_others_commit(server, asked, monkeypatch, tries):
    """Whether the server is asked until nothing is owned, or what was not executed is read."""
    monkeypatch.setattr(latest, "_TRIES", tries)
    server.execute("CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
    over = threading.Event()

    def write(number):
        with closing(server.connect()) as session, session.cursor() as cursor:
            while not over.is_set():
                cursor.execute("INSERT INTO app.t (v) VALUES (%s)", (number,))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        await_true(lambda: server.execute("SELECT COUNT(*) FROM app.t")[0][0] > WRITERS, "they write")
        found = [latest.latest_position(*asked)]
        while len(found) < LOOKS or found[0].offset == found[-1].offset:
            found.append(latest.latest_position(*asked))
    finally:
        over.set()
        for writer in writers:
            writer.join()
    for position in found:
        assert position.gtid_set == shown_before(*asked[:2], position)
