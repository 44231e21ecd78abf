"""What is read again comes from the archive: the source sends no byte twice, and may have purged it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import replace

import pytest
from integration.unprepared_servers import end_of
from support.binlog.archived import archive_up_to_now, options_of
from support.ddl.backlog import PREPARE, sent_bytes, written
from support.deadline import await_true
from support.sources.purged_logs import purge_all_but_the_last
from support.sources.recorder import await_rows, reading

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.forms.key import read_keys
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.second_opinion.tail import tail_of_server
from canal_group.binlog.server.dump import archive_first, dumps
from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.beginning import beginning
from canal_group.merge.errors import PositionPurged
from canal_group.merge.values.start import At, Holding, InFile

#: what queries and short looks at the binlog make a source send, bytes
LOOKS_BYTES = 1 << 20


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "archive.key"
    path.write_text("6b" * 32)
    path.chmod(0o600)
    return path


def known_end_of(server, source_address):
    """Return the end of a server's binlog with the creation time of its file, as cursors have it."""
    address, end = source_address(server), end_of(server, source_address)
    with contextlib.closing(connect(address)) as connection:
        return beginning(InFile(end.file, end.offset), address, connection, server_facts(address, connection))


class Backlog:
    """A server with a backlog of some 8 MiB in two files, which an archive has."""

    def __init__(self, server, source_address, folder, key_file=None):
        self.server, self.folder = server, folder
        server.execute(*PREPARE)
        self.start = end_of(server, source_address)
        self.begun_us = time.time_ns() // 1000
        self.rows = written(server)
        self.key_file = key_file
        self.address = source_address(
            server, archive=options_of(folder, None if key_file is None else str(key_file))
        )
        self.go_on()

    def go_on(self):
        """Begin a file, and archive everything."""
        self.server.execute("FLUSH BINARY LOGS")
        keys = () if self.key_file is None else (read_keys(self.key_file),)
        archive_up_to_now(Archive(Disk(), self.folder, *keys), self.server, self.address)

    def histories(self):
        keys = () if self.key_file is None else (read_keys(self.key_file),)
        return Archive(Disk(), self.folder, *keys).histories()

    def damage(self):
        """Flip a bit in the middle of the first closed file."""
        (history,) = self.histories()
        entry = next(each for each in history.manifest.files if each.name == self.start.file)
        assert entry.state is State.CLOSED
        path = history.path(entry)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    def read(self, start=None, *, address=None):
        """Read everything with a reader that knows nothing; return how many bytes the source sent."""
        before = sent_bytes(self.server)
        with reading(address or self.address, start=start or self.start) as recorder:
            await_rows(recorder, "u", len(self.rows["u"]))
            await_true(lambda: recorder.of("caught_up") or recorder.error, "the end of the binlog")
            sent = sent_bytes(self.server) - before
        for table, expected in self.rows.items():
            assert [row["after"] for row in recorder.rows(table)] == expected, table
        return sent


@pytest.fixture
def backlog(unprepared, source_address, tmp_path):
    return Backlog(unprepared, source_address, tmp_path / "archive")


def test_the_source_sends_nothing_that_the_archive_has(backlog, source_address):
    """A first start searches it for statements, and reads it: from the archive, also where that is purged."""
    assert backlog.read() < LOOKS_BYTES
    assert backlog.read(address=source_address(backlog.server)) > 7 << 20
    purge_all_but_the_last(backlog.server)
    assert backlog.read() < LOOKS_BYTES
    with (
        pytest.raises(PositionPurged),
        reading(source_address(backlog.server), start=backlog.start) as recorder,
    ):
        await_true(lambda: recorder.error, "the refusal")


def test_a_first_start_reads_what_is_being_archived(unprepared, source_address, tmp_path, monkeypatch):
    """It waits for who dumps the source into the archive, instead of a dump of its own."""
    purge_all_but_the_last(unprepared)
    unprepared.execute(*PREPARE)
    dumped = source_address(unprepared, server_id=9002)
    start = known_end_of(unprepared, source_address)
    rows = written(unprepared)
    archive = Archive(Disk(), tmp_path / "archive")
    archiving = threading.Thread(target=archive_up_to_now, args=(archive, unprepared, dumped))
    for module in (dumps, archive_first):
        monkeypatch.setattr(module, "knock", lambda *_: archiving.is_alive())
    backlog = Backlog.__new__(Backlog)
    backlog.server, backlog.start, backlog.rows = unprepared, start, rows
    sent = sent_bytes(unprepared)
    archiving.start()
    backlog.read(address=source_address(unprepared, archive=options_of(archive.folder)))
    archiving.join()
    once = sum(int(row[1]) for row in unprepared.execute("SHOW BINARY LOGS"))
    assert once < sent_bytes(unprepared) - sent < once + LOOKS_BYTES


def test_a_reader_goes_on_at_the_source_where_the_archive_ends(backlog):
    purge_all_but_the_last(backlog.server)
    with reading(backlog.address, start=backlog.start) as recorder:
        await_rows(recorder, "u", len(backlog.rows["u"]))
        backlog.server.execute(*(f"INSERT INTO app.u VALUES (2, {20_000 + number})" for number in range(20)))
        await_rows(recorder, "u", len(backlog.rows["u"]) + 20)
    later = [{"x": 2, "id": number} for number in range(20_000, 20_020)]
    for table, rows in {**backlog.rows, "u": backlog.rows["u"] + later}.items():
        assert [row["after"] for row in recorder.rows(table)] == rows, "no row comes twice, or is missing"


def test_a_server_that_follows_another_one_is_read_from_its_archive(backlog):
    """As after a failover: where it continues is found by GTID, in files that it has purged."""
    purge_all_but_the_last(backlog.server)
    before = replace(backlog.start, file="other-bin.000007", offset=77, server="4711", created_s=1)
    assert backlog.read(before) < LOOKS_BYTES


def test_rows_that_were_prepared_before_the_start_come_from_the_archive(unprepared, source_address, tmp_path):
    """In a file before that of the start; the source has purged both."""
    unprepared.execute("CREATE TABLE app.x (id INT PRIMARY KEY)")
    unprepared.execute("XA START 'a'", "INSERT INTO app.x VALUES (1)", "XA END 'a'", "XA PREPARE 'a'")
    unprepared.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "INSERT INTO app.x VALUES (100)")
    start = known_end_of(unprepared, source_address)
    unprepared.execute("XA COMMIT 'a'", "FLUSH BINARY LOGS")
    address = source_address(unprepared, archive=options_of(tmp_path / "archive"))
    archive_up_to_now(Archive(Disk(), tmp_path / "archive"), unprepared, address)
    purge_all_but_the_last(unprepared)
    with reading(address, start=start) as recorder:
        await_rows(recorder, "x", 1)
    assert [row["after"] for row in recorder.rows("x")] == [{"id": 1}]


def test_an_encrypted_archive_is_read(unprepared, source_address, tmp_path, key_file):
    backlog = Backlog(unprepared, source_address, tmp_path / "archive", key_file)
    purge_all_but_the_last(backlog.server)
    assert backlog.read() < LOOKS_BYTES


def test_what_is_damaged_in_the_archive_is_read_from_the_source(backlog, caplog):
    caplog.set_level(logging.WARNING)
    backlog.damage()
    backlog.read()
    assert "is damaged" in caplog.text or "are damaged" in caplog.text
    assert "instead of its archive" in caplog.text


def test_what_neither_has_is_an_error_of_both(backlog):
    backlog.damage()
    purge_all_but_the_last(backlog.server)
    with (
        pytest.raises(PositionPurged, match="damaged") as raised,
        reading(backlog.address, start=backlog.start) as recorder,
    ):
        await_true(lambda: recorder.error, "the refusal")
    assert "oldest" in str(raised.value)


def test_with_a_wrong_key_the_source_is_read(unprepared, source_address, tmp_path, key_file, caplog):
    backlog = Backlog(unprepared, source_address, tmp_path / "archive", key_file)
    key_file.write_text("6c" * 32)
    backlog.read()
    assert "instead of its archive" in caplog.text


def test_starts_are_found_in_the_archive(unprepared, source_address, tmp_path):
    """A time, the oldest file, and an offset that the source has purged; and the last rows."""
    second = time.time() // 1
    await_true(lambda: time.time() // 1 > second, "a second in which no other test has written")
    backlog = Backlog(unprepared, source_address, tmp_path / "archive")

    def find(start):
        with contextlib.closing(connect(backlog.address)) as connection:
            return beginning(start, backlog.address, connection, server_facts(backlog.address, connection))

    at = At(backlog.begun_us - backlog.begun_us % 1_000_000)
    (history,) = backlog.histories()
    first = history.manifest.files[0]
    inside = InFile(backlog.start.file, backlog.start.offset)
    before = [find(each) for each in (at, inside)]
    purge_all_but_the_last(backlog.server)
    sent = sent_bytes(backlog.server)
    assert [find(each) for each in (at, inside)] == before
    earliest = find("earliest")
    assert (earliest.file, earliest.offset) == (first.name, 4)
    assert find(Holding(backlog.start.file, backlog.start.offset)) == before[1]
    assert sent_bytes(backlog.server) - sent < LOOKS_BYTES
    backlog.read(find(at))


def test_the_last_rows_come_from_the_archive(backlog, tmp_path):
    (tmp_path / "tail").mkdir()
    sent = sent_bytes(backlog.server)
    files = tail_of_server(backlog.address, tmp_path / "tail", 4 << 20)
    assert sent_bytes(backlog.server) - sent < LOOKS_BYTES
    (history,) = backlog.histories()
    stored = files[0].read_bytes()
    source = history.open(files[0].name)
    whole = b""
    while more := source.read_at(len(whole), 1 << 20):
        whole += more
    assert len(stored) == len(whole)
    assert stored[-(1 << 20) :] == whole[-(1 << 20) :]
