"""Positions pass what nothing is kept of: on a timer, without a row, and without the consumer."""

from dataclasses import replace

import pytest
from support.defaults import batch_limits
from support.group.builders import Source, Tx, World, batch_idents

from canal_group.merge.errors import CoordinatorUnavailable, RolledBack
from canal_group.merge.events import ShardReported
from canal_group.merge.instructions import OpenShard
from canal_group.merge.values.offset_range import OffsetRange

QUIET_US = 5_000_000
#: a transaction of tables that the filter leaves out
LEFT_OUT = Tx(1, (0,))


def running(*sources, **settings):
    world = World.of(*sources, quiet_us=QUIET_US, lease_us=100 * QUIET_US, **settings)
    world.subscribe()
    world.report_all()
    return world


def quiet(world):
    """Let the timer go off; return whether a cursor was written."""
    world.tick(QUIET_US)
    written = len(world.saving)
    while world.saving:
        world.save()
    return written > 0


def stored(world, client="c"):
    return {name: str(position) for name, position in world.stored[client].cursor.shards.items()}


def restarted(world):
    """Elect another server; return where it opens the shards."""
    world.epoch += 1
    world.restart()
    world.start()
    opened = {shard: str(opening.position) for shard, opening in world.opening.items()}
    world.open_all()
    world.report_all()
    return opened


def test_a_cursor_passes_filtered_rows_and_a_restart_begins_there():
    world = running(Source(LEFT_OUT, LEFT_OUT))
    call = world.request_get()
    assert quiet(world)
    assert call not in world.answers, "the consumer is not woken"
    assert stored(world) == {"s0": "bin.000001:204"}
    assert world.rings[0].freed == 2
    assert restarted(world) == {0: "bin.000001:204"}


def test_nothing_is_written_while_nothing_moves():
    world = running(Source(LEFT_OUT))
    assert quiet(world)
    assert not quiet(world)


def test_it_passes_on_the_timer_only():
    world = running(Source(LEFT_OUT))
    quiet(world)
    world.sources[0] = world.rings[0].source = Source(LEFT_OUT, LEFT_OUT)
    world.report_all()
    world.tick(QUIET_US - 1)
    assert not world.saving
    world.tick(1)
    assert world.saving


def test_the_cursor_of_a_client_id_without_a_consumer_moves_too():
    world = running(Source(LEFT_OUT, LEFT_OUT))
    world.tick(101 * QUIET_US)
    world.save()
    assert stored(world) == {"s0": "bin.000001:204"}


def test_it_passes_no_row():
    world = running(Source(LEFT_OUT, Tx(2), LEFT_OUT))
    quiet(world)
    assert stored(world) == {"s0": "bin.000001:104"}
    assert world.get().headers["rows"].tolist() == [1, 0]


def test_it_passes_no_batch_that_is_not_acknowledged():
    world = World.of(Source(Tx(1), LEFT_OUT, LEFT_OUT), quiet_us=QUIET_US, lease_us=100 * QUIET_US)
    world.subscribe()
    world.report(0, 1)
    batch = world.get()
    world.report_all()
    world.tick(QUIET_US)
    assert not world.saving
    assert world.rings[0].freed == 0
    world.ack(batch.batch_id)
    quiet(world)
    assert stored(world) == {"s0": "bin.000001:304"}


def test_a_batch_that_is_taken_back_is_delivered_again():
    world = running(Source(Tx(1), LEFT_OUT))
    batch = world.get()
    world.rollback(batch.batch_id)
    assert not quiet(world)
    assert batch_idents(world.get()) == batch_idents(batch)


def test_it_passes_no_part_of_a_transaction():
    world = World.of(Source(LEFT_OUT, Tx(2, (0, 0, 0))), quiet_us=QUIET_US)
    world.subscribe()
    world.report(0, 3)
    quiet(world)
    assert stored(world) == {"s0": "bin.000001:104"}
    assert world.rings[0].freed == 1
    world.report_all()
    quiet(world)
    assert stored(world) == {"s0": "bin.000001:204"}


def test_it_passes_the_end_of_a_transaction_with_acked_rows():
    world = World.of(Source(Tx(1, (3, 0))), quiet_us=QUIET_US)
    world.subscribe()
    world.report(0, 1)
    world.ack(world.get().batch_id)
    assert not quiet(world)
    world.report_all()
    quiet(world)
    assert stored(world) == {"s0": "bin.000001:104"}


def test_one_shard_is_quiet_while_the_client_reads_the_other():
    world = running(Source(Tx(5), Tx(6)), Source(LEFT_OUT, LEFT_OUT))
    quiet(world)
    assert stored(world) == {"s0": "bin.000001:4", "s1": "bin.000001:204"}
    assert world.rings[1].freed == 2


def test_what_waits_for_another_shard_is_not_passed():
    world = World.of(Source(LEFT_OUT), Source(), quiet_us=QUIET_US)
    world.subscribe()
    world.report(0)
    assert not quiet(world)
    world.report_all()
    assert quiet(world)


def test_a_ring_full_of_it_is_freed_at_once_although_no_consumer_is_there():
    world = World.of(Source(*[LEFT_OUT] * 20), quiet_us=10**9, limits=batch_limits(empty_headers_max=4))
    world.ring_size = 4
    world.subscribe()
    while world.report(0):
        world.full(0)
        world.tick(1)
        while world.saving:
            world.save()
    assert stored(world) == {"s0": "bin.000007:204"}


def test_a_write_that_the_store_does_not_answer_is_repeated():
    world = running(Source(LEFT_OUT))
    world.tick(QUIET_US)
    world.save(CoordinatorUnavailable("away"))
    world.tick(1)
    world.save()
    assert stored(world) == {"s0": "bin.000001:104"}


def test_an_acknowledgement_waits_for_the_write_and_follows_it():
    world = running(Source(LEFT_OUT, Tx(2)))
    world.tick(QUIET_US)
    batch = world.get()
    call = world.request_ack(batch.batch_id)
    world.save()
    world.save()
    assert str(world.result(call).shards["s0"]) == stored(world)["s0"] == "bin.000001:204"


# ---- readers that keep their position ------------------------------------------------------------------


def ranged(source):
    """A reader that has read an offset range with the first transaction, and where that ended."""
    world = World.of(source, quiet_us=QUIET_US, lease_us=100 * QUIET_US)
    start = world.subscribe()
    world.report(0, 1)
    batch = world.offset_range(OffsetRange(start))
    world.ack(batch.batch_id)
    world.report_all()
    return world, batch.end


def away(world):
    """Let the reader's lease end and the timer go off."""
    world.tick(101 * QUIET_US)
    while world.saving:
        world.save()


def test_an_offset_range_may_be_empty_so_that_its_readers_position_moves():
    world = running(Source(LEFT_OUT, LEFT_OUT))
    start = world.group._subscribers.find("c").cursor
    assert world.offset_range(OffsetRange(start)) is None
    batch = world.offset_range(OffsetRange(start, may_be_empty=True))
    assert (batch.rows, str(batch.end.shards["s0"])) == (0, "bin.000001:204")
    world.ack(batch.batch_id)
    assert world.offset_range(OffsetRange(batch.end, may_be_empty=True)) is None


def test_a_range_readers_cursor_moves_with_its_offset_ranges():
    world, _ = ranged(Source(Tx(1), LEFT_OUT))
    assert not quiet(world)


@pytest.mark.parametrize("restarts", [False, True])
def test_an_inactive_reader_continues_at_its_position_after_a_purge(restarts):
    world, end = ranged(Source(Tx(1), *[LEFT_OUT] * 3))
    away(world)
    assert stored(world) == {"s0": "bin.000002:104"}
    if restarts:
        assert restarted(world) == {0: "bin.000002:104"}
    world.subscribe()
    world.done.clear()
    assert world.offset_range(OffsetRange(end)) is None
    assert not world.asked(OpenShard), "no source is read again"
    batch = world.offset_range(OffsetRange(end, may_be_empty=True))
    assert batch is None, "there is nothing new"


def test_a_reader_that_was_away_gets_the_rows_that_follow():
    world, end = ranged(Source(Tx(1), LEFT_OUT, LEFT_OUT, Tx(9)))
    away(world)
    assert stored(world) == {"s0": "bin.000001:304"}
    world.subscribe()
    batch = world.offset_range(OffsetRange(end))
    assert batch.headers["rows"].tolist() == [1]
    assert batch.start.sequence == end.sequence
    world.ack(batch.batch_id)
    assert stored(world) == {"s0": "bin.000002:104"}


def test_a_noted_range_is_repeated_after_its_beginning_was_passed():
    """It has rows of one shard, and of the other one only what nothing is kept of."""
    sources = Source(Tx(1), Tx(5)), Source(Tx(3, (0,)), Tx(4, (0,)))
    world = World.of(*sources, quiet_us=QUIET_US, lease_us=100 * QUIET_US)
    begin = world.subscribe()
    world.report(0, 1)
    world.report(1, 0, 2)
    first = world.offset_range(OffsetRange(begin))
    world.ack(first.batch_id)
    world.report_all()
    start = first.end
    noted = world.offset_range(OffsetRange(start))
    assert str(noted.start.shards["s1"]) == "bin.000001:4"
    away(world)
    assert stored(world)["s1"] == "bin.000001:204"
    world.subscribe()
    again = world.offset_range(OffsetRange(start, noted.end))
    assert again.end == noted.end
    assert again.start == start
    assert again.headers["rows"].tolist() == [1]
    found = world.offset_range(OffsetRange(start, noted.end))
    assert found.batch_id == again.batch_id, "it is outstanding"
    world.ack(found.batch_id)
    assert stored(world) == {"s0": "bin.000001:204", "s1": "bin.000001:204"}


@pytest.mark.parametrize("noted", [False, True])
def test_a_lost_acknowledgement_and_a_passed_shard_make_no_rewind(noted):
    """The reader is ahead of its cursor in one shard, and behind it in the other, which was quiet."""
    sources = Source(Tx(1), Tx(5), Tx(9)), Source(Tx(3, (0,)), Tx(4, (0,)))
    world = World.of(*sources, quiet_us=QUIET_US, lease_us=100 * QUIET_US)
    begin = world.subscribe()
    world.report(0, 1)
    world.report(1, 0, 2)
    first = world.offset_range(OffsetRange(begin))
    world.ack(first.batch_id)
    world.report_all()
    away(world)
    world.subscribe()
    assert stored(world) == {"s0": "bin.000001:104", "s1": "bin.000001:204"}
    shards = {"s0": sources[0].ends[1], "s1": sources[1].ends[0]}
    start = replace(first.end, sequence=first.end.sequence + 1, shards=shards)
    until = replace(start, sequence=start.sequence + 1, shards={**shards, "s0": sources[0].ends[2]})
    world.done.clear()
    batch = world.offset_range(OffsetRange(start, until if noted else None), may_rewind=False)
    assert not world.asked(OpenShard), "no source is read again"
    assert batch.headers["commit_us"].tolist() == [9]
    world.ack(batch.batch_id)
    assert stored(world) == {"s0": "bin.000001:304", "s1": "bin.000001:204"}, "no shard goes back"


def test_a_noted_range_without_rows_is_repeated_after_it_was_passed():
    world, start = ranged(Source(Tx(1), LEFT_OUT, LEFT_OUT))
    noted = replace(start, shards={"s0": replace(start.shards["s0"], offset=204)})
    away(world)
    world.subscribe()
    again = world.offset_range(OffsetRange(start, noted))
    assert again.end == noted
    world.ack(again.batch_id)
    assert stored(world) == {"s0": "bin.000001:304"}, "the cursor does not go back"
    world.done.clear()
    assert world.offset_range(OffsetRange(noted)) is None
    assert not world.asked(OpenShard)


def test_a_position_before_the_acked_one_is_not_a_quiet_position():
    world, end = ranged(Source(Tx(1), Tx(2), LEFT_OUT))
    away(world)
    world.subscribe()
    with pytest.raises(RolledBack, match="does not allow a rewind"):
        world.offset_range(OffsetRange(replace(end, shards={"s0": world.sources[0].start})), may_rewind=False)


def test_a_reader_that_goes_back_in_every_shard_has_no_quiet_position():
    world, end = ranged(Source(Tx(1), LEFT_OUT, LEFT_OUT))
    away(world)
    world.subscribe()
    continuation = world.group._subscribers.find("c").continuation
    assert continuation.quiet_since is not None
    start = replace(end, sequence=0, shards={"s0": world.sources[0].start})
    world.request_range(OffsetRange(start))
    assert (continuation.quiet_since, continuation.cursor.shards) == (None, start.shards)


# ---- what a status says ------------------------------------------------------------------------------------


def acknowledged_us(world):
    (client,) = world.group.describe(world.now_us)["clients"]
    return client["cursor_commit_us"]


def test_a_cursors_time_follows_the_watermark_up_to_unacked_rows():
    world = World.of(Source(Tx(10), Tx(20)), Source(Tx(15)), quiet_us=QUIET_US)
    world.subscribe()
    for shard, frontier_us in ((0, 30), (1, 40)):
        ring = world.rings[shard]
        run = ring.source.run(0, len(ring.source.headers), ring.sequence(0))
        ring.at = len(ring.source.headers)
        world.tell(ShardReported(shard, ring.generation, run, frontier_us, world.now_us))
    assert acknowledged_us(world) == 10
    batch = world.get(rows_max=2)
    assert acknowledged_us(world) == 10
    world.ack(batch.batch_id)
    assert acknowledged_us(world) == 20
    world.ack(world.get().batch_id)
    assert acknowledged_us(world) == 30
    world.tell(ShardReported(0, world.rings[0].generation, None, 90, world.now_us))
    assert acknowledged_us(world) == 40
