"""An archive on another machine: it goes on after what the object store has, or begins its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.binlog.archived import SERVER, content, dump, options_of, recorded
from support.deadline import await_true

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.manifest import MANIFEST, State
from canal_group.binlog.archive.object_store import ObjectStore
from canal_group.binlog.archive.operating.retention import DiskMarks
from canal_group.binlog.dump_server.archive_intake import ArchiveIntake

FILES = recorded()
FIRST, LAST = FILES
#: bytes beyond which files move: all that are closed
NONE_STAYS = 1


@contextlib.contextmanager
def intake(machine: Path, store: Path, *, anew: bool = False) -> Iterator[ArchiveIntake]:
    """Archive the server on a machine, which is a folder."""
    archive = Archive(Disk(), machine, store=ObjectStore(str(store)))
    options = replace(options_of(machine), sync_s=0.0, bytes_max=NONE_STAYS, store=str(store))
    with archive.lock(SERVER):
        opened = ArchiveIntake(archive, options, SERVER, DiskMarks(1.0, 0.9), list, anew=anew)
        try:
            yield opened
        finally:
            opened.close()


def put_all(opened: ArchiveIntake) -> None:
    opened.start()
    for event in dump(FILES, opened.position):
        opened.put(event)


def moved(machine: Path, store: Path) -> None:
    with intake(machine, store) as opened:
        put_all(opened)
        await_true(lambda: opened.describe()["moved"] == 1 or opened.require(), "a closed file is moved")


def manifests(store: Path) -> list[str]:
    return [path.name for path in store.glob(f"*/{MANIFEST}*")]


def test_another_machine_goes_on_after_what_the_store_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """1. A machine archives, and moves files. 2. Another one begins where the store ends, and has all."""
    one, other, store = (tmp_path / name for name in ("one", "other", "store"))
    moved(one, store)
    with intake(other, store) as opened:
        assert opened.position is not None
        assert (opened.position.file, opened.position.offset) == (FIRST, len(FILES[FIRST]))
        put_all(opened)
        end = LAST, len(FILES[LAST])
        await_true(lambda: (opened.describe()["file"], opened.describe()["offset"]) == end, "it has all")
    assert f"has nothing of server {SERVER}. Its store has" in caplog.text
    (history,) = Archive(Disk(), other, store=ObjectStore(str(store))).histories()
    assert [each.state for each in history.manifest.files] == [State.MOVED, State.OPEN]
    assert {name: content(history, name) for name in FILES} == FILES
    assert len(manifests(store)) == 1, "the newest one has replaced the first"
    (history,) = Archive(Disk(), one, store=ObjectStore(str(store))).histories()
    assert {name: content(history, name) for name in FILES} == FILES, "the first machine still has its own"


def test_a_machine_without_a_store_that_has_files_begins_its_own(tmp_path: Path) -> None:
    one, other, store = (tmp_path / name for name in ("one", "other", "store"))
    moved(one, store)
    for path in store.glob(f"*/{MANIFEST}*"):
        path.unlink()
    with intake(other, store) as opened:
        assert opened.position is None
    with intake(other, store, anew=True) as opened:
        assert opened.position is None


def test_the_manifest_of_an_older_epoch_is_not_followed(tmp_path: Path) -> None:
    """A machine was fenced, and says later than the other one which files it has moved."""
    one, other, store = (tmp_path / name for name in ("one", "other", "store"))
    moved(one, store)
    (kept,) = store.glob(f"*/{MANIFEST}*")
    moved(other, store)
    kept.with_name(f"{MANIFEST}.e1.99").write_bytes(b"of a process that was fenced")
    with intake(tmp_path / "third", store) as opened:
        assert opened.position is not None
