"""Full rings: the sentence names the shard, the client ids that its rows are kept for, and the command."""

import tracemalloc

from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Release
from canal_group.merge.calls.operators import SetClientAside
from canal_group.merge.values.header import HEADER

SECOND = 1_000_000
LEASE = 10 * SECOND


def world_of(*commits_us: int, **settings) -> World:
    world = World.of(Source(*map(Tx, commits_us)), lease_us=LEASE, **settings)
    world.ring_size = 2
    return world


def full(world: World) -> dict:
    (found,) = world.group.describe(world.now_us)["full_rings"]
    return found


def release(world: World, client: str) -> None:
    call = world.call()
    world.tell(ev.Asked(call, Release(client, world.epochs[client]), world.now_us))
    world.result(call)


def blocked() -> World:
    """A world whose ring is full of rows that `app` has acknowledged, and `old` has never read."""
    world = world_of(10, 20, 30)
    world.subscribe("old")
    world.subscribe("app")
    world.report(0)
    world.ack(world.get("app").batch_id, "app")
    release(world, "old")
    world.full(0)
    return world


def test_a_full_ring_says_which_client_id_it_is_kept_for():
    world = blocked()
    world.tick(4 * SECOND)
    assert world.group.describe(world.now_us)["full_rings"] == [], "a slow consumer fills a ring, too"
    world.now_us += 1_496 * SECOND
    found = full(world)
    assert found["clients"] == ["old"]
    assert found["since_s"] == 1_500
    assert found["why"] == (
        "s0 waits: ring full, kept for client old (no consumer for 25 min); "
        "canal-group client remove -d shop old"
    )


def test_a_client_id_with_a_consumer_is_set_aside_and_not_removed():
    world = world_of(10, 20, 30)
    world.subscribe("app")
    world.report(0)
    world.get("app")
    world.full(0)
    world.tick(1)
    world.now_us += 9 * SECOND
    assert full(world)["why"] == (
        "s0 waits: ring full, kept for client app (consumer h, a batch not acknowledged for 9 s); "
        "canal-group client set-aside -d shop app"
    )


def test_rows_that_wait_for_another_shard_name_that_shard():
    world = World.of(Source(Tx(10), Tx(20)), Source(server=1), lease_us=LEASE)
    world.subscribe("app")
    world.report(0)
    world.full(0)
    world.now_us += 9 * SECOND
    assert full(world)["why"] == "s0 waits: ring full, its transactions wait for shard s1"


def test_without_client_ids_rows_are_kept_for_the_first_one():
    world = world_of(10, 20)
    world.report(0)
    world.full(0)
    world.now_us += 9 * SECOND
    assert full(world)["clients"] == []
    assert "kept for the first client id" in full(world)["why"]


def test_setting_the_client_id_aside_frees_the_ring_and_keeps_its_cursor():
    world = blocked()
    world.now_us += 60 * SECOND
    call = world.call()
    world.tell(ev.Asked(call, SetClientAside("old"), world.now_us))
    assert world.rings[0].freed == 2
    (asked,) = world.saving
    world.save()
    assert world.result(call)["client_id"] == "old"
    assert (asked.client_id, asked.dropped) == ("old", True)
    assert asked.cursor is not None
    assert world.group.describe(world.now_us)["full_rings"] == []


def test_setting_a_client_id_aside_releases_its_consumer():
    world = blocked()
    call = world.call()
    world.tell(ev.Asked(call, SetClientAside("app"), world.now_us))
    world.save()
    world.result(call)
    (app,) = [each for each in world.group.describe(world.now_us)["clients"] if each["client_id"] == "app"]
    assert (app["holder"], app["dropped"], app["words"]) == (None, True, ["no consumer", "dropped"])


def test_a_ring_that_is_full_before_merging_began_says_so():
    world = World.of(Source(Tx(10)), Source(server=1), start=False, lease_us=LEASE)
    world.start()
    world.open(0)
    world.full(0)
    world.now_us += 9 * SECOND
    assert full(world)["why"] == "s0 waits: ring full, its transactions are not merged yet"


def test_of_many_client_ids_three_are_named():
    world = world_of(10, 20, 30)
    for name in "abcde":
        world.subscribe(name)
        release(world, name)
    world.report(0)
    world.full(0)
    world.now_us += 9 * SECOND
    assert full(world)["clients"] == list("abcde")
    assert "client c (no consumer for 9 s), 2 more; canal-group client remove" in full(world)["why"]


def test_a_tick_while_rings_are_full_copies_no_log():
    count = 4_000
    world = World.of(Source(*map(Tx, range(1, count))), Source(Tx(count // 2), server=1), lease_us=LEASE)
    world.subscribe("app")
    world.report(0)
    world.report(1)
    world.full(0)
    world.tick(1)
    stream = world.group._stream
    assert stream.log.tip - stream.log.base > count // 2, "the log holds what nobody has acknowledged"
    assert not stream.crowded, "the rest of the full ring waits for the other shard"
    tracemalloc.start()
    try:
        world.group.handle(ev.Ticked(world.now_us + 1, reachable=True))
        assert len(world.group.describe(world.now_us + 9 * SECOND)["full_rings"]) == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < count // 2 * HEADER.itemsize / 2
