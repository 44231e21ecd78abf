"""What is told of a stream and its shards."""

from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.errors import CoordinatorUnavailable, CorruptEvent, ShardUnavailable
from canal_group.merge.order.timeline import END_OF_TIME_US
from canal_group.merge.values.position import GroupPosition

SECOND = 1_000_000


def of(world, shard, *names):
    status = world.status(shard)
    return tuple(status[name] for name in names)


def held(world):
    state = world.group.describe(world.now_us)
    return state["held_by"], state["held_since_s"], state["held_why"]


def test_what_a_shard_says_before_and_after_merging_begins():
    world = World.of(Source(Tx(10), Tx(30)), Source(Tx(20)), start=False)
    world.start()
    world.now_us += 3 * SECOND
    assert of(world, 0, "late", "late_rows") == (0, 0)
    names = ("acked_position", "frontier_us", "skipped", "error", "state_since_s")
    assert of(world, 0, *names) == (None, None, False, None, 3.0)
    assert held(world) == ("s0", 3.0, "it has not reported its position yet")
    world.open_all()
    world.subscribe()
    world.report(0)
    world.now_us += 2 * SECOND
    assert of(world, 0, *names) == ("bin.000001:4", 30, False, None, 2.0)
    assert of(world, 1, "frontier_us", "frontier_still_s") == (0, 2.0)
    assert held(world) == ("s1", 2.0, "it has reported no newer low watermark")
    world.report_all()
    world.ack(world.get().batch_id)
    assert of(world, 0, "acked_position", "frontier_us") == ("bin.000001:204", 2**60)
    world.report(0, 0, END_OF_TIME_US)
    assert of(world, 0, "frontier_us") == (None,)
    assert held(world) == (None, None, None)
    world.lose(0)
    assert of(world, 0, "acked_position", "frontier_us", "skipped") == (None, None, False)


def test_why_a_shard_was_opened_again_and_why_it_stopped():
    world = World.of(Source(Tx(10)))
    world.lose(0, "its process died")
    assert of(world, 0, "error") == ("its process died",)
    world.tell(ev.ShardFailed(0, world.group.generation, CorruptEvent("bad bytes"), 0))
    assert of(world, 0, "error") == ("bad bytes",)
    world.open_all()
    assert of(world, 0, "error") == (None,)


def test_a_shard_has_failed_if_the_store_keeps_it_from_opening():
    world = World.of(Source(Tx(10)), start=False)
    world.start()
    for error, phase in (
        (ShardUnavailable("It starts."), "opening"),
        (CoordinatorUnavailable("Full."), "failed"),
    ):
        world.tell(ev.ShardNotOpened(0, world.group.generation, error))
        assert of(world, 0, "state", "error") == (phase, str(error))
    assert held(world)[2] == "it stopped: Full."
    world.open_all()
    assert of(world, 0, "state", "error") == ("open", None)


def test_a_shard_that_the_settings_lack_holds_the_group_since_it_began():
    world = World.of(Source(), Source(), start=False)
    world.now_us = SECOND
    cursor = GroupPosition(dict.fromkeys(("s0", "s1", "s9"), Source().start))
    world.start(ev.ConsumerState("c", "", cursor, "", 0))
    world.now_us = 3 * SECOND
    world.open(1)
    world.now_us = 4 * SECOND
    assert held(world) == ("s9", 3.0, "the cursors hold it, the settings do not")


def test_a_shard_that_left_has_no_position_and_is_not_skipped():
    world = World.of(Source(Tx(10)), Source())
    world.subscribe()
    world.remove("s1", now=True)
    world.save()
    world.open_all()
    assert of(world, 1, "state", "acked_position", "frontier_us", "skipped") == ("left", None, None, False)
