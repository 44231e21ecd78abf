"""Looks: subscriptions of which nothing is stored, and which hold nothing that others wait for."""

import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Release
from canal_group.merge.errors import NotSubscribed, RetryableError

SECOND = 1_000_000
LEASE = 10 * SECOND


def world_of(*commits_us: int, **settings) -> World:
    return World.of(Source(*map(Tx, commits_us)), lease_us=LEASE, **settings)


def rows_of(batch) -> int:
    return 0 if batch is None else batch.rows


def get(world: World, client: str, seen_id: int, rows_max: int = 10):
    """Get as a consumer does that says which batch it has."""
    return world.get(client, rows_max, seen_id)


def release(world: World, client: str) -> None:
    call = world.call()
    world.tell(ev.Asked(call, Release(client, world.epochs[client]), world.now_us))
    world.result(call)


def test_nothing_of_a_look_is_stored_and_it_ends_with_its_consumer():
    world = world_of(10, 20, 30)
    world.subscribe("look", look=True)
    world.report(0)
    batch = get(world, "look", 0, 2)
    assert batch.rows == 2
    assert rows_of(get(world, "look", batch.batch_id)) == 1, "it reads on without an acknowledgement"
    assert not world.saving
    release(world, "look")
    assert world.group.describe(world.now_us)["clients"] == []
    assert not world.stored
    assert world.rings[0].freed == 0, "what it has read waits for the first client id"


def test_a_look_that_is_killed_ends_with_its_lease():
    world = world_of(10)
    world.subscribe("look", look=True)
    world.tick(LEASE + 1)
    assert world.group.describe(world.now_us)["clients"] == []


def test_the_first_client_id_gets_what_a_look_has_read():
    world = world_of(10, 20, 30)
    world.subscribe("look", look=True)
    world.report(0)
    get(world, "look", get(world, "look", 0).batch_id)
    world.subscribe("first", ends={"s0": world.sources[0].ends[-1]})
    assert rows_of(world.get("first")) == 3


def test_the_first_client_id_gets_it_after_a_rewind_too():
    world = world_of(10, 20, 30)
    world.subscribe("look", look=True)
    world.report(0)
    get(world, "look", get(world, "look", 0).batch_id)
    world.lose(0)
    world.open_all()
    world.report(0)
    world.subscribe("first", ends={"s0": world.sources[0].ends[-1]})
    assert rows_of(world.get("first")) == 3


def test_a_look_and_the_others_take_nothing_from_each_other():
    world = world_of(10, 20, 30)
    world.subscribe("app")
    world.subscribe("look", look=True)
    world.report(0)
    world.ack(world.get("app").batch_id, "app")
    assert world.rings[0].freed == 0
    batch = get(world, "look", 0)
    assert batch.rows == 3
    get(world, "look", batch.batch_id)
    assert world.rings[0].freed == 3


def test_a_look_that_keeps_a_ring_full_and_does_not_read_ends():
    world = world_of(10, 20, 30)
    world.ring_size = 2
    world.subscribe("app")
    world.subscribe("look", look=True)
    world.report(0)
    world.ack(world.get("app").batch_id, "app")
    world.full(0)
    world.tick(LEASE - 1)
    world.tell_alive("look")
    assert world.rings[0].freed == 0, "not at once"
    world.tick(2)
    assert world.rings[0].freed == 2
    with pytest.raises(NotSubscribed):
        get(world, "look", 0)


def test_a_paused_look_may_go_on_while_no_ring_is_full():
    world = world_of(10, 20, 30)
    world.subscribe("app")
    world.subscribe("look", look=True)
    world.report(0)
    world.ack(world.get("app").batch_id, "app")
    for _ in range(5):
        world.tick(LEASE - 1)
        world.tell_alive("look")
    assert rows_of(get(world, "look", 0)) == 3


def test_a_look_at_a_client_id_that_exists_leaves_it_as_it_was():
    world = world_of(10, 20, 30)
    world.subscribe("app")
    world.report(0)
    world.ack(world.get("app", 1).batch_id, "app")
    before = world.stored["app"]
    release(world, "app")
    world.subscribe("app", "other", look=True)
    batch = get(world, "app", 0)
    assert batch.rows == 2
    assert get(world, "app", batch.batch_id) is None
    release(world, "app")
    assert world.stored["app"].cursor == before.cursor
    world.subscribe("app")
    assert rows_of(world.get("app")) == 2


def test_no_consumer_takes_over_a_look():
    world = world_of(10)
    world.subscribe("x", look=True)
    world.now_us += LEASE + 1
    call = world.request_subscribe("x", "other")
    with pytest.raises(RetryableError, match="look that is ending"):
        world.result(call)
    world.tick(1)
    world.subscribe("x", "other")
    assert "x" in world.stored


def test_a_look_lets_no_client_id_be_dropped():
    world = world_of(10, drop_after_us=SECOND)
    world.subscribe("app")
    release(world, "app")
    world.subscribe("look", look=True)
    world.tick(5 * SECOND)
    assert not world.saving
