"""Where a client id begins that has no cursor and chose no start: now, or where the instance file says."""

import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge.calls.consumers import Unsubscribe
from canal_group.merge.errors import AccessDenied
from canal_group.merge.events import Asked
from canal_group.merge.values.position import GroupPosition

TIMES = ((10, 30, 50), (20, 40, 60))


@pytest.fixture
def world():
    """Another client id holds everything that came in."""
    world = World.of(*(Source(*[Tx(at) for at in times]) for times in TIMES))
    world.subscribe("app", ends={})
    for shard in (0, 1):
        world.report(shard, 2, 45)
    return world


def ends(world, *counts):
    """The ends of the sources' logs after so many transactions of each shard."""
    return {f"s{shard}": world.sources[shard].ends[count - 1] for shard, count in enumerate(counts)}


def rest(world, client="late"):
    for shard in (0, 1):
        world.report(shard, None, 100)
    batch = world.get(client)
    return [] if batch is None else batch.headers["commit_us"].tolist()


def test_a_new_client_gets_only_later_commits(world):
    cursor = world.subscribe("late", ends=ends(world, 2, 3))
    assert not world.opening, "no source is read again for it"
    assert {name: str(position) for name, position in cursor.shards.items()} == {
        "s0": "bin.000001:204",
        "s1": "bin.000001:304",
    }
    assert rest(world) == [50]
    assert rest(world, "app") == [10, 20, 30, 40, 50, 60], "the other one misses nothing"


def test_where_it_begins_is_stored_before_it_has_acknowledged_anything(world):
    world.subscribe("late", ends=ends(world, 2, 3))
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.subscribe("late", "h2", ends=ends(world, 3, 3))
    assert rest(world) == [50]


def test_it_begins_after_the_rows_received_from_an_unreachable_source(world):
    world.subscribe("late", ends={"s1": world.sources[1].ends[2]})
    assert rest(world) == [50]


def test_it_begins_after_what_waits_for_another_shard():
    world = World.of(*(Source(*[Tx(at) for at in times]) for times in TIMES))
    world.subscribe("app", ends={})
    world.report(0, 2)
    world.subscribe("late", ends={})
    assert rest(world) == [20, 40, 50, 60]


def test_an_end_from_before_what_the_log_holds_has_nothing_read_again(world):
    """Such as that of a server without GTIDs that replaced the source."""
    world.ack(world.get("app").batch_id, "app")
    world.subscribe("late", ends=ends(world, 1, 1))
    assert not world.opening
    assert rest(world) == [50, 60]


def test_the_first_client_id_gets_what_was_kept_for_it():
    world = World.of(*(Source(*[Tx(at) for at in times]) for times in TIMES))
    for shard in (0, 1):
        world.report(shard, 2, 45)
    world.subscribe("app", ends=ends(world, 2, 2))
    assert rest(world, "app") == [10, 20, 30, 40, 50, 60]


def test_the_configured_start_counts_after_another_client_has_acked(world):
    world.ack(world.get("app").batch_id, "app")
    begin = GroupPosition({"s0": world.sources[0].start})
    world.subscribe("late", start=begin, ends=ends(world, 0, 2) | {"s0": world.sources[0].start})
    assert rest(world) == [10, 30, 50, 60]
    assert rest(world, "app") == [50, 60]


def test_the_configured_start_counts_after_all_others_unsubscribed(world):
    world.ack(world.get("app").batch_id, "app")
    world.tell(_unsubscribed(world, "app"))
    begin = GroupPosition({f"s{shard}": world.sources[shard].start for shard in (0, 1)})
    world.subscribe("late", start=begin, ends={})
    assert rest(world) == [10, 20, 30, 40, 50, 60]


def _unsubscribed(world, client):
    return Asked(world.call(), Unsubscribe(client, world.epochs[client]), world.now_us)


def test_a_configured_start_rewinds_only_for_a_caller_that_may(world):
    world.ack(world.get("app").batch_id, "app")
    begin = GroupPosition({"s0": world.sources[0].start})
    call = world.request_subscribe("late", start=begin, ends={}, may_disturb=False)
    with pytest.raises(AccessDenied):
        world.result(call)
    world.subscribe("later", ends={})
    assert not world.opening


def test_a_cursor_is_continued_with_any_ends(world):
    cursor = world.subscribe("late", ends=ends(world, 1, 1))
    assert world.subscribe("late", "h", ends=ends(world, 3, 3)) == cursor
