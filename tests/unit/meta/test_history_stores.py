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
    store.save("s0", '{"a":"\u00e9"}', 1)
    store.save("s1", "{}", 1)
    assert store.load("s0", 1) == '{"a":"\u00e9"}'
    assert store.load("s1", 2) == "{}"


def test_an_older_epoch_is_fenced_by_one_that_has_loaded(store):
    store.save("s0", "old", 1)
    assert store.load("s0", 2) == "old"
    for stale in (lambda: store.save("s0", "late", 1), lambda: store.load("s0", 1)):
        with pytest.raises(FencedError):
            stale()
    assert store.load("s0", 2) == "old"


def text_of(size, seed):
    """Return a text that cannot be compressed well."""
    return random.Random(seed).randbytes(size // 2).hex()


def test_a_large_history_is_kept_in_parts_and_its_predecessor_goes(monkeypatch):
    monkeypatch.setattr(history_zookeeper, "BYTES_MAX", 1000)
    nodes = Nodes()
    store = ZooKeeperHistoryStore(nodes, TREE)
    for size in (50_000, 70_000, 100, 60_000, 100):
        text = text_of(size, size)
        store.save("s0", text, 1)
        assert store.load("s0", 1) == text
    assert list(nodes.data) == [f"{TREE.schema}/s0"]


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


@pytest.mark.parametrize("data", [b"", b"{}", b"zlib\nx", b'{"number":0,"parts":2}', b"\xff"])
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


def test_a_file_is_its_owners_alone(tmp_path):
    FileHistoryStore("shop", tmp_path).save("s0", "{}", 1)
    assert stat.S_IMODE((tmp_path / "shop.s0.schema.json").stat().st_mode) == 0o600
