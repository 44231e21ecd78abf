import pytest

from canal_group.merge.calls.client_id import RESERVED
from canal_group.merge.errors import ConfigError, UsageError
from canal_group.zookeeper.tree import Tree


def test_paths_are_canals():
    tree = Tree("shop")
    assert tree.running == "/otter/canal/destinations/shop/running"
    assert tree.epoch == "/otter/canal/destinations/shop/epoch"
    assert tree.servers("10.0.0.1:11111") == (
        "/otter/canal/cluster/10.0.0.1:11111",
        "/otter/canal/destinations/shop/cluster/10.0.0.1:11111",
    )
    assert tree.client("1001") == "/otter/canal/destinations/shop/1001"
    assert tree.client_running("1001") == "/otter/canal/destinations/shop/1001/running"
    assert tree.client_lease("1001") == "/otter/canal/destinations/shop/1001/lease"
    assert tree.consumers_epoch == "/otter/canal/destinations/shop/epoch/consumers"
    assert tree.stored("histories") == "/otter/canal/destinations/shop/stored/histories"
    assert tree.stopped == "/otter/canal/destinations/shop/stopped"
    assert Tree("shop", "/test").prefix == "/test"
    assert Tree("shop", "/test").destination == "/test/destinations/shop"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "../x", "a\n", "\x00", *sorted(RESERVED)])
def test_a_client_id_that_cannot_be_a_node_of_its_own_is_refused(name):
    tree = Tree("shop")
    assert not tree.is_client(name)
    for path in (tree.client, tree.client_running, tree.client_lease):
        with pytest.raises(UsageError):
            path(name)


@pytest.mark.parametrize("destination", ["", ".", "a/b", "a b"])
def test_a_destination_that_cannot_be_a_node_is_refused(destination):
    with pytest.raises(ConfigError):
        Tree(destination)


@pytest.mark.parametrize("prefix", ["", "/", "otter", "/otter/", "//otter", "/a/../b", "/a b"])
def test_a_malformed_prefix_is_refused(prefix):
    with pytest.raises(ConfigError):
        Tree("shop", prefix)
