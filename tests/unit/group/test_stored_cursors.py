"""Subscriptions come back from every store as they were saved; which writes of them may wait."""

import asyncio
import json
from dataclasses import replace

import pytest
from unit.meta.nodes import Nodes

from canal_group.actors.group.stored.cursors import CURSORS, StoredCursors, subscription_of, text_of
from canal_group.actors.meta.file import FileStore
from canal_group.actors.meta.memory import MemoryStore
from canal_group.actors.meta.periodic import PeriodicStore
from canal_group.actors.meta.zookeeper import BYTES_MAX, ZooKeeperStore
from canal_group.actors.ports import Key, Subscription
from canal_group.actors.process.host import OsHost
from canal_group.merge.errors import CoordinatorUnavailable, FencedError
from canal_group.merge.snapshot.cursor import SnapshotCursor
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.loss import to_dicts, with_loss
from canal_group.merge.values.marks.snapshot_mark import FailedTables
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.zookeeper.tree import Tree

TREE = Tree("shop")
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
UNREAD = replace(READER, unread={"s0": FailedTables.of({"shop.ä": "SELECT is not granted (1142)."}, 3)})
QUIET = Subscription("1001", "", LATER, quiet_since=CURSOR)
FRESH = Subscription("0007", "", None)
MANY = Subscription(
    "many",
    "",
    GroupPosition(
        {f"shard-{number}": Position(f"mysql-bin.{number:06}", number * 977) for number in range(20_000)}, 5
    ),
)


@pytest.fixture(params=["memory", "file", "zookeeper", "periodic"])
def store(request, tmp_path):
    made = {
        "memory": MemoryStore,
        "file": lambda: FileStore("shop", tmp_path),
        "zookeeper": lambda: ZooKeeperStore(Nodes(epoch=1), TREE),
        "periodic": lambda: PeriodicStore(MemoryStore(), CURSORS, 3_600),
    }[request.param]()
    yield made
    made.close()


def cursors_in(store, epoch=1):
    return StoredCursors(store, epoch, OsHost())


def test_what_was_saved_is_loaded_in_order(store):
    async def play():
        cursors = cursors_in(store)
        assert await cursors.load() == []
        for each in (READER, FRESH):
            await cursors.save(each)
        assert await cursors_in(store).load() == [FRESH, READER]
        await cursors.forget("1001")
        await cursors.forget("never-there")
        assert await cursors.load() == [FRESH]

    asyncio.run(play())


@pytest.mark.parametrize(
    "changed",
    [
        Subscription("1001", "", LATER),
        Subscription("1001", "", CURSOR, dropped=True),
        Subscription("1001", "", None, dropped=True),
        Subscription("1001", "", None),
        QUIET,
        UNREAD,
        replace(QUIET, quiet_since=None),
    ],
)
@pytest.mark.parametrize("before", [READER, QUIET, UNREAD, Subscription("1001", "x", None, dropped=True)])
def test_a_save_replaces_all_of_the_client_ids_last_one(store, before, changed):
    async def play():
        cursors = cursors_in(store)
        await cursors.save(before)
        assert await cursors.load() == [before]
        await cursors.save(changed)
        assert await cursors.load() == [changed]

    asyncio.run(play())


@pytest.mark.parametrize(
    "damage", ["[]", '{"s0": {"reasons": {}}}', '{"s0": {"reasons": {"t": 1}, "count": 1}}']
)
def test_a_client_with_damaged_unread_tables_is_set_aside(damage):
    text = json.loads(text_of(UNREAD))
    assert subscription_of("1001", json.dumps({**text, "unread": "{}"})) == READER
    del text["unread"]
    assert subscription_of("1001", json.dumps(text)) == READER, "it was stored without the field"
    store = MemoryStore()
    store.put(Key(CURSORS, "1001"), json.dumps({**text, "unread": damage}), 1)
    (loaded,) = asyncio.run(cursors_in(store).load())
    assert loaded.unreadable is not None


def test_what_was_removed_while_it_was_listed_is_left_out():
    class Removing(MemoryStore):
        def names(self, kind, epoch):
            names = super().names(kind, epoch)
            self._values.clear()
            return names

    async def play():
        cursors = cursors_in(Removing())
        await cursors.save(READER)
        assert await cursors.load() == []

    asyncio.run(play())


def test_an_older_epoch_is_refused_for_every_call():
    async def play():
        store = MemoryStore()
        old, new = cursors_in(store, 1), cursors_in(store, 2)
        await old.save(READER)
        assert await new.load() == [READER]
        for stale in (old.load(), old.save(FRESH), old.save(replace(READER, filter="")), old.forget("1001")):
            with pytest.raises(FencedError):
                await stale
        assert await new.load() == [READER]

    asyncio.run(play())


def test_canal_finds_filter_and_cursor_where_it_keeps_them():
    nodes = Nodes(epoch=1)
    asyncio.run(cursors_in(ZooKeeperStore(nodes, TREE)).save(READER))
    assert nodes.data == {
        "/otter/canal/destinations/shop/1001/filter": b"shop\\..*",
        "/otter/canal/destinations/shop/1001/cursor": CURSOR.to_json().encode(),
        "/otter/canal/destinations/shop/1001/losses": json.dumps(to_dicts(LOSSES)).encode(),
    }


def test_a_cursor_of_thousands_of_shards_fits_a_node():
    async def play():
        assert len(MANY.cursor.to_json()) > 2 * BYTES_MAX
        cursors = cursors_in(ZooKeeperStore(Nodes(epoch=1), TREE))
        await cursors.save(MANY)
        assert await cursors.load() == [MANY]

    asyncio.run(play())


class Writes(MemoryStore):
    """Records which writes may wait."""

    def __init__(self):
        super().__init__()
        self.waits = []
        self.away = False

    def put(self, key, text, epoch, *, may_wait=False):
        self.waits.append(may_wait)
        if self.away:
            raise CoordinatorUnavailable("away")
        super().put(key, text, epoch)


STEP = Subscription("1001", "", CURSOR)
MOVED = replace(STEP, cursor=LATER)


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        (STEP, True),
        (MOVED, True),
        (replace(MOVED, quiet_since=CURSOR), True),
        (replace(MOVED, filter="shop\\..*"), False),
        (replace(MOVED, dropped=True), False),
        (replace(MOVED, losses=LOSSES), False),
        (replace(MOVED, unread=UNREAD.unread), False),
        (replace(MOVED, cursor=None), False),
        (replace(MOVED, cursor=LATER.with_shard("s2", Position("a.000001", 4))), False),
        (replace(MOVED, cursor=replace(LATER, retired=("s9",))), False),
        (replace(MOVED, cursor=LATER.with_snapshots({"s0": SnapshotCursor("1001-1-1").to_json()})), False),
    ],
)
def test_only_a_cursor_that_moved_may_wait(after, waits):
    async def play():
        store = Writes()
        cursors = cursors_in(store)
        await cursors.load()
        await cursors.save(STEP)
        await cursors.save(after)
        assert store.waits == [False, waits], "the first one of an epoch never waits"
        await cursors.save(after)
        assert store.waits[2:] == [after.cursor is not None]
        await cursors.forget("1001")
        await cursors.save(after)
        await cursors_in(store).save(after)
        assert store.waits[3:] == [False, False]

    asyncio.run(play())


def test_a_cursor_is_compared_with_the_last_one_even_if_unconfirmed():
    async def play():
        store = Writes()
        cursors = cursors_in(store)
        await cursors.save(STEP)
        store.away = True
        joined = replace(MOVED, cursor=LATER.with_shard("s2", Position("a.000001", 4)))
        with pytest.raises(CoordinatorUnavailable):
            await cursors.save(joined)
        store.away = False
        await cursors.save(MOVED)
        assert store.waits == [False, False, False]

    asyncio.run(play())
