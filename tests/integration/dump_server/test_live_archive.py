"""A dump server archives its source: the files are the source's own, whatever happens."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.binlog.archived import content, position_of
from support.ddl.backlog import PREPARE, backlog_bytes, sent_bytes, written
from support.deadline import await_true
from support.sources.archived_source import Archived, as_sent, server_of
from support.sources.dumped_source import dump_server_pids, ids, only
from support.sources.purged_logs import purge_all_but_the_last, reset
from support.sources.raw_binlogs import raw_binlogs
from support.sources.recorder import await_rows, reading
from typer.testing import CliRunner

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.manifest import Form
from canal_group.binlog.archive.operating.retention import DiskMarks
from canal_group.binlog.archive.operating.verification import verify
from canal_group.binlog.dump_server.archive_intake import ArchiveIntake
from canal_group.binlog.dump_server.dump import SourceDump
from canal_group.binlog.server.dump_server.access import connected
from canal_group.binlog.server.dump_server.archive_keeper import ArchiveKeeper
from canal_group.merge.errors import DataError, RetryableError
from canal_group.merge.values.position import Position
from canal_group.programs.command.cli import app
from playground.database.mysql import MySqlServer

#: what short looks at a file make a source send, bytes
LOOKS_BYTES = 1 << 20


def test_the_files_are_the_servers_own_over_kills_and_restarts(archived: Archived) -> None:
    """1. Rotations while rows are written. 2. The dump server is killed. 3. The source restarts."""
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as recorder:
        await_true(archived.archive.histories, "a history")
        for step in range(3):
            archived.insert("a", range(step * 40, step * 40 + 40), "x" * 2_000)
            archived.server.execute("FLUSH BINARY LOGS")
            os.kill(archived.dump_server(), signal.SIGKILL)
        await_rows(recorder, "a", 120)
        archived.await_whole()
        archived.server.restart()
        archived.insert("a", range(120, 140))
        await_rows(recorder, "a", 140)
        archived.await_whole()
        assert ids(recorder, "a") == list(range(140))
    (history,) = archived.archive.histories()
    await_true(
        lambda: all(each.form is Form.ZSTD for each in history.refresh().files[:-1]),
        "closed files are packed",
    )


def test_a_reset_begins_a_history(archived: Archived) -> None:
    """1. Rows are archived. 2. RESET. 3. What is written then is in another history; the first one stays."""
    archived.create("a")

    def read_over_a_reset() -> None:
        with reading(archived.reader(), select=only("a")) as recorder:
            archived.insert("a", range(10))
            archived.server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
            await_rows(recorder, "a", 10)
            archived.await_whole()
            before.update({path.name: as_sent(path) for path in archived.files})
            reset(archived.server)
            archived.insert("a", range(10, 20))
            await_true(lambda: len(archived.archive.histories()) == 2, "another history")
            archived.await_whole()
            await_true(lambda: recorder.error, "the reader is refused")

    before: dict[str, bytes] = {}
    with pytest.raises(DataError):
        read_over_a_reset()
    first, second = archived.archive.histories()
    # MariaDB may still have added a checkpoint to its newest file.
    assert all(content(first, name).startswith(data) for name, data in before.items())
    assert second.manifest.files[0].name.endswith("000001")


def test_a_reset_in_the_first_file_begins_a_history(archived: Archived) -> None:
    """1. Rows are archived in the first file. 2. RESET: another history begins, before as much is written."""
    reset(archived.server)
    archived.create("a")

    def read_over_a_reset() -> None:
        with reading(archived.reader(), select=only("a")) as recorder:
            archived.insert("a", range(10))
            await_rows(recorder, "a", 10)
            archived.await_whole()
            before.update({path.name: as_sent(path) for path in archived.files})
            archived.server.execute("SELECT SLEEP(1)")  # a file is known by the second of its creation
            reset(archived.server)
            await_true(lambda: len(archived.archive.histories()) == 2, "another history")
            archived.insert("a", range(10, 20))
            archived.await_whole()
            await_true(lambda: recorder.error, "the reader is refused")

    before: dict[str, bytes] = {}
    with pytest.raises(DataError):
        read_over_a_reset()
    first, second = archived.archive.histories()
    (name,) = before
    assert content(first, name) == before[name]
    assert second.manifest.files[0].name == name


def test_a_reset_is_noticed_where_the_archive_ends_inside_an_event(archived: Archived) -> None:
    """1. Rows are archived. 2. Without dump server, RESET, and an event larger than the archive.

    3. The source refuses the offset at which the archive ends: another history begins.
    """
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as recorder:
        archived.insert("a", range(10))
        await_rows(recorder, "a", 10)
        archived.await_whole()
    os.kill(archived.dump_server(), signal.SIGKILL)
    reset(archived.server)
    archived.insert("a", range(10, 11), "x" * 1_000_000)
    server, begin = server_of(archived), Position(archived.files[0].name, 4)
    connect = partial(connected, archived.reader(), begin, server, 3)
    with contextlib.closing(ArchiveKeeper("b/s", server, connect, tuple, lambda _end: None)):
        await_true(lambda: len(archived.archive.histories()) == 2, "another history")
        archived.await_whole()


@pytest.mark.parametrize("archived", ["mariadb"], indirect=True)
def test_a_history_that_cannot_be_begun_says_why(archived: Archived, tmp_path: Path) -> None:
    """1. Rows are archived. 2. RESET, and the disk is too full for another history."""
    archived.create("a")
    archived.insert("a", range(10), "x" * 2_000)
    server, options = server_of(archived), replace(archived.options, store=str(tmp_path / "store"))

    def intake_of(anew: bool) -> ArchiveIntake:
        marks = DiskMarks(2e-9, 1e-9) if anew else DiskMarks(1.0, 0.9)
        return ArchiveIntake(options.opened(), options, server, marks, lambda: None, anew=anew)

    def dumped() -> SourceDump:
        return SourceDump(archived.reader(), server, archived.files[0].name, 4, intake_of)

    def is_whole(source: SourceDump) -> bool:
        for _ in source.read():
            pass
        return archived.is_whole()

    with archived.archive.lock(server):
        with contextlib.closing(dumped()) as source:
            await_true(lambda: is_whole(source), "the archive has the server's file")
        reset(archived.server)
        with pytest.raises(RetryableError, match="nothing more is written to it"):
            dumped()


def test_an_archive_is_written_without_readers_progress(archived: Archived) -> None:
    """1. A reader stops. 2. More than the window is written. 3. The archive has all of it; the reader too."""
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as slow:
        await_true(archived.archive.histories, "a history")
        slow.gate.clear()
        archived.insert("a", range(1))
        await_true(lambda: slow.held is not None, "it is held up")
        archived.insert("a", range(1, 30), "x" * 200_000)
        archived.await_whole()
        pid = archived.dump_server()
        os.kill(pid, signal.SIGKILL)
        archived.insert("a", range(30, 40))
        archived.await_whole()
        assert archived.dump_server() != pid, "the keeper has started another one"
        slow.gate.set()
        await_rows(slow, "a", 40)
        assert ids(slow, "a") == list(range(40))


def remove(folder):
    """Remove a folder to which a process may add a file meanwhile."""

    def gone():
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    await_true(gone, "the folder is gone")


@pytest.mark.parametrize("archived", ["mariadb"], indirect=True)
def test_a_removed_archive_is_begun_anew_and_forgotten_without_readers(archived: Archived) -> None:
    """1. It is removed while it is written: another one begins. 2. It is removed when its reader has left:
    its process ends, and makes no folder again.
    """
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as recorder:
        await_true(archived.archive.histories, "a history")
        remove(archived.archive.folder)
        await_true(archived.archive.histories, "another history")
        archived.insert("a", range(10))
        await_rows(recorder, "a", 10)
        archived.await_whole()
    remove(archived.archive.folder)
    await_true(lambda: not dump_server_pids(archived.reader()), "the end of the process")
    assert not archived.archive.folder.exists()


def test_readers_read_on_while_nothing_can_be_archived(archived: Archived) -> None:
    """1. The folder is a file. 2. Another process writes there. 3. All of it is written.

    It is a link, so that from one moment to the next it leads where the other process writes.
    """
    archived.create("a")
    begin = Position(archived.files[0].name, 4)
    folder = archived.archive.folder
    file, others, link = (folder.with_name(name) for name in ("file", "others", "link"))
    file.write_text("in the way")
    folder.symlink_to(file)
    with reading(archived.reader(), start=begin, select=only("a")) as recorder:
        archived.insert("a", range(10))
        await_rows(recorder, "a", 10)
        with Archive(Disk(), others).lock(server_of(archived)):
            link.symlink_to(others)
            link.replace(folder)
            archived.insert("a", range(10, 20))
            await_rows(recorder, "a", 20)
            assert not archived.archive.histories()
        archived.insert("a", range(20, 30))
        archived.await_whole()
        await_rows(recorder, "a", 30)
        assert ids(recorder, "a") == list(range(30))
        assert not recorder.of("disconnected")


def test_a_first_start_with_an_empty_archive_has_each_byte_sent_once(archived: Archived) -> None:
    """1. A backlog with statements in it. 2. A reader begins at the first file, and an archive."""
    archived.server.execute(*PREPARE)
    rows = written(archived.server)
    begin = Position(archived.files[0].name, 4, server=server_of(archived))
    backlog = backlog_bytes(archived.server, begin)
    before = sent_bytes(archived.server)
    with reading(archived.reader(), start=begin) as recorder:
        await_true(lambda: recorder.of("caught_up") or recorder.error, "the end of the binlog")
        archived.await_whole()
    sent = sent_bytes(archived.server) - before
    assert backlog < sent < backlog + LOOKS_BYTES
    for table, expected in rows.items():
        assert [row["after"] for row in recorder.rows(table)] == expected, table


@pytest.mark.parametrize("is_archived", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_lapped_reader_has_each_byte_sent_once(
    archived: Archived, is_archived: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """1. A reader stands still until the window left it. 2. It goes on when all is archived, or at once."""
    caplog.set_level(logging.INFO)
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as slow:
        await_true(archived.is_whole, "all of it is archived")
        before, start = sent_bytes(archived.server), Position(*position_of(archived.server))
        slow.gate.clear()
        # From here on: its connection may end before the last row is written.
        caplog.clear()
        for step in range(32):
            archived.insert("a", range(step * 4, step * 4 + 4), "x" * 200_000)
        backlog = backlog_bytes(archived.server, start)
        if is_archived:
            archived.await_whole()
        slow.gate.set()
        await_rows(slow, "a", 128)
        await_true(archived.is_whole, "the archive has the server's files")
        sent = sent_bytes(archived.server) - before
    assert ids(slow, "a") == list(range(128))
    assert backlog > 20 << 20
    assert "from its archive" in caplog.text
    assert backlog < sent < backlog + LOOKS_BYTES


def test_a_purge_while_the_archive_goes_on(archived: Archived) -> None:
    """1. A reader stands still, its dump server is killed. 2. A purge. 3. Nothing is missing."""
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as slow:
        await_true(archived.archive.histories, "a history")
        slow.gate.clear()
        for step in range(3):
            archived.insert("a", range(step * 10, step * 10 + 10), "x" * 100_000)
            archived.server.execute("FLUSH BINARY LOGS")
        archived.await_whole()
        before = {path.name: as_sent(path) for path in archived.files[:-1]}
        os.kill(archived.dump_server(), signal.SIGKILL)
        purge_all_but_the_last(archived.server)
        assert len(archived.files) == 1
        archived.insert("a", range(30, 40))
        archived.await_whole()
        slow.gate.set()
        await_rows(slow, "a", 40)
        assert ids(slow, "a") == list(range(40))
    (history,) = archived.archive.histories()
    assert {name: content(history, name) for name in before} == before


def test_a_second_dump_server_of_a_folder_names_the_first(archived: Archived) -> None:
    """1. Two accounts' dump servers have one folder. 2. The first one ends. 3. The second one writes."""
    archived.create("a")
    server, other = server_of(archived), archived.reader(1, heartbeat_ms=700)
    position = Position(archived.files[0].name, 4)
    with contextlib.ExitStack() as stack:
        with reading(archived.reader(), select=only("a")):
            await_true(archived.archive.histories, "a history")
            second = stack.enter_context(reading(other, select=only("a")))
            connect = partial(connected, other, position, server, 3)
            keeper = ArchiveKeeper("b/s", server, connect, tuple, lambda _end: None)
            stack.callback(keeper.close)
            await_true(lambda: keeper.state is not None, "the second one reports")
            assert keeper.state is not None
            assert keeper.state["state"] == "waiting"
            assert f"Process {archived.dump_server()} writes to the archive" in keeper.state["error"]
            archived.insert("a", range(10))
            await_rows(second, "a", 10)
            archived.await_whole()
        os.kill(archived.dump_server(), signal.SIGKILL)
        archived.insert("a", range(10, 20))
        archived.await_whole()
        await_rows(second, "a", 20)
        assert ids(second, "a") == list(range(20))
        await_true(lambda: (keeper.state or {}).get("state") == "writing", "the second one writes")
        stack.callback(lambda: [os.kill(pid, signal.SIGKILL) for pid in dump_server_pids(other)])
    (history,) = archived.archive.histories()
    assert not [each.wrong for each in verify(history) if each.wrong]


def test_a_damaged_file_is_read_again_from_the_source(archived: Archived) -> None:
    """1. A bit of a closed file flips. 2. A reader that begins in it misses nothing. 3. The file is whole.

    The dump server is another one by then: what the first one had in memory would not be read from the file.
    """
    archived.create("a")
    begin = Position(archived.files[0].name, 4, server=server_of(archived))
    with reading(archived.reader(), start=begin, select=only("a")):
        await_true(archived.archive.histories, "a history")
        write_files(archived, 2)
        archived.await_whole()
        (history,) = archived.archive.histories()
        await_true(lambda: history.refresh().files[0].form is Form.ZSTD, "it is packed")
        stored = history.path(history.manifest.files[0])
        whole = stored.read_bytes()
        stored.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
        os.kill(archived.dump_server(), signal.SIGKILL)
        with reading(archived.reader(1), start=begin, select=only("a")) as recorder:
            await_rows(recorder, "a", 20)
            assert ids(recorder, "a") == list(range(20))
        await_true(lambda: list(history.folder.glob("*.quarantined")), "it is replaced")
        archived.await_whole()


def run(*arguments: object) -> str:
    """Run `canal-group archive ...`, which succeeds; return its output."""
    result = CliRunner().invoke(app, ["archive", *map(str, arguments)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_commands_read_a_live_archive(archived: Archived, tmp_path: Path) -> None:
    """1. It is checked while files end. 2. What is exported is what mysqlbinlog --raw writes."""
    archived.create("a")
    folder = archived.archive.folder
    with reading(archived.reader(), select=only("a")) as recorder:
        await_true(archived.archive.histories, "a history")
        writer = threading.Thread(target=write_files, args=(archived, 12))
        writer.start()
        while writer.is_alive():
            assert "FAIL" not in run("verify", folder)
            run("list", folder)
        writer.join()
        await_rows(recorder, "a", 120)
        archived.await_whole()
        out = tmp_path / "out"

        def is_exported() -> bool:
            """MariaDB may still add a checkpoint to its newest file."""
            shutil.rmtree(out, ignore_errors=True)
            run("export", folder, "--to", out)
            return {path.name: path.read_bytes() for path in out.iterdir()} == {
                path.name: as_sent(path) for path in archived.files
            }

        await_true(is_exported, "what is exported is the server's")
        exported = {path.name: path.read_bytes() for path in out.iterdir()}
        if isinstance(archived.server, MySqlServer):
            assert exported == raw_binlogs(archived.server, tmp_path / "raw")
        listed = run("list", folder)
        assert all(f"{name}  " in listed for name in exported)
        assert run("verify", folder).count("ok  ") == len(exported)
        assert "would remove" in run("prune", folder, "--bytes-max", "1KiB")
        refused = CliRunner().invoke(
            app, ["archive", "prune", str(folder), "--bytes-max", "1KiB", "--remove"]
        )
        assert f"Process {archived.dump_server()} writes to the archive" in str(refused.exception)


def write_files(archived: Archived, files: int) -> None:
    for step in range(files):
        archived.insert("a", range(step * 10, step * 10 + 10), "x" * 20_000)
        archived.server.execute("FLUSH BINARY LOGS")


@pytest.mark.soak
@pytest.mark.parametrize("archived", ["mariadb"], indirect=True)
def test_limits_hold_while_the_disk_is_too_full_to_write(archived: Archived) -> None:
    """1. Files are archived. 2. The disk counts as too full: nothing is written, and what is old goes."""
    archived.create("a")
    with reading(archived.reader(), select=only("a")):
        await_true(archived.archive.histories, "a history")
        write_files(archived, 2)
        archived.await_whole()
    os.kill(archived.dump_server(), signal.SIGKILL)
    full = replace(archived.options, hours=1e-9, disk_high=1e-9, disk_low=1e-10)
    object.__setattr__(archived, "options", full)
    (history,) = archived.archive.histories()
    names = [each.name for each in history.manifest.files]
    with reading(archived.reader(), select=only("a")) as recorder:
        archived.insert("a", range(20, 30))
        await_rows(recorder, "a", 10)
        await_true(
            lambda: [each.name for each in history.refresh().files] == names[-1:],
            "only the newest file stays",
        )
    assert not archived.is_whole()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_kills_at_any_moment(archived: Archived, seed: int) -> None:
    """The dump server is killed at random moments while files are ended every 100 ms."""
    rng = random.Random(seed)
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as recorder:
        await_true(archived.archive.histories, "a history")
        for step in range(50):
            archived.insert("a", range(step * 10, step * 10 + 10), "x" * rng.randrange(20_000))
            archived.server.execute("FLUSH BINARY LOGS", f"SELECT SLEEP({rng.random() * 0.2:.3f})")
            for pid in dump_server_pids(archived.reader()):
                if rng.random() < 0.4:
                    os.kill(pid, signal.SIGKILL)
        archived.await_whole()
        await_rows(recorder, "a", 500)
        assert ids(recorder, "a") == list(range(500))
    assert len(archived.archive.histories()) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB."""
    mount, umount, folder = shutil.which("mount"), shutil.which("umount"), tmp_path / "disk"
    folder.mkdir()
    if mount is None or umount is None or os.geteuid():
        pytest.skip("only root mounts a small disk")
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder], check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run([umount, "-l", folder], check=True)


@pytest.mark.soak
@pytest.mark.parametrize("high", [0.5, 1.0])
def test_a_full_disk_stops_the_archive_and_no_reader(
    archived: Archived, small_disk: Path, high: float
) -> None:
    """1. The disk is above the high mark, or full. 2. Readers go on. 3. With room, the rest is archived."""
    options = replace(archived.options, folder=str(small_disk / "archive"), disk_high=high, disk_low=0.4)
    object.__setattr__(archived, "options", options)
    object.__setattr__(archived, "archive", Archive(Disk(), small_disk / "archive"))
    archived.create("a")
    with reading(archived.reader(), select=only("a")) as recorder:
        await_true(archived.archive.histories, "a history")
        (small_disk / "filler").write_bytes(bytes((20 << 20) if high < 1 else (30 << 20)))
        archived.server.execute("SELECT SLEEP(1.5)")  # the intake looks at its disk each 0.5 s
        archived.insert("a", range(40), "x" * 100_000)
        await_rows(recorder, "a", 40)
        assert not archived.is_whole()
        (small_disk / "filler").unlink()
        archived.await_whole()
        archived.insert("a", range(40, 50))
        await_rows(recorder, "a", 50)
        archived.await_whole()
        assert ids(recorder, "a") == list(range(50))
    assert len(archived.archive.histories()) == 1
