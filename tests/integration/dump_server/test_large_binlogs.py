"""Binlogs of large events and files: the archive is the source's own, and its processes stay small."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from support.binlog.archived import position_of
from support.deadline import await_true
from support.soak import patient
from support.sources.archived_source import IN_USE_AT, Archived, server_of
from support.sources.dumped_source import only
from support.sources.recorder import await_rows, reading

from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.manifest import Form
from canal_group.binlog.archive.operating.retention import DiskMarks
from canal_group.binlog.archive.operating.verification import verify
from canal_group.binlog.dump_server import dump
from canal_group.binlog.dump_server.archive_intake import ArchiveIntake
from canal_group.binlog.dump_server.dump import SourceDump
from canal_group.merge.errors import SourceUnavailable

_log = logging.getLogger(__name__)

#: size of the largest event of a run, MiB; servers send none of more than 1,024
EVENT_MIB: Final = int(os.environ.get("CANAL_GROUP_EVENT_MIB", "128"))
#: memory of a dump server: its own, and how many times it holds an event that comes in many packets
OWN_MIB, EVENT_TIMES = 200, 4
MIB = 1 << 20
_READ_BYTES = 8 << 20


def peak_mib(pid: int) -> int:
    """Return the peak resident memory of a process until now, MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def reset_peak() -> None:
    """Let the peak of this process, in which readers run, begin again."""
    Path("/proc/self/clear_refs").write_text("5")


def parts(path: Path) -> Iterator[bytes]:
    """Yield a server's file as it sends it, in parts."""
    with path.open("rb") as file:
        first = bytearray(file.read(_READ_BYTES))
        first[IN_USE_AT] &= ~1
        yield bytes(first)
        while more := file.read(_READ_BYTES):
            yield more


def require_same(archived: Archived, file: Path) -> None:
    """Compare a file of the archive with the server's, in parts."""
    (history,) = archived.archive.histories()
    with contextlib.closing(history.open(file.name)) as copy:
        at = 0
        for part in parts(file):
            read = b""
            while len(read) < len(part) and (more := copy.read_at(at + len(read), len(part) - len(read))):
                read += more
            assert read == part, f"{file.name} from {at:,} on"
            at += len(part)
        assert not copy.read_at(at, 1)


def is_durable(archived: Archived, server: Any) -> bool:
    """Return whether the archive has what the server has written, by sizes."""
    file, offset = position_of(server)
    histories = archived.archive.histories()
    entry = histories[-1].manifest.entry(file) if histories else None
    if entry is None:
        return False
    try:
        with contextlib.closing(histories[-1].open(file)) as copy:
            return bool(copy.size >= offset)
    except SourceUnavailable:
        return False  # it has just been begun


def is_packed(history: History) -> bool:
    return all(each.form is Form.ZSTD for each in history.refresh().files[:-1])


@pytest.mark.parametrize("archived", ["mariadb"], indirect=True)
def test_an_end_that_cannot_be_requested(archived: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive ends inside of a file, at an offset of more bits than a request has: here, beyond 1,000.

    The file is sent from its beginning, and what is archived is left out.
    """
    monkeypatch.setattr(dump, "OFFSET_MAX", 1_000)
    archived.create("a")
    server, address, marks = server_of(archived), archived.reader(), DiskMarks(1.0, 0.9)

    def intake_of(anew: bool) -> ArchiveIntake:
        options = archived.options
        return ArchiveIntake(archived.archive, options, server, marks, lambda: None, anew=anew)

    with archived.archive.lock(server):
        for number in range(3):
            archived.insert("a", range(number * 10, number * 10 + 10), "x" * 100)
            source = SourceDump(address, server, archived.files[0].name, 4, intake_of)
            with contextlib.closing(source):
                assert bool(source._skip_to) == bool(number)

                def is_whole(source: SourceDump = source) -> bool:
                    for _ in source.read():
                        pass
                    return archived.is_whole()

                await_true(is_whole, "the archive has the server's file")
    (history,) = archived.archive.histories()
    assert not [each.wrong for each in verify(history) if each.wrong]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_an_event_of_many_packets(archived: Archived) -> None:
    """Two events of `EVENT_MIB`, and another file after them; no reader wants their table."""
    mib = min(EVENT_MIB, 1_023)
    archived.server.execute(f"SET GLOBAL max_allowed_packet = {1 << 30}")
    archived.server.execute("CREATE TABLE app.l (id INT PRIMARY KEY, v LONGBLOB) ENGINE=MyISAM")
    archived.create("a")
    reset_peak()
    with reading(archived.reader(), select=only("a")) as recorder:
        await_true(archived.archive.histories, "a history")
        for number in range(2):
            archived.server.execute(f"INSERT INTO app.l VALUES ({number}, REPEAT('z', {mib * MIB - 4_096}))")
        archived.server.execute("FLUSH BINARY LOGS")
        archived.insert("a", range(10))
        await_true(lambda: is_durable(archived, archived.server), "it is archived", patient(300.0))
        (history,) = archived.archive.histories()
        await_true(lambda: is_packed(history), "it is packed", 300.0)
        await_rows(recorder, "a", 10)
        peak, reader_peak = peak_mib(archived.dump_server()), peak_mib(os.getpid())
    for file in archived.files[:-1]:
        require_same(archived, file)
    assert not [each.wrong for each in verify(history) if each.wrong]
    _log.info("events of %d MiB: peaks of dump server and reader are %d and %d MiB", mib, peak, reader_peak)
    assert peak <= OWN_MIB + EVENT_TIMES * mib


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("archived", ["mariadb"], indirect=True)
def test_a_file_of_more_than_four_gib(archived: Archived) -> None:
    """One transaction of 4.5 GiB, then more; the archive and a reader of it go on beyond 32 bits."""
    archived.server.execute(f"SET GLOBAL max_allowed_packet = {1 << 30}")
    archived.server.execute(
        "CREATE TABLE app.l (id INT PRIMARY KEY, n INT, v LONGBLOB)",
        *(f"INSERT INTO app.l VALUES ({number}, 0, REPEAT('z', {32 * MIB}))" for number in range(4)),
    )
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as recorder:
        await_true(archived.archive.histories, "a history")
        with archived.server.connect("app") as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for _ in range(18):  # both images of four rows: 256 MiB each time
                cursor.execute("UPDATE l SET n = n + 1")
            cursor.execute("INSERT INTO a VALUES (1, 'at the end')")
            cursor.execute("COMMIT")
        archived.insert("a", range(2, 4))
        await_true(lambda: is_durable(archived, archived.server), "it is archived", patient(400.0))
        await_true(
            lambda: len(recorder.rows("a")) == 3 or recorder.error, "the reader has all", patient(400.0)
        )
        peak = peak_mib(archived.dump_server())
        (history,) = archived.archive.histories()
        large = next(each for each in history.manifest.files if each.size > 1 << 32)
        _log.info("a file of %d bytes: the dump server's peak is %d MiB", large.size, peak)
        assert peak <= OWN_MIB + EVENT_TIMES * 64
    require_same(archived, next(path for path in archived.files if path.name == large.name))
    assert not [each.wrong for each in verify(history) if each.wrong]
