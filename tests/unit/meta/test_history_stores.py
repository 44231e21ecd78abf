"""Stores of schema histories: what was saved comes back, and an older epoch changes nothing."""

from __future__ import annotations

import random
import stat

import pytest

from actors.meta import history_zookeeper
from actors.meta.history_file import FileHistoryStore
from actors.meta.history_memory import MemoryHistoryStore
from actors.meta.history_zookeeper import ZooKeeperHistoryStore
from canal_group.zookeeper.tree import Tree
from merge.errors import ConfigError, CoordinatorUnavailable, FencedError
from merge.values.epoch import refuse_older

TREE = Tree("shop")


class Nodes:
    """ZooKeeper's nodes; what the epoch is, the newest writer says."""

    def __init__(self):
        self.data = {}
        self.epoch = 0
        self.fails_after = None

    def read(self, path):
        return self.data.get(path)

    def children(self, path):
        raise NotImplementedError

    def require_epoch(self, epoch):
        refuse_older(epoch, self.epoch, "shop")
        self.epoch = epoch

    def write(self, epoch, changes):
        self.require_epoch(epoch)
        if self.fails_after is not None:
            self.fails_after -= 1
            if self.fails_after < 0:
                raise CoordinatorUnavailable("lost")
        for path, data in changes:
            if data is None:
                del self.data[path]
            else:
                assert len(data) <= history_zookeeper.BYTES_MAX
                self.data[path] = data


@pytest.fixture(params=["file", "memory", "zookeeper"])
def store(request, tmp_path):
    match request.param:
        case "file":
            return FileHistoryStore("shop", tmp_path / "new")
        case "memory":
            return MemoryHistoryStore()
        case _:
            return ZooKeeperHistoryStore(Nodes(), TREE)


def test_what_was_saved_is_loaded_for_its_shard(store):
    assert store.load("s0", 1) is None
    store.save("s0", '{"a":"\u00e9"}\n', 1)
    store.save("s1", "{}\n", 1)
    assert store.load("s0", 1) == '{"a":"\u00e9"}\n'
    assert store.load("s1", 2) == "{}\n"


def test_what_was_added_continues_what_was_saved(store):
    store.save("s0", "one\n", 1)
    store.append("s0", "two\nthree\n", 1)
    store.append("s0", "f\u00f6ur\n", 1)
    assert store.load("s0", 2) == "one\ntwo\nthree\nf\u00f6ur\n"
    with pytest.raises(FencedError):
        store.append("s0", "late\n", 1)
    store.append("s0", "five\n", 2)
    assert store.load("s0", 2).endswith("f\u00f6ur\nfive\n")
    store.save("s0", "anew\n", 2)
    assert store.load("s0", 2) == "anew\n"


def test_an_older_epoch_is_fenced_by_one_that_has_loaded(store):
    store.save("s0", "old\n", 1)
    assert store.load("s0", 2) == "old\n"
    for stale in (lambda: store.save("s0", "late", 1), lambda: store.load("s0", 1)):
        with pytest.raises(FencedError):
            stale()
    assert store.load("s0", 2) == "old\n"


def text_of(size, seed):
    """Return a text that cannot be compressed well."""
    return random.Random(seed).randbytes(size // 2).hex()


def test_a_large_history_is_kept_in_parts_and_its_predecessor_goes(monkeypatch):
    monkeypatch.setattr(history_zookeeper, "BYTES_MAX", 1000)
    monkeypatch.setattr(history_zookeeper, "ADDED_CHARS", 500)
    nodes = Nodes()
    store = ZooKeeperHistoryStore(nodes, TREE)
    for size in (50_000, 70_000, 100, 60_000, 100):
        text = text_of(size, size)
        store.save("s0", text, 1)
        assert store.load("s0", 1) == text
        store.append("s0", text_of(2_000, 7) + "\n", 1)
        store.append("s0", "more\n", 1)
        assert store.load("s0", 1) == text + text_of(2_000, 7) + "\nmore\n"
    store.save("s0", "short", 1)
    assert sorted(nodes.data) == [f"{TREE.schema}/s0", f"{TREE.schema}/s0:0:0"]


def test_additions_share_nodes_while_they_are_small(monkeypatch):
    monkeypatch.setattr(history_zookeeper, "_ADDED_BYTES", 200)
    nodes = Nodes()
    store = ZooKeeperHistoryStore(nodes, TREE)
    store.save("s0", "whole\n", 1)
    for number in range(30):
        store.append("s0", f"{text_of(60, number)}\n", 1)
    assert store.load("s0", 1).count("\n") == 31
    assert 4 < len(nodes.data) < 20


def test_an_addition_without_what_it_continues_is_refused():
    with pytest.raises(ConfigError, match="was to be continued"):
        ZooKeeperHistoryStore(Nodes(), TREE).append("s0", "x\n", 1)


def test_a_write_that_fails_halfway_leaves_the_history_before_it(monkeypatch):
    monkeypatch.setattr(history_zookeeper, "BYTES_MAX", 1000)
    nodes = Nodes()
    store = ZooKeeperHistoryStore(nodes, TREE)
    before, after = text_of(20_000, 1), text_of(20_000, 2)
    store.save("s0", before, 1)
    for failing in range(10):
        nodes.fails_after = failing
        with pytest.raises(CoordinatorUnavailable):
            store.save("s0", after, 1)
        assert store.load("s0", 1) == before
    nodes.fails_after = None
    store.save("s0", after, 1)
    assert store.load("s0", 1) == after


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"number":0,"parts":2,"added":0}', b'{"number":0,"parts":1}', b"\xff"]
)
def test_a_node_that_holds_something_else_is_an_error(data):
    nodes = Nodes()
    nodes.data[f"{TREE.schema}/s0"] = data
    with pytest.raises(ConfigError, match="does not hold a schema history"):
        ZooKeeperHistoryStore(nodes, TREE).load("s0", 1)


@pytest.mark.parametrize("text", ["", "{", '{"epoch": -1}\n', '{"epoch": true}\n', "[]\n", "\udcff"])
def test_a_damaged_file_is_an_error_and_stays(tmp_path, text):
    file = tmp_path / "shop.s0.schema.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    store = FileHistoryStore("shop", tmp_path)
    for use in (lambda: store.load("s0", 1), lambda: store.save("s0", "{}", 1)):
        with pytest.raises(ConfigError, match="does not hold a schema history"):
            use()
    assert file.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_what_a_crash_left_of_a_line_is_no_part_of_the_text(tmp_path):
    store = FileHistoryStore("shop", tmp_path)
    file = tmp_path / "shop.s0.schema.json"
    store.save("s0", "one\n", 1)
    for torn in ("tw", "x" * 10_000):
        with file.open("a") as stream:
            stream.write(torn)
        assert store.load("s0", 1) == "one\n"
    store.append("s0", "two\n", 1)
    assert store.load("s0", 1) == "one\ntwo\n"


def test_a_file_is_its_owners_alone(tmp_path):
    FileHistoryStore("shop", tmp_path).save("s0", "{}", 1)
    assert stat.S_IMODE((tmp_path / "shop.s0.schema.json").stat().st_mode) == 0o600
