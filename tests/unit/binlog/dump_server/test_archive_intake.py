"""The intake of an archive: what is put becomes durable, what fails is said, and limits hold meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.binlog.archived import SERVER, content, dump, options_of, recorded, written
from support.deadline import await_true

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk, OpenFile
from canal_group.binlog.archive.manifest import Form, State
from canal_group.binlog.archive.object_store import ObjectStore
from canal_group.binlog.archive.operating.retention import DiskMarks
from canal_group.binlog.dump_server import archive_intake
from canal_group.binlog.dump_server.archive_intake import ArchiveIntake
from canal_group.binlog.formats.events import MAGIC
from canal_group.merge.errors import CorruptEvent, RetryableError
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition

FILES = recorded()


class FullDisk(Disk):
    """A disk of which tests say how much is free."""

    def __init__(self) -> None:
        self.free_part = 1.0

    def free(self, folder: Path) -> tuple[int, int]:  # noqa: ARG002 - as `FileLayer` has it
        return int(self.free_part * 1000), 1000


class CountingDisk(Disk):
    """A disk that counts what is appended to binlog files."""

    def __init__(self) -> None:
        self.appended = 0

    def create(self, file: Path) -> OpenFile:
        made = super().create(file)
        if file.suffix[1:].isdigit():
            append = made.append

            def counted(data: bytes | memoryview) -> None:
                append(data)
                self.appended += len(data)

            made.append = counted  # type: ignore[method-assign]
        return made


@contextlib.contextmanager
def intake(
    archive: Archive, kept: list[KeptPosition] | None = None, marks: DiskMarks | None = None, **changes: Any
) -> Iterator[ArchiveIntake]:
    options = replace(options_of(archive.folder), **{"sync_s": 0.0, **changes})
    with archive.lock(SERVER):
        opened = ArchiveIntake(archive, options, SERVER, marks or DiskMarks(0.9, 0.8), lambda: kept)
        try:
            yield opened
        finally:
            opened.close()


def put_all(opened: ArchiveIntake, position: Position | None = None) -> None:
    for event in dump(FILES, position):
        opened.put(event)


def states(archive: Archive) -> dict[str, State]:
    (history,) = archive.histories()
    return {entry.name: entry.state for entry in history.manifest.files}


@pytest.mark.parametrize("piece_bytes", [1, 1 << 30])
def test_what_was_put_is_durable_and_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """Whether it is written as it was put, or in one piece."""
    monkeypatch.setattr(archive_intake, "PIECE_BYTES", piece_bytes)
    archive, names = Archive(Disk(), tmp_path), list(FILES)
    with intake(archive) as opened:
        assert opened.position is None
        opened.start()
        put_all(opened)
        end = names[-1], len(FILES[names[-1]])
        await_true(lambda: (opened.describe()["file"], opened.describe()["offset"]) == end, "it is durable")
        await_true(lambda: not opened.full and opened.describe()["files"] == len(names), "all files")
    with intake(archive) as opened:
        position = opened.position
        assert position is not None
        assert (position.file, position.offset) == end
        opened.start()
        put_all(opened, position)
    (history,) = archive.histories()
    assert {name: content(history, name) for name in names} == FILES


def test_closed_files_are_compressed_meanwhile(tmp_path: Path) -> None:
    archive = Archive(Disk(), tmp_path)
    with intake(archive) as opened:
        opened.start()
        put_all(opened)

        def packed() -> bool:
            found = archive.histories()
            return bool(found) and [each.form for each in found[0].manifest.files[:-1]] == [Form.ZSTD] * (
                len(FILES) - 1
            )

        await_true(packed, "closed files are packed")


@pytest.mark.parametrize("sync_s", [0.0, 60.0])
def test_little_that_arrives_is_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync_s: float
) -> None:
    """1. An event is written at once. 2. Little more waits for much, or the end, unless each is synced."""
    monkeypatch.setattr(archive_intake, "GATHER_S", 60.0)
    monkeypatch.setattr(archive_intake, "GATHER_BYTES", 10_000)
    disk, name = CountingDisk(), next(iter(FILES))
    archive, events = Archive(disk, tmp_path), dump({name: FILES[name]})
    with intake(archive, sync_s=sync_s) as opened:
        opened.start()
        opened.put(b"".join(events[:3]))
        await_true(lambda: disk.appended > len(MAGIC), "it is written")
        written_to = put_to = disk.appended
        for event in events[3:]:
            opened.put(event)
            put_to += len(event)
            if not sync_s or put_to - written_to >= 10_000:
                written_to = put_to
                await_true(lambda end=put_to: disk.appended == end, "it is written")
        if sync_s:
            assert put_to > written_to, "there is some that waits for the end"
            with pytest.raises(AssertionError, match="written"):
                await_true(lambda: disk.appended > written_to, "written before", deadline_s=0.2)
    (history,) = archive.histories()
    assert content(history, name) == FILES[name]


def test_what_does_not_follow_is_raised_where_the_source_is_read(tmp_path: Path) -> None:
    archive = Archive(Disk(), tmp_path)
    with intake(archive) as opened:
        opened.start()
        events = dump(FILES)
        opened.put(events[0])
        opened.put(events[1])
        opened.put(events[3])
        with pytest.raises(CorruptEvent):
            await_true(opened.require, "it is refused")
        with pytest.raises(CorruptEvent):
            opened.put(events[4])


def test_nothing_is_written_while_the_disk_is_too_full(tmp_path: Path) -> None:
    disk = FullDisk()
    archive, marks = Archive(disk, tmp_path), DiskMarks(0.9, 0.8)
    with intake(archive, marks=marks) as opened:
        opened.start()
        disk.free_part = 0.05
        with pytest.raises(RetryableError, match="is used to 95"):
            await_true(opened.require, "it stops")
    disk.free_part = 0.15
    with pytest.raises(RetryableError, match="is used to 85"), intake(archive, marks=marks):
        pass
    disk.free_part = 0.25
    with intake(archive, marks=marks):
        pass


def test_the_limit_of_bytes_removes_the_oldest_files(tmp_path: Path) -> None:
    archive = Archive(Disk(), tmp_path)
    with intake(archive) as opened:
        opened.start()
        put_all(opened)
    with intake(archive, bytes_max=1):
        pass
    assert list(states(archive)) == list(FILES)[-1:]


def test_hours_wait_for_kept_positions(tmp_path: Path) -> None:
    archive, names = Archive(Disk(), tmp_path), list(FILES)
    with intake(archive) as opened:
        opened.start()
        put_all(opened)
    with intake(archive, kept=None, hours=1e-6):
        pass
    assert list(states(archive)) == names, "it is not known who reads"
    with intake(archive, kept=[KeptPosition("a", Position(names[0], 4))], hours=1e-6):
        pass
    assert list(states(archive)) == names
    with intake(archive, kept=[], hours=1e-6):
        pass
    assert list(states(archive)) == names[-1:]


def test_closed_files_move_to_the_store(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path / "store"))
    archive = Archive(Disk(), tmp_path / "archive", store=store)
    with intake(archive, bytes_max=1, store=str(tmp_path / "store")) as opened:
        opened.start()
        put_all(opened)
        await_true(
            lambda: opened.describe()["moved"] == len(FILES) - 1 or opened.require(), "closed files are moved"
        )
    (history,) = archive.histories()
    assert {name: content(history, name) for name in FILES} == FILES


def test_moved_files_stay_in_a_store_when_its_setting_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """1. Files have moved. 2. `archive.store` is removed: that is said, limits go on. 3. It is back."""
    names, address = list(FILES), str(tmp_path / "store")
    archive = Archive(Disk(), tmp_path / "archive", store=ObjectStore(address))
    with intake(archive, bytes_max=1, store=address) as opened:
        opened.start()
        put_all(opened)
        await_true(lambda: opened.describe()["moved"] == len(names) - 1, "closed files are moved")
    archive.store = None
    with intake(archive, kept=[], hours=1e-6) as opened:
        assert caplog.text.count("archive.store names none") == 1
        assert states(archive) == dict.fromkeys(names[:-1], State.PRUNED) | {names[-1]: State.OPEN}
        assert opened.describe()["moved"] == 0
    stored = [path for path in (tmp_path / "store").rglob("*.zst.*") if path.is_file()]
    assert len(stored) == len(names) - 1
    archive.store = ObjectStore(address)
    with intake(archive, store=address):
        pass
    assert list(states(archive)) == names[-1:]
    assert not any(path.exists() for path in stored)


class BusyStore(ObjectStore):
    """A store that takes a file only when it is told to."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.asked, self.takes = threading.Event(), threading.Event()

    def put(self, name: str, file: Path) -> None:
        self.asked.set()
        assert self.takes.wait(60), "it is told to"
        super().put(name, file)


@pytest.mark.parametrize("starts", [False, True])
def test_an_upload_that_has_begun_is_noted_at_the_end(tmp_path: Path, *, starts: bool) -> None:
    """One of several compressed files moves while the intake is closed: the manifest says so."""
    written(tmp_path / "archive", FILES)
    store = BusyStore(str(tmp_path / "store"))
    archive = Archive(Disk(), tmp_path / "archive", store=store)
    with intake(archive, bytes_max=1, store=str(tmp_path / "store")) as opened:
        if starts:
            opened.start()
        assert store.asked.wait(60)
        threading.Timer(0.3, store.takes.set).start()
    (history,) = archive.histories()
    (moved,) = (entry.remote for entry in history.manifest.files if entry.state is State.MOVED)
    files = [path for path in (tmp_path / "store").rglob("*.zst.*") if path.is_file()]
    assert [str(path.relative_to(tmp_path / "store")) for path in files] == [moved]
