import os
import subprocess
import sys

import pytest

from actors.meta.file import FileCursorStore
from actors.ports import Subscription
from merge.errors import ConfigError, CoordinatorUnavailable, FencedError
from merge.values.position import GroupPosition, Position


def at(offset):
    return GroupPosition({"s0": Position("mysql-bin.000001", offset)}, sequence=offset)


def reader(offset):
    return Subscription("1001", "", at(offset))


def test_it_survives_a_restart(tmp_path):
    FileCursorStore("shop", tmp_path / "new" / "folder").save(reader(4), 7)
    restarted = FileCursorStore("shop", tmp_path / "new" / "folder")
    assert restarted.load() == [reader(4)]
    with pytest.raises(FencedError):
        restarted.save(reader(5), 6)


def test_cut_at_every_length_it_gives_an_error_or_the_value_never_another(tmp_path):
    store = FileCursorStore("shop", tmp_path)
    store.save(Subscription("0001", "a\\..*,b\\..*", at(120)), 12)
    store.save(reader(1234567), 12)
    saved = store.load()
    whole = store.file.read_bytes()
    for length in range(len(whole)):
        store.file.write_bytes(whole[:length])
        if length == len(whole) - 1:  # only the last line feed is missing
            assert store.load() == saved
            continue
        for attempt in (
            store.load,
            lambda: store.save(reader(4), 13),
            lambda: store.claim(13),
            lambda: store.forget("1001", 13),
        ):
            with pytest.raises(ConfigError, match=r"shop\.cursors\.json"):
                attempt()
        assert store.file.read_bytes() == whole[:length]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        "{}",
        '{"epoch": -1, "subscriptions": {}}',
        '{"epoch": "1", "subscriptions": {}}',
        '{"epoch": true, "subscriptions": {}}',
        '{"epoch": 1, "subscriptions": []}',
        '{"epoch": 1, "subscriptions": {"1001": {}}}',
        '{"epoch": 1, "subscriptions": {"1001": {"filter": null, "cursor": null}}}',
        '{"epoch": 1, "subscriptions": {"1001": {"filter": "", "cursor": {}}}}',
        '{"epoch": 1, "subscriptions": {"1001": {"filter": "", "cursor": "{}"}}}',
        '{"epoch": 1, "subscriptions": {}} {}',
        "\udcff",
    ],
)
def test_a_damaged_file_is_named(tmp_path, text):
    store = FileCursorStore("shop", tmp_path)
    store.file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=r"shop\.cursors\.json"):
        store.load()


def test_a_left_over_temporary_file_is_harmless(tmp_path):
    store = FileCursorStore("shop", tmp_path)
    (tmp_path / "shop.cursors.json.tmp").write_text('{"epoch": 99')
    assert store.load() == []
    store.save(reader(4), 1)
    (tmp_path / "shop.cursors.json.tmp").write_text('{"epoch": 99')
    assert FileCursorStore("shop", tmp_path).load() == [reader(4)]
    store.save(reader(5), 1)
    assert store.load() == [reader(5)]


def test_a_crash_after_any_byte_of_a_write_leaves_the_old_value(tmp_path):
    store = FileCursorStore("shop", tmp_path)
    store.save(reader(5), 2)
    new = store.file.read_bytes()
    store.file.unlink()
    store.save(reader(4), 1)
    for length in range(len(new) + 1):
        (tmp_path / "shop.cursors.json.tmp").write_bytes(new[:length])
        assert FileCursorStore("shop", tmp_path).load() == [reader(4)]
    FileCursorStore("shop", tmp_path).save(reader(6), 2)
    assert store.load() == [reader(6)]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_value(tmp_path, monkeypatch, step):
    store = FileCursorStore("shop", tmp_path)
    store.save(reader(4), 1)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (type(tmp_path), "replace")}[step], full)
    with pytest.raises(CoordinatorUnavailable, match="No space left"):
        store.save(reader(5), 1)
    monkeypatch.undo()
    assert store.load() == [reader(4)]


def test_the_data_reaches_the_disk_before_its_name_and_the_name_before_the_answer(tmp_path, monkeypatch):
    store = FileCursorStore("shop", tmp_path)
    steps = []
    fsync, replace = os.fsync, type(tmp_path).replace

    def seen_fsync(fd):
        steps.append("fsync " + os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))  # noqa: PTH115, PTH119
        fsync(fd)

    def seen_replace(self, target):
        steps.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(type(tmp_path), "replace", seen_replace)
    store.save(reader(4), 1)
    assert steps == ["fsync shop.cursors.json.tmp", "replace", f"fsync {tmp_path.name}"]


def test_writers_of_several_processes_lose_nothing(tmp_path):
    script = """
import pathlib, sys
from actors.meta.file import FileCursorStore
from actors.ports import Subscription
store = FileCursorStore("shop", pathlib.Path(sys.argv[1]))
for number in range(40):
    store.save(Subscription(f"{sys.argv[2]}-{number}", "", None), 1)
"""
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    found = {subscription.client_id for subscription in FileCursorStore("shop", tmp_path).load()}
    assert found == {f"{name}-{number}" for name in "ab" for number in range(40)}


def test_a_name_that_cannot_be_a_file_is_refused(tmp_path):
    with pytest.raises(ConfigError):
        FileCursorStore("../shop", tmp_path)
