"""Client ids: one rule at every listener and in every store, and a bound on their number."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.group.builders import Source, Tx, World

from canal_group.actors.group.stored.cursors import CURSORS, StoredCursors
from canal_group.actors.http.call_paths import well_formed
from canal_group.actors.http.errors import Malformed
from canal_group.actors.meta.file import FileStore
from canal_group.actors.ports import Key, Subscription
from canal_group.actors.process.host import OsHost
from canal_group.merge import events as ev
from canal_group.merge.calls import values
from canal_group.merge.calls.body import call_of
from canal_group.merge.calls.client_id import RESERVED, checked_client_id, is_client_id
from canal_group.merge.calls.consumers import Unsubscribe
from canal_group.merge.calls.operators import RollBackClient
from canal_group.merge.errors import CanalGroupError, ConfigError, UsageError
from canal_group.zookeeper.tree import Tree

STRANGE = [
    "",
    " ",
    "..",
    "a/b",
    "a b",
    "a\n",
    "\x1b[2K",
    "\x9b2J",
    "\udcff",
    "a\u202eb",
    "a\u2028",
    "ä",
    "a" * 129,
    *sorted(RESERVED),
]


def by_the_machine(name: str) -> None:
    world = World.of(Source(Tx(10)))
    world.subscribe()
    call = world.request_subscribe(name)
    assert not world.leasing, "it never reaches the coordinator"
    world.result(call)


def by_http(name: str) -> None:
    try:
        well_formed(lambda: call_of(RollBackClient, {"client_id": name}))
    except Malformed as error:
        raise UsageError(error.message) from error


DOORS = {
    "the rule": checked_client_id,
    "the gateway": lambda name: values.client_id("client_id", name),
    "HTTP": by_http,
    "ZooKeeper": lambda name: Tree("shop").client(name),
    "every store": lambda name: Subscription(name, "", None),
    "the group": by_the_machine,
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("door", DOORS)
def test_a_malformed_client_id_is_refused_everywhere(door: str, name: str):
    assert not is_client_id(name)
    with pytest.raises(UsageError, match=r"not a (client id|text of at most)") as refused:
        DOORS[door](name)
    assert str(refused.value).isprintable()


def test_a_malformed_client_id_in_the_file_stops_the_instance(tmp_path: Path):
    store = FileStore("shop", tmp_path)
    made = Path(store.where(Key(CURSORS, "1001")))
    for name in ("\x1b[2K", "epoch"):
        store.put(Key(CURSORS, "1001"), '{"filter": ""}\n', 1)
        planted = made.rename(made.with_name(made.name.replace("1001", name)))
        with pytest.raises(ConfigError, match=r"does not hold cursors .*not a client id") as refused:
            asyncio.run(StoredCursors(store, 1, OsHost()).load())
        assert str(refused.value).isprintable()
        planted.unlink()


def test_a_new_client_id_beyond_the_bound_is_refused_and_says_what_to_do():
    world = World.of(Source(Tx(10)), client_ids_max=2)
    world.subscribe("a")
    leased = world.request_subscribe("b")
    refused = world.request_subscribe("c")
    with pytest.raises(UsageError, match=r"has 2 client ids.*consumer\.client_ids_max"):
        world.result(refused)
    world.lease()
    world.save()
    world.result(leased)
    world.subscribe("a"), world.subscribe("b")
    assert {each["client_id"] for each in world.group.describe(world.now_us)["clients"]} == {"a", "b"}


def test_a_removed_client_id_leaves_its_slot_to_another():
    world = World.of(Source(Tx(10)), client_ids_max=1)
    world.subscribe("a")
    with pytest.raises(CanalGroupError):
        world.subscribe("b")
    call = world.call()
    world.tell(ev.Asked(call, Unsubscribe("a", world.epochs["a"]), world.now_us))
    world.subscribe("b")
