"""The store in files: what a crash, another process, or damage does to it."""

import itertools
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from canal_group.actors.group.stored.cursors import CURSORS
from canal_group.actors.group.stored.histories import HISTORIES
from canal_group.actors.meta.file import FileStore
from canal_group.actors.ports import Key
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable, FencedError
from canal_group.programs.conformance.store import MEMBERS, TEXT, StoreConformance


@pytest.fixture
def store(tmp_path):
    return FileStore("shop", tmp_path)


@pytest.fixture
def file(store):
    return Path(store.where(TEXT))


@pytest.fixture
def epoch_file(tmp_path):
    return tmp_path / "shop@epoch.json"


class TestFile(StoreConformance):
    @pytest.fixture
    def elect(self):
        return itertools.count(1).__next__


def test_it_survives_a_restart(tmp_path):
    folder = tmp_path / "new" / "folder"
    FileStore("shop", folder).put(TEXT, "one\n", 7)
    restarted = FileStore("shop", folder)
    with pytest.raises(FencedError):
        restarted.put(TEXT, "late\n", 6)
    assert restarted.get(TEXT, 7) == "one\n"


def test_destinations_of_one_folder_do_not_see_each_other(tmp_path):
    stores = [FileStore(name, tmp_path) for name in ("shop", "shop.cursors", "shop.cursors.1")]
    for epoch, store in enumerate(stores, 1):
        store.put(MEMBERS, f"{epoch}\n", epoch)
        store.put(Key(CURSORS, "cursors.1001"), f"{epoch}\n", epoch)
    for epoch, store in enumerate(stores, 1):
        assert store.names(CURSORS, epoch) == ["1001", "cursors.1001"]
        assert store.get(MEMBERS, epoch) == f"{epoch}\n"


def test_cut_or_changed_anywhere_a_value_is_an_error_and_stays(store, file):
    store.put(TEXT, '{"position": 1234567}\n{"\u00e9": 120}\n', 12)
    whole = file.read_bytes()
    cut = [whole[:length] for length in range(len(whole))]
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for data in (*cut, *changed):
        file.write_bytes(data)
        with pytest.raises(ConfigError, match=r"shop@histories@s0\.json does not hold histories") as refusal:
            store.get(TEXT, 12)
        assert "a new history begins with what the source shows" in refusal.value.hint
        assert file.read_bytes() == data
    for data in cut:
        file.write_bytes(data)
        with pytest.raises(ConfigError, match=r"shop@histories@s0\.json does not hold histories"):
            store.append(TEXT, "more\n", 12)
        assert file.read_bytes() == data


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"5",
        b"[]",
        b"null",
        b"{}",
        b'{"bytes": 0}',
        b'{"bytes": -1, "crc32": 0}',
        b'{"bytes": true, "crc32": 0}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=lambda header: header[:30],
)
def test_a_file_that_holds_something_else_is_an_error(store, file, header):
    file.write_bytes(header + b"\nx\n")
    with pytest.raises(ConfigError, match="does not hold histories"):
        store.get(TEXT, 1)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "{}", '{"epoch": -1}', '{"epoch": true}', "\udcff", "[" * 100_000], ids=len
)
def test_a_damaged_epoch_stops_every_call_and_stays(store, file, epoch_file, text):
    store.put(TEXT, "old\n", 1)
    before = file.read_bytes()
    epoch_file.write_bytes(text.encode(errors="surrogateescape"))
    for call in (
        lambda: store.claim(13),
        lambda: store.names(HISTORIES, 13),
        lambda: store.get(TEXT, 13),
        lambda: store.put(TEXT, "new\n", 13),
        lambda: store.append(TEXT, "new\n", 13),
        lambda: store.delete(TEXT, 13),
    ):
        with pytest.raises(ConfigError, match=r"shop@epoch\.json does not hold an epoch"):
            call()
    assert epoch_file.read_bytes() == text.encode(errors="surrogateescape")
    assert file.read_bytes() == before


def test_a_left_over_temporary_file_is_harmless(store, file, epoch_file):
    for each in (file, epoch_file):
        each.with_name(each.name + ".tmp").write_text('{"epoch": 99')
    assert store.get(TEXT, 1) is None
    assert store.names(HISTORIES, 1) == []
    store.put(TEXT, "one\n", 1)
    file.with_name(file.name + ".tmp").write_text('{"epoch": 99')
    assert store.get(TEXT, 1) == "one\n"
    assert store.names(HISTORIES, 1) == ["s0"]
    store.put(TEXT, "two\n", 1)
    assert store.get(TEXT, 1) == "two\n"


def test_a_crash_after_any_byte_of_a_write_leaves_the_old_value(store, file, tmp_path):
    store.put(TEXT, "new\n", 1)
    new = file.read_bytes()
    store.put(TEXT, "old\n", 1)
    for length in range(len(new) + 1):
        file.with_name(file.name + ".tmp").write_bytes(new[:length])
        assert FileStore("shop", tmp_path).get(TEXT, 1) == "old\n"
    store.put(TEXT, "newer\n", 1)
    assert store.get(TEXT, 1) == "newer\n"


def test_what_a_crash_left_of_a_line_is_not_part_of_the_value(store, file):
    store.put(TEXT, "one\n", 1)
    for torn in ("tw", "x" * 10_000, "\u00e9"):
        with file.open("ab") as stream:
            stream.write(torn.encode()[:-1])
        assert store.get(TEXT, 1) == "one\n"
    store.append(TEXT, "two\n", 1)
    assert store.get(TEXT, 1) == "one\ntwo\n"


def test_an_interrupted_append_leaves_whole_lines(store, file):
    store.put(TEXT, "one\n", 1)
    before = file.read_bytes()
    for length in range(len("two\nthree\n") + 1):
        file.write_bytes(before + b"two\nthree\n"[:length])
        assert store.get(TEXT, 1) == "one\n" + ("two\n" if length >= 4 else "") + (
            "three\n" if length == 10 else ""
        )


def test_an_unreadable_folder_is_not_an_empty_one(store, monkeypatch):
    store.put(MEMBERS, "{}\n", 1)

    def fails(_folder):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "listdir", fails)
    monkeypatch.setattr(os, "scandir", fails)
    with pytest.raises(ConfigError, match="cannot be read"):
        store.names(CURSORS, 1)


def test_a_value_that_is_removed_again_is_gone_durably(store, monkeypatch):
    store.put(TEXT, "one\n", 1)
    store.claim(1)
    real, fails = os.fsync, True

    def fsync(fd):
        if fails:
            raise OSError(5, "Input/output error")
        real(fd)
        synced.append(fd)

    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(CoordinatorUnavailable):
        store.delete(TEXT, 1)
    fails = False
    store.delete(TEXT, 1)
    assert len(synced) == 1, "the first call may have removed it, and not have synced the folder"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_value(store, tmp_path, monkeypatch, step):
    store.put(TEXT, "old\n", 1)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (type(tmp_path), "replace")}[step], full)
    for epoch in (1, 2):
        with pytest.raises(CoordinatorUnavailable, match="No space left"):
            store.put(TEXT, "new\n", epoch)
    with pytest.raises(CoordinatorUnavailable, match="No space left"):
        store.claim(3)
    monkeypatch.undo()
    assert store.get(TEXT, 3) == "old\n"


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (
            lambda store: store.put(TEXT, "new\n", 1),
            ["fsync shop@histories@s0.json.tmp", "replace", "fsync folder"],
        ),
        (lambda store: store.append(TEXT, "new\n", 1), ["fsync shop@histories@s0.json"]),
        (lambda store: store.delete(TEXT, 1), ["unlink", "fsync folder"]),
        (lambda store: store.claim(2), ["fsync shop@epoch.json.tmp", "replace", "fsync folder"]),
        (lambda store: store.get(TEXT, 1), []),
    ],
)
def test_data_reaches_the_disk_before_its_name_and_that_before_the_answer(
    tmp_path, monkeypatch, write, expected
):
    store = FileStore("shop", tmp_path / "folder")
    store.put(TEXT, "old\n", 1)
    steps = []
    fsync, replace, unlink = os.fsync, Path.replace, Path.unlink

    def seen_fsync(fd):
        steps.append(f"fsync {Path(f'/proc/self/fd/{fd}').readlink().name}")
        fsync(fd)

    def seen_replace(self, target):
        steps.append("replace")
        return replace(self, target)

    def seen_unlink(self, *, missing_ok=False):
        if not self.name.endswith(".tmp"):
            steps.append("unlink")
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    monkeypatch.setattr(Path, "unlink", seen_unlink)
    write(store)
    assert steps == expected


def test_writers_of_several_processes_lose_nothing(store, tmp_path):
    script = """
import pathlib, sys
from canal_group.actors.group.stored.cursors import CURSORS
from canal_group.actors.group.stored.histories import HISTORIES
from canal_group.actors.meta.file import FileStore
from canal_group.actors.ports import Key
store = FileStore("shop", pathlib.Path(sys.argv[1]))
for number in range(40):
    store.put(Key(CURSORS, f"{sys.argv[2]}-{number}"), "{}\\n", 1)
    store.append(Key(HISTORIES, "s0"), f"{sys.argv[2]}-{number}\\n", 1)
"""
    store.put(TEXT, "", 1)
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    expected = sorted(f"{name}-{number}" for name in "ab" for number in range(40))
    assert store.names(CURSORS, 1) == expected
    assert sorted(store.get(TEXT, 1).split()) == expected


def test_its_files_are_their_owners_alone(store, tmp_path):
    store.put(TEXT, "{}\n", 1)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(
        ("shop@epoch.json", "shop@epoch.json.lock", "shop@histories@s0.json"), 0o600
    )
    assert json.loads((tmp_path / "shop@epoch.json").read_text()) == {"epoch": 1}


@pytest.mark.parametrize("name", ["../shop", "", "a@b", "n" * 101])
def test_a_name_that_cannot_begin_a_files_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot begin the name of a file"):
        FileStore(name, tmp_path)


def test_the_longest_names_are_names_of_files(tmp_path):
    store, key = FileStore("n" * 100, tmp_path), Key(HISTORIES, "n" * 128)
    store.put(key, "x\n", 1)
    assert store.get(key, 1) == "x\n"
