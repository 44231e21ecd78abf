"""Two readers of one log: one that goes far back, and two calls of one consumer at once."""

from dataclasses import replace

import pytest
from support.group.builders import Source, Tx, World, batch_idents
from support.group.purges import (
    TRANSACTIONS,
    committing,
    numbers,
)

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Release, Unsubscribe
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import RolledBack, UsageError
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition

HOUR_US = 3_600_000_000


def test_a_reader_that_needs_too_long_a_rewind_is_refused_alone():
    world = World.of(Source(*[Tx(HOUR_US * n) for n in range(1, 5)]), apart_max_us=2 * HOUR_US)
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1), "spark")
    world.ack(first.batch_id, "spark")
    second = world.offset_range(OffsetRange(first.end, rows_max=1), "spark")
    world.ack(second.batch_id, "spark")
    world.ack(world.get("app").batch_id, "app")
    with pytest.raises(UsageError, match="what shard s0 committed 10800 s before what another client"):
        world.offset_range(OffsetRange(first.end), "spark")
    assert not world.opening
    world.request_range(OffsetRange(second.end), "spark")
    assert not world.opening, "this far it may go, in memory"


@pytest.mark.parametrize("apart_max_us", [0, 1])
def test_a_position_without_a_commit_time_is_taken_at_its_word(apart_max_us):
    world = World.of(Source(Tx(10**10), Tx(2 * 10**10)), apart_max_us=apart_max_us)
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report_all()
    for client in ("app", "spark"):
        world.ack(world.get(client).batch_id, client)
    world.request_range(OffsetRange(begin), "spark")
    assert world.opening


def test_a_waiting_get_keeps_its_turn_and_a_range_elsewhere_does_not():
    """1. A range waits. 2. A later call asks for one that begins elsewhere. 3. The first is refused, and
    not answered with rows that do not follow its start.
    """
    world = World.of(Source(Tx(10), Tx(20), Tx(30), Tx(40)))
    begin = world.subscribe()
    world.report(0, 1, 15)
    first = world.offset_range(OffsetRange(begin))
    world.ack(first.batch_id)
    waiting = world.request_range(OffsetRange(first.end, rows_max=1))
    third = GroupPosition({"s0": world.sources[0].ends[2]}, 3)
    other = world.request_range(OffsetRange(third, rows_max=1))
    with pytest.raises(RolledBack, match="another position"):
        world.result(waiting)
    world.report_all()
    assert [position[2] for position in batch_idents(world.result(other))] == [4]


def far_apart():
    """A reader that is hours of commit time behind `app`, and no position of it is in the log."""
    world = World.of(Source(*[Tx(HOUR_US * n) for n in range(1, 9)]), apart_max_us=2 * HOUR_US)
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1), "spark")
    world.ack(first.batch_id, "spark")
    world.ack(world.offset_range(OffsetRange(first.end), "spark").batch_id, "spark")
    world.ack(world.get("app").batch_id, "app")
    return world, first


def test_a_client_without_a_consumer_is_not_hurt_by_one_that_goes_far_back():
    world, first = far_apart()
    world.tell(ev.Asked(world.call(), Release("app", world.epochs["app"]), world.now_us))
    world.request_range(OffsetRange(first.end), "spark")
    assert world.opening


def test_a_client_that_is_alone_may_go_back_as_far_as_it_likes():
    world, first = far_apart()
    world.tell(ev.Asked(world.call(), Unsubscribe("app", world.epochs["app"]), world.now_us))
    world.request_range(OffsetRange(first.end), "spark")
    assert world.opening


@pytest.mark.parametrize(
    ("resume", "apart_h", "refused"),
    [(Resume.CURSOR, 5, True), (Resume.CURSOR, 6, False), (Resume.NOW, 5, False)],
)
def test_a_dropped_client_too_far_back_can_only_continue_with_the_others(resume, apart_h, refused):
    world = World.of(
        Source(*[Tx(HOUR_US * n) for n in range(1, 9)]),
        apart_max_us=apart_h * HOUR_US,
        drop_after_us=1,
        lease_us=HOUR_US,
    )
    for client in ("app", "old"):
        world.subscribe(client)
        world.report(0, 1)
        world.ack(world.get(client, 1).batch_id, client)
    world.tell(ev.Asked(world.call(), Release("old", world.epochs["old"]), world.now_us))
    world.tick(2)
    world.save()
    world.report_all()
    world.ack(world.get("app").batch_id, "app")
    call = world.request_subscribe("old", resume=resume)
    if refused:
        with pytest.raises(UsageError, match="committed 21600 s before what another client"):
            world.result(call)
        assert not world.leasing
    else:
        assert world.leasing


def test_a_waiting_range_is_refused_if_an_earlier_get_takes_its_rows():
    world = World.of(Source(Tx(10), Tx(20), Tx(30)))
    offset_range = OffsetRange(world.subscribe(), GroupPosition({"s0": world.sources[0].ends[2]}, 3))
    first, spanning, second = (
        world.request_get(rows_max=1),
        world.request_range(offset_range),
        world.request_get(),
    )
    world.report(0, low_watermark_us=99)
    assert numbers(world.result(first)) == [1]
    with pytest.raises(RolledBack, match="not positioned where"):
        world.result(spanning)
    assert numbers(world.result(second)) == [2, 3]


def test_a_range_that_is_asked_for_twice_before_it_is_there_is_one_batch():
    world = World.of(Source(Tx(10), Tx(20)))
    begin = world.subscribe()
    calls = [world.request_range(OffsetRange(begin)) for _ in range(2)]
    world.report_all()
    first, second = (world.result(call) for call in calls)
    assert first is second


def test_a_client_without_a_consumer_hides_none_that_has_one():
    world = World.of(Source(*[Tx(HOUR_US * n) for n in range(1, 9)]), apart_max_us=2 * HOUR_US)
    begin = world.subscribe("gone")
    for client in ("spark", "app"):
        world.subscribe(client)
    world.report_all()
    for client in ("gone", "spark", "app"):
        world.ack(world.get(client).batch_id, client)
    world.tell(ev.Asked(world.call(), Release("gone", world.epochs["gone"]), world.now_us))
    first = replace(world.sources[0].ends[0], commit_us=HOUR_US)
    with pytest.raises(UsageError, match="what another client has read"):
        world.offset_range(OffsetRange(replace(begin, shards={"s0": first})), "spark")


def test_a_reader_continues_at_its_position_with_rows_after_a_release():
    world = committing()
    world.ack(world.get("other").batch_id, "other")
    cursor = world.stored["app"].cursor
    begin = GroupPosition({"s0": world.sources[0].start})
    world.request_range(OffsetRange(begin), "app")
    world.open_all()
    world.report_all()
    assert numbers(world.offset_range(OffsetRange(begin), "app")) == list(range(1, TRANSACTIONS + 1))
    world.tell(ev.Asked(world.call(), Release("app", world.epochs["app"]), world.now_us))
    assert world.subscribe("app").shards["s0"].offset < cursor.shards["s0"].offset


def test_a_range_after_a_rewind_is_delivered_without_an_ack():
    """A query keeps its place itself: what it asks for next follows what it had."""
    world = World.of(Source(*[Tx(10 * n) for n in range(1, 5)]))
    begin = world.subscribe()
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=2))
    world.lose(0)
    call = world.request_range(OffsetRange(first.end))
    assert world.group.generation == 2, "the shards are being opened at the cursor already"
    while world.opening:
        world.open_all()
    world.report_all()
    assert numbers(world.result(call)) == [3, 4]


def test_a_client_not_allowed_to_go_back_does_not_learn_the_distance():
    world, first = far_apart()
    with pytest.raises(RolledBack):
        world.offset_range(OffsetRange(first.end), "spark", may_rewind=False)
