"""The repair of an archive: what is damaged is quarantined, and replaced only by what was written."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path

import pytest
from support.binlog.archived import SERVER, content, options_of, recorded, refuse, written
from support.deadline import await_true

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.forms.readable import Readable
from canal_group.binlog.archive.manifest import FileEntry, State
from canal_group.binlog.archive.object_store import ObjectStore
from canal_group.binlog.archive.operating.retention import DiskMarks
from canal_group.binlog.archive.recovery import Recovery
from canal_group.binlog.archive.upkeep import Upkeep
from canal_group.binlog.dump_server.archive_intake import ArchiveIntake
from canal_group.binlog.dump_server.archive_repair import ArchiveRepair
from canal_group.merge.errors import PositionPurged, SourceUnavailable

FILES = recorded()
FIRST = next(iter(FILES))


class Bytes:
    """A file that a source sends."""

    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def read_at(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def close(self) -> None:
        pass


class Source:
    """Sends files, or no longer has them."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.asked = files, list[str]()

    def __call__(self, entry: FileEntry, _stopped: object) -> Readable:
        self.asked.append(entry.name)
        if entry.name not in self.files:
            raise PositionPurged(f"The source no longer has {entry.name}.")
        return Bytes(self.files[entry.name])


@contextlib.contextmanager
def intake(archive: Archive, source: Source) -> Iterator[ArchiveIntake]:
    options = replace(options_of(archive.folder), sync_s=0.0)
    with archive.lock(SERVER):
        opened = ArchiveIntake(archive, options, SERVER, DiskMarks(1.0, 0.9), list, sent=source)
        opened.start()
        try:
            yield opened
        finally:
            opened.close()


def entry_of(archive: Archive) -> FileEntry:
    (history,) = archive.histories()
    entry = history.manifest.entry(FIRST)
    assert entry is not None
    return entry


def damage(path: Path) -> bytes:
    """Flip a bit in the middle of a file, and return it as it was."""
    whole = path.read_bytes()
    at = len(whole) // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    return whole


def test_what_a_reader_finds_damaged_is_copied_from_the_source(tmp_path: Path) -> None:
    """1. A file is said to be damaged, and is not. 2. It is: it is copied, and the damaged one is kept."""
    archive, source = written(tmp_path, FILES), Source(FILES)
    (history,) = archive.histories()
    stored = history.path(entry_of(archive))
    with intake(archive, source) as opened:
        opened.suspect(f"{history.name}/{FIRST}")
        await_true(lambda: not opened._repair._suspects and opened._repair._checking is None, "it is checked")
        assert entry_of(archive).state is State.CLOSED
        assert not source.asked
        damage(stored)
        opened.suspect(f"{history.name}/{stored.name}")
        await_true(lambda: source.asked and entry_of(archive).state is State.CLOSED, "it is copied")
        assert content(archive.histories()[0], FIRST) == FILES[FIRST]
    assert source.asked == [FIRST]
    assert [path.name for path in history.folder.glob("*.quarantined")] == [f"{stored.name}.quarantined"]


def test_another_file_of_the_name_replaces_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two files are damaged. Of one the source has another one now; the other one is copied nevertheless."""
    files = {**FILES, "mysql-bin.000004": FILES[list(FILES)[-1]]}
    archive, names = written(tmp_path, files), list(files)
    source = Source({**files, names[0]: files[names[0]][:-1] + b"?"})
    (history,) = archive.histories()
    for name in names[:2]:
        entry = history.manifest.entry(name)
        assert entry is not None
        history.path(entry).unlink()
    with caplog.at_level(logging.WARNING), intake(archive, source):
        await_true(lambda: "stays damaged" in caplog.text, "it is refused")
        await_true(lambda: "is whole again" in caplog.text, "the other one is copied")
    found = archive.histories()[0].manifest.files
    assert [each.state for each in found[:2]] == [State.QUARANTINED, State.CLOSED]
    assert f"The copy of {names[0]} is not the file that the archive had" in caplog.text
    assert content(archive.histories()[0], names[1]) == files[names[1]]


def test_the_object_store_is_asked_before_the_source(tmp_path: Path) -> None:
    """An upload was not noted, because its process was killed. The source has purged the file."""
    written(tmp_path / "archive", FILES)
    archive = Archive(Disk(), tmp_path / "archive", store=ObjectStore(str(tmp_path / "store")))
    (history,) = archive.histories()
    Upkeep(archive, history).upload(FIRST, 7)
    source = Source({})
    damage(history.path(entry_of(archive)))
    with intake(archive, source) as opened:
        opened.suspect(f"{history.name}/{FIRST}")
        await_true(lambda: list(history.folder.glob("*.quarantined")), "it is copied")
        await_true(lambda: entry_of(archive).state is State.CLOSED, "it is whole")
    assert content(archive.histories()[0], FIRST) == FILES[FIRST]
    assert not source.asked


def test_a_file_that_is_damaged_in_the_store_is_copied_back(tmp_path: Path) -> None:
    written(tmp_path / "archive", FILES)
    archive = Archive(Disk(), tmp_path / "archive", store=ObjectStore(str(tmp_path / "store")))
    (history,) = archive.histories()
    Upkeep(archive, history).move(FIRST, 7)
    damage(tmp_path / "store" / entry_of(archive).remote)
    with intake(archive, Source(FILES)) as opened:
        opened.suspect(f"{history.name}/{FIRST}")
        await_true(lambda: entry_of(archive).state is State.CLOSED, "it is copied")
    assert content(archive.histories()[0], FIRST) == FILES[FIRST]
    assert not entry_of(archive).remote


def test_a_store_that_does_not_answer_proves_no_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path / "archive", FILES)
    archive = Archive(Disk(), tmp_path / "archive", store=ObjectStore(str(tmp_path / "store")))
    (history,) = archive.histories()
    Upkeep(archive, history).move(FIRST, 7)
    stored = tmp_path / "store" / entry_of(archive).remote
    stored.rename(stored.with_suffix(".away"))
    stored.mkdir()
    with intake(archive, Source(FILES)) as opened:
        opened.suspect(f"{history.name}/{FIRST}")
        await_true(lambda: "was not checked" in caplog.text, "it is looked at")
    assert entry_of(archive).state is State.MOVED


def test_a_file_that_is_removed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """While all of it is read, or copied."""
    for step in ("checked", "copied"):
        archive = written(tmp_path / step, FILES)
        (history,) = archive.histories()
        upkeep, repair = Upkeep(archive, history), ArchiveRepair(archive, Source(FILES))
        damage(history.path(entry_of(archive)))
        if step == "checked":
            repair.suspect(f"{history.name}/{FIRST}")
        else:
            upkeep.quarantine(FIRST, 0, 1)
        repair.step([upkeep], 0.0)
        work = repair._checking or repair._copying
        assert work is not None
        wait([work[1]])
        upkeep.prune(FIRST)
        assert not repair.step([upkeep], 0.0)
        assert history.manifest.entry(FIRST) is None
        assert not [path.name for path in history.folder.iterdir() if path.name.startswith(FIRST)]
        repair.close()


def test_a_copy_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    archive = written(tmp_path, FILES)
    (history,) = archive.histories()
    before = sorted(history.folder.iterdir())

    class Breaking(Bytes):
        def read_at(self, offset: int, size: int) -> bytes:
            if offset:
                raise SourceUnavailable("The source has ended the dump.")
            return super().read_at(offset, min(size, 100))

    with pytest.raises(SourceUnavailable):
        Upkeep(archive, history).copy(FIRST, Breaking(FILES[FIRST]))
    assert sorted(history.folder.iterdir()) == before


def test_what_was_copied_is_whole_after_a_recovery(tmp_path: Path) -> None:
    archive = written(tmp_path, FILES)
    (history,) = archive.histories()
    history.path(entry_of(archive)).unlink()
    with intake(archive, Source(FILES)):
        await_true(lambda: entry_of(archive).state is State.CLOSED, "it is copied")
    Recovery(archive.disk, archive.histories()[0], archive.keys, refuse).run()
    assert content(archive.histories()[0], FIRST) == FILES[FIRST]
