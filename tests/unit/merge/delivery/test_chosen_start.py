"""A chosen start: where a client id without a cursor begins, and a cursor that an operator moves."""

import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Release, Touch
from canal_group.merge.errors import (
    AccessDenied,
    ConsumerActive,
    PositionPurged,
    RetryableError,
    RolledBack,
    UsageError,
)
from canal_group.merge.group import PURGED_WAIT_US
from canal_group.merge.values.position import GroupPosition

SECOND = 1_000_000
#: of each of two shards, commit times of one source alternate with those of the other
TIMES = ((10, 30, 50), (20, 40, 60))


def world_of(**settings):
    return World.of(
        *(Source(*[Tx(at) for at in times]) for times in TIMES), lease_us=100 * SECOND, **settings
    )


def after(world, *counts):
    """The position after so many transactions of each shard."""
    ends = ((world.sources[shard], count) for shard, count in enumerate(counts))
    return GroupPosition(
        {
            f"s{shard}": source.ends[count - 1] if count else source.start
            for shard, (source, count) in enumerate(ends)
        }
    )


def commits(batch):
    return batch.headers["commit_us"].tolist()


def read_all(world):
    for shard in range(len(world.sources)):
        world.report(shard, low_watermark_us=1000)


def consumed(world, client="app"):
    """A client that has acknowledged everything, so that the rings hold nothing."""
    world.subscribe(client)
    read_all(world)
    world.ack(world.get(client).batch_id, client)


def release(world, client):
    call = world.call()
    world.tell(ev.Asked(call, Release(client, world.epochs[client]), world.now_us))
    world.result(call)


def test_a_new_client_without_a_start_begins_where_the_log_does():
    world = world_of()
    consumed(world)
    world.subscribe("late")
    assert not world.opening
    assert world.get("late") is None


def test_a_new_client_begins_at_its_start_and_sources_are_rewound():
    world = world_of()
    consumed(world)
    cursor = world.subscribe("late", start=after(world, 1, 0))
    assert (cursor.shards["s0"].offset, cursor.shards["s1"]) == (
        world.sources[0].ends[0].offset,
        world.sources[1].start,
    )
    read_all(world)
    assert commits(world.get("late")) == [20, 30, 40, 50, 60]
    assert world.get("app") is None, "what it has acknowledged does not come again"
    world.group.validate()


def test_its_start_is_durable_before_it_has_acknowledged_anything():
    """1. It subscribes at a start. 2. The server dies. 3. The next server continues at that start."""
    world = world_of()
    consumed(world)
    world.subscribe("late", start=after(world, 1, 0))
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.subscribe("late", "h2", start=after(world, 3, 3))
    read_all(world)
    assert commits(world.get("late")) == [20, 30, 40, 50, 60], "a start does not move a cursor"


def test_a_start_that_the_log_holds_needs_no_rewind():
    world = world_of()
    world.subscribe("app")
    read_all(world)
    held = world.get("app", 1)
    world.subscribe("late", start=after(world, 1, 0))
    assert not world.opening
    assert commits(world.get("late")) == [20, 30, 40, 50, 60]
    world.ack(held.batch_id, "app")


def test_a_reader_that_may_not_rewind_is_refused_a_start_before_the_log():
    world = world_of()
    consumed(world)
    with pytest.raises(AccessDenied, match="another client would be rolled"):
        world.result(world.request_subscribe("late", start=after(world, 0, 0), may_disturb=False))
    assert not world.opening
    assert not world.leasing


def test_a_start_too_far_before_the_others_is_refused():
    world = world_of(apart_max_us=25)
    consumed(world)
    first = after(world, 1, 0)
    known = GroupPosition(
        {name: at.__class__(at.file, at.offset, commit_us=10) for name, at in first.shards.items()}
    )
    with pytest.raises(UsageError, match="before what another client has read"):
        world.result(world.request_subscribe("late", start=known))


def test_a_start_that_names_another_instance_is_refused():
    world = world_of()
    with pytest.raises(UsageError, match="no such shard"):
        world.result(world.request_subscribe("late", start=GroupPosition({"other": world.sources[0].start})))


def test_a_start_purged_meanwhile_is_reported_and_not_replaced():
    world = world_of()
    consumed(world)
    call = world.request_subscribe("late", start=after(world, 0, 0))
    world.lease()
    for _ in range(4):
        while world.saving:
            world.save()
        for shard, asked in list(world.opening.items()):
            if asked.position.offset == world.sources[shard].start.offset:
                world.tell(
                    ev.ShardFailed(shard, asked.generation, PositionPurged("It is gone."), world.now_us)
                )
            else:
                world.open(shard)
        world.tick(PURGED_WAIT_US)
    world.open_all()
    while world.saving:
        world.save()
    assert call in world.answers
    read_all(world)
    with pytest.raises(PositionPurged):
        world.get("late")
    assert world.get("app") is None


def test_an_operator_moves_a_cursor_backwards():
    world = world_of()
    consumed(world)
    release(world, "app")
    moved = world.subscribe("app", "operator", start=after(world, 2, 1), move=True)
    assert moved.shards["s0"].offset == world.sources[0].ends[1].offset
    release(world, "app")
    world.subscribe("app", "h2")
    read_all(world)
    assert commits(world.get("app")) == [40, 50, 60]


def test_an_operator_moves_a_cursor_forwards_and_skips_the_rest():
    world = world_of()
    world.subscribe("app")
    read_all(world)
    held = world.get("app", 1)
    release(world, "app")
    world.subscribe("app", "operator", start=after(world, 2, 2), move=True)
    release(world, "app")
    world.subscribe("app", "h2")
    assert commits(world.get("app")) == [50, 60]
    with pytest.raises(RolledBack):
        world.ack(held.batch_id, "app")


def test_a_cursor_is_not_moved_while_a_consumer_is_active():
    world = world_of()
    consumed(world)
    with pytest.raises(ConsumerActive):
        world.result(world.request_subscribe("app", "operator", start=after(world, 0, 0), move=True))


def test_a_cursor_is_not_moved_while_it_is_being_written():
    """The store may have an acknowledgement, whose write is repeated: that would undo the move."""
    world = world_of()
    world.subscribe("app")
    read_all(world)
    world.request_ack(world.get("app", 1).batch_id, "app")
    save = world.saving.pop()
    world.tell(ev.CursorNotSaved(save.number, "app", RetryableError("The answer was lost.")))
    release(world, "app")
    with pytest.raises(RetryableError, match="is being written"):
        world.result(world.request_subscribe("app", "operator", start=after(world, 3, 3), move=True))


def test_a_move_without_an_answer_is_written_again_until_stored():
    world = world_of()
    consumed(world)
    release(world, "app")
    call = world.request_subscribe("app", "operator", start=after(world, 1, 1), move=True)
    world.lease()
    world.open_all()
    save = world.saving.pop()
    world.tell(ev.CursorNotSaved(save.number, "app", RetryableError("The answer was lost.")))
    with pytest.raises(RetryableError, match="answer was lost"):
        world.result(call)
    world.tick(SECOND)
    world.save()
    assert world.stored["app"].cursor.shards["s0"].offset == world.sources[0].ends[0].offset
    world.group.validate()


def test_a_dropped_client_is_moved_too():
    world = world_of(drop_after_us=30 * SECOND)
    consumed(world)
    world.subscribe("other")
    release(world, "app")
    for _ in range(5):
        world.tell(ev.Asked(world.call(), Touch("other", world.epochs["other"]), world.now_us))
        world.tick(10 * SECOND)
        while world.saving:
            world.save()
    assert world.stored["app"].dropped
    world.subscribe("app", "operator", start=after(world, 2, 2), move=True)
    read_all(world)
    assert commits(world.get("app")) == [50, 60]
    assert not world.stored["app"].dropped
