"""The store in ZooKeeper: where it keeps what, in which transactions, and what damage does."""

import pytest
from unit.meta.nodes import Nodes

from canal_group.actors.group.stored.cursors import CURSORS
from canal_group.actors.meta.zookeeper import BYTES_MAX, COMPRESSED_FROM, ZooKeeperStore
from canal_group.actors.ports import Key
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable, UsageError
from canal_group.programs.conformance.store import MEMBERS, TEXT, StoreConformance, members, text_of
from canal_group.zookeeper.tree import Tree

TREE = Tree("shop")
HISTORIES = f"{TREE.destination}/stored/histories"


@pytest.fixture
def nodes():
    return Nodes(epoch=1)


@pytest.fixture
def store(nodes):
    return ZooKeeperStore(nodes, TREE)


class TestZooKeeper(StoreConformance):
    @pytest.fixture
    def nodes(self):
        return Nodes(epoch=0)

    @pytest.fixture
    def elect(self, nodes):
        def elect():
            nodes.epoch += 1
            return nodes.epoch

        return elect


# ---- members


def test_members_are_one_write_where_canal_has_them(store, nodes):
    store.put(MEMBERS, members(filter="shop\\..*", cursor="{}", losses="[1]"), 1)
    assert nodes.writes == 1
    assert nodes.data == {
        "/otter/canal/destinations/shop/1001/filter": b"shop\\..*",
        "/otter/canal/destinations/shop/1001/cursor": b"{}",
        "/otter/canal/destinations/shop/1001/losses": b"[1]",
    }
    nodes.data["/otter/canal/destinations/shop/epoch"] = b"{}"
    nodes.data["/otter/canal/destinations/shop/0001/lease"] = b"{}"
    assert store.names(CURSORS, 1) == ["1001"]
    store.put(MEMBERS, members(filter="", dropped=""), 1)
    store.delete(MEMBERS, 1)
    assert nodes.writes == 3
    assert set(nodes.data) == {f"{TREE.destination}/epoch", f"{TREE.destination}/0001/lease"}


def test_a_value_beyond_a_nodes_limit_is_refused_before_it_is_sent(nodes):
    store = ZooKeeperStore(nodes, TREE, bytes_max=1_000)
    store.put(MEMBERS, members(filter="x" * 998, cursor="{}"), 1)
    with pytest.raises(ConfigError, match="1001 would have 1,001 bytes of cursors: too many") as refusal:
        store.put(MEMBERS, members(filter="x" * 999, cursor="{}"), 1)
    assert refusal.value.details == {"bytes": 1_001, "bytes_max": 1_000}
    assert nodes.writes == 1


def test_a_large_member_is_compressed_and_a_small_one_can_be_read(store, nodes):
    node = f"{TREE.client('1001')}/cursor"
    small, large = "x" * (COMPRESSED_FROM - 1), "x" * 3 * BYTES_MAX
    store.put(MEMBERS, members(filter="", cursor=small), 1)
    assert nodes.data[node] == small.encode()
    store.put(MEMBERS, members(filter="", cursor=large), 1)
    assert len(nodes.data[node]) < BYTES_MAX / 100
    assert large in store.get(MEMBERS, 1)
    nodes.data[node] = nodes.data[node][:-1]
    with pytest.raises(ConfigError, match="/otter/canal/destinations/shop/1001"):
        store.get(MEMBERS, 1)


def test_a_client_id_that_needs_two_nodes_is_refused(store, nodes):
    with pytest.raises(UsageError):
        store.put(Key(CURSORS, "epoch"), members(filter=""), 1)
    assert nodes.writes == 0


# ---- texts


def test_a_long_text_is_kept_in_parts_and_its_predecessor_goes(nodes):
    store = ZooKeeperStore(nodes, TREE, bytes_max=1_000)
    for size in (50_000, 70_000, 100, 60_000, 100):
        text = text_of(size, size)
        store.put(TEXT, text, 1)
        assert store.get(TEXT, 1) == text
        store.append(TEXT, text_of(2_000, 7), 1)
        store.append(TEXT, "more\n", 1)
        assert store.get(TEXT, 1) == text + text_of(2_000, 7) + "more\n"
        assert store.names(TEXT.kind, 1) == ["s0"]
    store.put(TEXT, "short\n", 1)
    assert sorted(nodes.data) == [f"{HISTORIES}/s0", f"{HISTORIES}/s0:0:0"]
    store.put(TEXT, text_of(50_000, 1), 1)
    store.append(TEXT, "more\n", 1)
    store.delete(TEXT, 1)
    assert nodes.data == {}


def test_additions_share_nodes_while_they_are_small(nodes):
    store = ZooKeeperStore(nodes, TREE, added_bytes=200)
    store.put(TEXT, "whole\n", 1)
    for number in range(30):
        store.append(TEXT, text_of(60, number), 1)
    assert store.get(TEXT, 1).count("\n") == 31
    assert 4 < len(nodes.data) < 20


def test_a_write_that_fails_halfway_leaves_the_text_before_it(nodes):
    store = ZooKeeperStore(nodes, TREE, bytes_max=1_000)
    before, after = text_of(20_000, 1), text_of(20_000, 2)
    store.put(TEXT, before, 1)
    for failing in range(10):
        nodes.fails_after = failing
        with pytest.raises(CoordinatorUnavailable):
            store.put(TEXT, after, 1)
        assert store.get(TEXT, 1) == before
    nodes.fails_after = None
    store.put(TEXT, after, 1)
    assert store.get(TEXT, 1) == after


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"number":0,"parts":2,"added":0}',
        b'{"number":0,"parts":1}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=lambda data: data[:40],
)
def test_a_node_that_holds_something_else_is_an_error(store, nodes, data):
    nodes.data[f"{HISTORIES}/s0"] = data
    with pytest.raises(ConfigError, match=f"{HISTORIES}/s0 does not hold histories") as refusal:
        store.get(TEXT, 1)
    assert "a new history begins with what the source shows" in refusal.value.hint
    if b"added" not in data:
        for write in (store.put, store.append):
            with pytest.raises(ConfigError, match="does not hold histories"):
                write(TEXT, "{}\n", 1)
    assert nodes.data == {f"{HISTORIES}/s0": data}
