"""Which part of a reader's files its archive has on the disk, by the dump server's word and the manifests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.binlog.archived import SERVER, boundaries, options_of, recorded, written
from support.defaults import address_of

from canal_group.binlog.archive.history import History
from canal_group.binlog.server.dump_server.durable_files import DurableFiles
from canal_group.binlog.server.dump_server.wire import ArchiveEnd

ALL = (1 << 63) - 1


class Ring:
    """What is released, by file."""

    gated = True

    def __init__(self):
        self.durable = {}

    def release(self, durable):
        self.durable = durable


@pytest.fixture
def history(tmp_path) -> History:
    (found,) = written(tmp_path, recorded(), pack=False).histories(SERVER)
    return found


@pytest.fixture
def ring():
    return Ring()


@pytest.fixture
def files(history, ring):
    return DurableFiles(address_of("s1", "db0", archive=options_of(history.folder.parent)), ring)


def created_of(history):
    return {entry.name: entry.created_s for entry in history.manifest.files}


def end_of(history, index=-1, offset=0):
    entry = history.manifest.files[index]
    return ArchiveEnd(history.name, entry.name, offset, entry.created_s)


def test_files_before_the_last_one_are_durable_as_far_as_the_manifest_says(files, ring, history):
    created = created_of(history)
    assert len(created) > 1
    files.reading(created)
    assert ring.durable == {}, "the dump server has said nothing"
    offset = min(boundaries(recorded()[list(created)[-1]]))
    history.put(replace(history.manifest.last, size=0))
    files.reached(SERVER, end_of(history, offset=offset))
    sizes = {entry.name: entry.size for entry in history.manifest.files}
    last = list(created)[-1]
    assert ring.durable == {**sizes, last: offset}
    files.reached(SERVER, end_of(history, offset=offset + 1))
    assert ring.durable[last] == offset + 1
    assert not files.lacks


def test_a_file_that_is_named_alike_is_another_one(files, ring, history):
    """The source was reset: its files have the names of the archive's files."""
    files.reached(SERVER, end_of(history, offset=1_000))
    files.reading({name: created_s - 5 for name, created_s in created_of(history).items()})
    assert not any(ring.durable.values())


def test_a_file_that_the_archive_never_had_is_named(files, ring, history):
    oldest = history.manifest.files[0]
    files.reached(SERVER, end_of(history, offset=1_000))
    files.reading({"mysql-bin.000000": oldest.created_s - 1})
    assert ring.durable == {"mysql-bin.000000": 0}
    assert "mysql-bin.000000" in files.lacks
    files.reading({"mysql-bin.000000": oldest.created_s - 1, oldest.name: oldest.created_s})
    assert ring.durable[oldest.name] == oldest.size


def test_a_file_that_the_archive_no_longer_has_was_durable(files, ring, history):
    oldest = history.manifest.files[0]
    history.forget(oldest.name)
    files.reached(SERVER, end_of(history, offset=1_000))
    files.reading({oldest.name: oldest.created_s})
    assert ring.durable == {oldest.name: ALL}
    assert not files.lacks


def test_without_manifests_only_the_last_file_is_released(files, ring, history):
    created = created_of(history)
    files.reading(created)
    (history.folder / "manifest.json").write_text("{")
    files.reached(SERVER, end_of(history, offset=500))
    assert ring.durable == {list(created)[-1]: 500}
    assert "manifest.json" in files.lacks
