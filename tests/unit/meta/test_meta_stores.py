"""What the stores have in common, and what a ZooKeeper store asks of ZooKeeper."""

import json
from dataclasses import replace

import pytest

from actors.meta.file import FileCursorStore
from actors.meta.memory import MemoryCursorStore
from actors.meta.periodic import PeriodicCursorStore
from actors.meta.zookeeper import BYTES_MAX, ZooKeeperCursorStore
from actors.ports import Subscription
from canal_group.zookeeper.tree import Tree
from merge.errors import ConfigError, FencedError, UsageError
from merge.values.epoch import fenced
from merge.values.gtids.gtid import parse_gtid_set
from merge.values.loss import to_dicts, with_loss
from merge.values.position import GroupPosition, Position

CURSOR = GroupPosition(
    {
        "s1": Position(
            "mysql-bin.000002", 1234, parse_gtid_set("11111111-2222-3333-4444-555555555555:1-9"), 5, 6
        ),
        "s0": Position("mariadb-bin.000001", 4),
    },
    sequence=77,
)
LATER = CURSOR.with_shard("s0", Position("mariadb-bin.000003", 400))
LOSSES = with_loss((), "s0", Position("bin.000001", 4), Position("bin.000002", 4), 1)
READER = Subscription("1001", "shop\\..*", CURSOR, losses=LOSSES)
QUIET = Subscription("1001", "", LATER, quiet_since=CURSOR)
FRESH = Subscription("0007", "", None)


class Nodes:
    """ZooKeeper as the cursor store sees it, in a dictionary."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.data = {}
        self.writes = 0

    def read(self, path):
        return self.data.get(path)

    def children(self, path):
        depth = len(path) + 1
        return sorted({name[depth:].split("/")[0] for name in self.data if name.startswith(path + "/")})

    def require_epoch(self, epoch):
        if epoch != self.epoch:
            raise fenced(epoch, self.epoch, "not current")

    def write(self, epoch, changes):
        self.require_epoch(epoch)
        self.writes += 1
        for path, data in changes:
            self.data.pop(path, None)
            if data is not None:
                self.data[path] = data


@pytest.fixture(params=["memory", "file", "periodic"])
def store(request, tmp_path):
    made = {
        "memory": MemoryCursorStore,
        "file": lambda: FileCursorStore("shop", tmp_path),
        "periodic": lambda: PeriodicCursorStore(MemoryCursorStore(), 3_600),
    }[request.param]()
    yield made
    made.close()


def test_it_begins_without_subscriptions(store):
    assert store.load() == []


def test_what_was_saved_is_loaded_in_order(store):
    store.save(READER, 1)
    store.save(FRESH, 1)
    assert store.load() == [FRESH, READER]


def test_a_save_replaces_the_client_ids_last_one(store):
    store.save(READER, 1)
    changed = Subscription("1001", "", LATER)
    store.save(changed, 1)
    assert store.load() == [changed]


def test_that_it_was_dropped_is_kept_and_taken_back(store):
    dropped = Subscription("1001", "", CURSOR, dropped=True)
    store.save(dropped, 1)
    assert store.load() == [dropped]
    store.save(READER, 1)
    assert store.load() == [READER]


def test_forget_removes_one_subscription(store):
    store.save(READER, 1)
    store.save(FRESH, 1)
    store.forget("1001", 1)
    store.forget("never-there", 1)
    assert store.load() == [FRESH]


def test_an_older_epoch_changes_nothing(store):
    store.save(READER, 2)
    for attempt in (
        lambda: store.save(Subscription("1001", "", LATER), 1),
        lambda: store.save(FRESH, 1),
        lambda: store.forget("1001", 1),
        lambda: store.claim(1),
    ):
        with pytest.raises(FencedError) as refusal:
            attempt()
        assert refusal.value.details == {"our_epoch": 1, "current_epoch": 2}
        assert store.load() == [READER]
    store.save(FRESH, 2)


def test_a_claim_refuses_the_last_owner_before_anything_else_is_written(store):
    store.save(READER, 1)
    store.claim(2)
    store.claim(2)
    with pytest.raises(FencedError):
        store.save(Subscription("1001", "", LATER), 1)
    assert store.load() == [READER]


def test_where_a_cursor_came_from_is_kept_until_a_write_without_it(store):
    store.save(QUIET, 1)
    assert store.load() == [QUIET]
    store.save(replace(QUIET, quiet_since=None), 1)
    assert store.load() == [Subscription("1001", "", LATER)]


def test_forget_raises_the_epoch_too(store):
    store.save(READER, 1)
    store.forget("1001", 3)
    with pytest.raises(FencedError):
        store.save(READER, 2)
    assert store.load() == []


# ---- ZooKeeper


def test_filter_and_cursor_are_one_write_where_canal_has_them():
    nodes = Nodes(epoch=4)
    store = ZooKeeperCursorStore(nodes, Tree("shop"))
    store.save(READER, 4)
    assert nodes.writes == 1
    assert nodes.data == {
        "/otter/canal/destinations/shop/1001/filter": b"shop\\..*",
        "/otter/canal/destinations/shop/1001/cursor": CURSOR.to_json().encode(),
        "/otter/canal/destinations/shop/1001/losses": json.dumps(to_dicts(LOSSES)).encode(),
    }
    nodes.data["/otter/canal/destinations/shop/epoch"] = b"{}"
    nodes.data["/otter/canal/destinations/shop/0001/lease"] = b"{}"
    assert store.load() == [READER]


def test_a_cursor_that_is_taken_away_is_deleted():
    nodes = Nodes(epoch=4)
    store = ZooKeeperCursorStore(nodes, Tree("shop"))
    store.save(READER, 4)
    store.save(Subscription("1001", "", None, dropped=True), 4)
    assert store.load() == [Subscription("1001", "", None, dropped=True)]
    store.save(Subscription("1001", "", None), 4)
    assert store.load() == [Subscription("1001", "", None)]
    store.forget("1001", 4)
    assert store.load() == []


def test_a_cursor_near_a_nodes_limit_is_refused_before_it_is_sent():
    nodes = Nodes(epoch=4)
    store = ZooKeeperCursorStore(nodes, Tree("shop"))
    room = BYTES_MAX - len(CURSOR.to_json().encode())
    store.save(Subscription("1001", "x" * room, CURSOR), 4)
    with pytest.raises(ConfigError, match=r"1,000,001 bytes") as refusal:
        store.save(Subscription("1001", "x" * (room + 1), CURSOR), 4)
    assert refusal.value.details == {"bytes": BYTES_MAX + 1, "bytes_max": BYTES_MAX}
    assert nodes.writes == 1


def test_a_cursor_of_thousands_of_shards_is_compressed_and_a_small_one_can_be_read():
    many = GroupPosition(
        {f"shard-{number}": Position(f"mysql-bin.{number:06}", number * 977) for number in range(20_000)}, 5
    )
    assert len(many.to_json()) > 2 * BYTES_MAX
    nodes = Nodes(epoch=4)
    store = ZooKeeperCursorStore(nodes, Tree("shop"))
    store.save(Subscription("1001", "", many), 4)
    assert store.load() == [Subscription("1001", "", many)]
    node = "/otter/canal/destinations/shop/1001/cursor"
    assert len(nodes.data[node]) < BYTES_MAX
    nodes.data[node] = nodes.data[node][:-1]
    with pytest.raises(ConfigError, match="/otter/canal/destinations/shop/1001"):
        store.load()


def test_a_client_id_that_is_no_node_of_its_own_is_refused():
    nodes = Nodes(epoch=4)
    with pytest.raises(UsageError):
        ZooKeeperCursorStore(nodes, Tree("shop")).save(Subscription("epoch", "", None), 4)
    assert nodes.writes == 0


@pytest.mark.parametrize(
    "cursor", [b"", b'{"@type":"com.alibaba.otter.canal.protocol.position.LogPosition"}', b"{"]
)
def test_a_foreign_cursor_is_named(cursor):
    nodes = Nodes(epoch=4)
    nodes.data["/otter/canal/destinations/shop/1001/filter"] = b""
    nodes.data["/otter/canal/destinations/shop/1001/cursor"] = cursor
    with pytest.raises(ConfigError, match="/otter/canal/destinations/shop/1001"):
        ZooKeeperCursorStore(nodes, Tree("shop")).load()
