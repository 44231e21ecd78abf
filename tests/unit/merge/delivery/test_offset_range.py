"""Ranges: what the group does when a reader stands elsewhere than its cursor, or asks for what cannot be."""

from dataclasses import replace

import pytest
from support.defaults import batch_limits
from support.group.builders import Source, Tx, World, batch_idents

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Release
from canal_group.merge.errors import DataError, PositionPurged, RolledBack, UsageError
from canal_group.merge.values.gtids.gtid import NO_GTIDS, parse_gtid_set
from canal_group.merge.values.header import Flag
from canal_group.merge.values.offset_range import (
    OffsetRange,
    arrange,
    check_same,
    covered,
    order_of,
    reaches_back,
    same_positions,
    up_to,
)
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.progress import Progress


def reading(*sources, **settings):
    world = World.of(*sources, **settings)
    return world, world.subscribe()


def keys(batch):
    return batch.headers["key_us"].tolist()


def test_a_range_is_cut_between_transactions_and_repeated_unchanged():
    world, begin = reading(Source(Tx(10, (2, 2)), Tx(30)), Source(Tx(20)))
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1))
    assert (first.rows, first.ack) == (4, first.end)
    assert world.offset_range(OffsetRange(begin, rows_max=9)) is first
    assert world.offset_range(OffsetRange(begin, first.end)) is first
    assert keys(world.offset_range(OffsetRange(first.end))) == [20, 30]


def test_the_order_is_of_the_binlogs_and_not_of_the_log():
    """1. Shard 1 promised too much: its 20 is late, and goes out after shard 0's 30.
    2. The offset range is in the order of commits, and is so again when it comes out of the log in that
    order.
    """
    world, begin = reading(Source(Tx(10), Tx(30)), Source(Tx(20)))
    world.report(1, 0, low_watermark_us=40)
    world.report(0)
    world.report_all()
    first = world.offset_range(OffsetRange(begin))
    assert batch_idents(first)[1][0] == 1
    assert keys(first) == [10, 20, 30]
    assert not (first.headers["flags"] & Flag.LATE).any()
    world.lose(0)
    world.open_all()
    world.report_all()
    again = world.offset_range(OffsetRange(begin, first.end))
    assert batch_idents(again) == batch_idents(first)
    assert again.end.to_json() == first.end.to_json()


def test_what_stands_between_in_the_log_stays_for_the_next_range():
    """1. Equal keys came out one by one, shard 1 first. 2. Again, shard 0's third comes before shard 1's."""
    world, begin = reading(Source(Tx(10), Tx(20)), Source(Tx(20), Tx(20)))
    world.report(0, 1, low_watermark_us=20)
    world.report(1, 1, low_watermark_us=20)
    first = world.offset_range(OffsetRange(begin))
    assert [position[0] for position in batch_idents(first)] == [0, 1]
    world.lose(0)
    world.open_all()
    world.report_all()
    assert batch_idents(world.offset_range(OffsetRange(begin, first.end))) == batch_idents(first)
    rest = world.offset_range(OffsetRange(first.end))
    assert [position[0] for position in batch_idents(rest)] == [0, 1]
    world.ack(world.offset_range(OffsetRange(begin, first.end)).batch_id)
    world.ack(rest.batch_id)
    assert world.group.describe(0)["headers_kept"] == 0


def test_a_reader_may_go_back_before_its_cursor_and_executors_may_not():
    world, begin = reading(Source(Tx(10), Tx(20)))
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1))
    world.ack(first.batch_id)
    with pytest.raises(RolledBack, match="does not start at or after the cursor of client"):
        world.offset_range(OffsetRange(begin, first.end), may_rewind=False)
    assert not world.opening
    call = world.request_range(OffsetRange(begin, first.end))
    assert world.opening[0].position == begin.shards["s0"]
    world.open_all()
    world.report_all()
    assert batch_idents(world.result(call)) == batch_idents(first)


def test_a_reader_that_knows_more_than_the_cursor_goes_on_from_there():
    world, begin = reading(Source(Tx(10), Tx(20), Tx(30)))
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1))
    second = world.offset_range(OffsetRange(first.end, rows_max=1))
    world.subscribe()
    assert keys(world.offset_range(OffsetRange(second.end), may_rewind=False)) == [30]


def test_a_client_that_leaves_a_purged_position_lets_the_group_continue():
    """1. A reader asks for what its source has purged: every shard waits there. 2. It is told why.
    3. It goes, and the group goes on where it stood.
    """
    world, begin = reading(Source(Tx(10), Tx(20)))
    world.report_all()
    world.ack(world.offset_range(OffsetRange(begin, rows_max=1)).batch_id)
    world.subscribe("other")
    call = world.request_range(OffsetRange(begin))
    generation = world.opening.pop(0).generation
    world.tell(ev.ShardFailed(0, generation, PositionPurged("gone", shard="s0"), 0))
    world.tell(ev.GetTimedOut(call, "c"))
    with pytest.raises(PositionPurged):
        world.result(call)
    world.tell(ev.Asked(world.call(), Release("c", world.epochs["c"]), 0))
    world.open_all()
    world.report_all()
    assert keys(world.get("other")) == [20]


def test_what_cannot_be_is_refused_and_changes_nothing():
    world, begin = reading(Source(Tx(10, (2, 2)), Tx(20)))
    world.report(0, 1, low_watermark_us=10)
    inside = world.get().end
    world.rollback()
    world.report_all()
    with pytest.raises(UsageError, match="inside a transaction"):
        world.offset_range(OffsetRange(inside))
    whole = world.offset_range(OffsetRange(begin))
    world.rollback()
    with pytest.raises(DataError, match="ends at row 5 now"):
        world.offset_range(OffsetRange(begin, GroupPosition(whole.end.shards, 7)))
    with pytest.raises(UsageError, match="no such shard"):
        world.offset_range(OffsetRange(begin, whole.end.with_shard("s9", whole.end.shards["s0"])))
    assert world.offset_range(OffsetRange(begin, whole.end)).rows == 5


def test_a_transaction_that_no_ring_holds_whole_is_named():
    limits = batch_limits(ring_headers_max=99, ring_bytes_max=200)
    world, begin = reading(Source(Tx(10, (1, 1, 1))), limits=limits)
    world.report(0, 1, low_watermark_us=10)
    assert world.offset_range(OffsetRange(begin)) is None
    world.report(0, 1)
    with pytest.raises(DataError, match="larger than the ring of its shard, 200 bytes"):
        world.offset_range(OffsetRange(begin))


def test_a_range_waits_for_its_rows_unless_its_bounds_are_smaller():
    world, begin = reading(Source(Tx(10, (2,)), Tx(20, (2,)), Tx(30)))
    world.report(0, 1, low_watermark_us=10)
    call = world.request_range(OffsetRange(begin, rows_min=4))
    assert call not in world.answers
    world.report(0, 1, low_watermark_us=20)
    assert world.result(call).rows == 4
    world.rollback()
    assert world.offset_range(OffsetRange(begin, rows_min=9, rows_max=2)).rows == 2
    world.rollback()
    assert world.offset_range(OffsetRange(begin, rows_min=9)) is None


def test_nothing_is_delivered_until_the_sources_are_read_back_for_a_reader():
    """1. A get waits for what is outstanding. 2. An offset range from before the cursor takes that back.
    3. Neither is answered from a log that does not reach back.
    """
    world, begin = reading(Source(Tx(10), Tx(20)))
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1))
    world.ack(first.batch_id)
    world.offset_range(OffsetRange(first.end))
    waiting = world.request_get()
    call = world.request_range(OffsetRange(begin))
    assert waiting not in world.answers
    world.open_all()
    world.report_all()
    assert keys(world.result(waiting)) == [10, 20]
    assert call in world.answers


def test_a_rolled_back_range_keeps_what_was_consumed_before_it():
    """1. Shard 1's equal key came out first: a range of shard 0's leaves it there. 2. That range is taken
    back and read again: what it skipped, and what it had, are told apart as before.
    """
    world, begin = reading(Source(Tx(10), Tx(20)), Source(Tx(20), Tx(20)))
    world.report(0, 1, low_watermark_us=20)
    world.report(1, 1, low_watermark_us=20)
    first = world.offset_range(OffsetRange(begin))
    world.lose(0)
    world.open_all()
    world.report_all()
    holey = world.offset_range(OffsetRange(begin, first.end))
    rest = world.offset_range(OffsetRange(holey.end))
    world.rollback(rest.batch_id)
    assert batch_idents(world.offset_range(OffsetRange(holey.end))) == batch_idents(rest)
    world.rollback()
    assert batch_idents(world.offset_range(OffsetRange(begin, first.end))) == batch_idents(first)
    assert batch_idents(world.offset_range(OffsetRange(first.end))) == batch_idents(rest)


def test_keys_of_ranges_do_not_decrease_when_the_furthest_shard_left():
    """1. Shard 1 was at 100, and leaves. 2. What shard 0 committed at 60 is not put before that."""
    world = World.of(Source(Tx(10), Tx(60), name="a"), Source(Tx(20), Tx(100), name="b", server=1))
    begin = world.subscribe()
    world.report(0, 1, 100)
    world.report(1, 2, 110)
    first = world.offset_range(OffsetRange(begin))
    world.ack(first.batch_id)
    world.remove("s1", until_us=105)
    world.report(1, 0, 120)
    while world.saving:
        world.save()
    assert world.closed == [1]
    world.report(0, 1, 200)
    cursor = GroupPosition.from_json(world.group.describe(0)["clients"][0]["cursor"])
    assert keys(world.offset_range(OffsetRange(cursor))) == [100]


def test_a_query_that_goes_back_before_a_join_has_the_newcomers_rows_again():
    """1. A checkpoint ends at X, of s0 alone. 2. s1 joins; its rows are read and acknowledged. 3. The query
    asks for what follows X again: s1 is read from where it joined, also by the next server.
    """
    world = World.of(Source(Tx(10), Tx(20), Tx(30), Tx(60)))
    begin = world.subscribe()
    world.report(0, 1, 15)
    checkpoint = world.offset_range(OffsetRange(begin)).end
    world.ack(world.offset_range(OffsetRange(begin)).batch_id)
    world.add(Source(Tx(21), Tx(22), Tx(61), name="new", server=1))
    world.open_all()
    while world.saving:
        world.save()
    for shard in (0, 1):
        world.report(shard, 2, 35)
    first = world.offset_range(OffsetRange(checkpoint))
    assert {position[0] for position in batch_idents(first)} == {0, 1}
    world.ack(first.batch_id)

    def again():
        call = world.request_range(OffsetRange(checkpoint, first.end))
        assert world.opening[1].position == world.sources[1].start
        world.open_all()
        for shard in (0, 1):
            world.report(shard, 2, 35)
        return batch_idents(world.result(call))

    assert again() == batch_idents(first)
    world.epoch += 1
    world.restart()
    world.start()
    world.open_all()
    world.subscribe()
    assert again() == batch_idents(first)


@pytest.mark.parametrize("unit", ["headers", "bytes"])
@pytest.mark.parametrize("size", [3, 4])
def test_rows_of_a_new_shard_in_an_earlier_range_must_fit_the_ring(size, unit):
    """1. One of s0 alone is read. 2. s1 joins: it committed four times while the range was. 3. The range is
    read again. With room for three, s1 cannot tell what comes after its third: no row of s0 is let out.
    """
    most = size if unit == "headers" else size * 100
    limits = batch_limits(**{f"ring_{unit}_max": most})
    world, begin = reading(Source(Tx(10), Tx(20), Tx(30)), limits=limits)
    world.ring_size = size
    world.report_all()
    until = world.offset_range(OffsetRange(begin)).end
    world.add(Source(*[Tx(commit_us) for commit_us in (11, 12, 13, 14)], name="new", server=1))
    world.open_all()
    while world.saving:
        world.save()
    world.lose(0)
    world.open_all()
    world.subscribe()
    call = world.request_range(OffsetRange(begin, until))
    world.report(1)
    world.report(0, 3, low_watermark_us=40)
    assert call not in world.answers
    if size == 4:
        world.report(1, 0, low_watermark_us=40)
        assert keys(world.result(call)) == [10, 20, 30]
        return
    world.full(1)
    with pytest.raises(DataError, match=f"The ring of shard s1, {most} {unit}, is full before all"):
        world.result(call)


def test_pages_that_came_since_may_not_fit_the_ring_with_the_range():
    world, begin = reading(Source(Tx(10), Tx(20), Tx(30)), limits=batch_limits(ring_headers_max=3))
    world.ring_size = 3
    world.report_all()
    until = world.offset_range(OffsetRange(begin)).end
    world.sources[0] = Source(Tx(10), Tx(10, page=True), Tx(20), Tx(30))
    world.lose(0)
    world.open_all()
    world.subscribe()
    call = world.request_range(OffsetRange(begin, until))
    world.report_all()
    assert call not in world.answers
    world.full(0)
    with pytest.raises(DataError, match="The ring of shard s0, 3 headers, is full before all"):
        world.result(call)


def holey():
    """A world, where it begins, and a range that leaves a header of shard 1 between its own in the log.

    Equal keys came out one by one, shard 1's first one before shard 0's; read again, shard 0's comes first.
    """
    world, begin = reading(Source(Tx(10), Tx(20)), Source(Tx(20), Tx(20)))
    world.report(0, 1, low_watermark_us=20)
    world.report(1, 1, low_watermark_us=20)
    first = world.offset_range(OffsetRange(begin))
    world.lose(0)
    world.open_all()
    world.report_all()
    return world, world.offset_range(OffsetRange(begin, first.end))


def test_an_acked_range_stays_done_with_other_headers_between_its_own():
    world, first = holey()
    world.ack(first.batch_id)
    rest = world.offset_range(OffsetRange(first.end))
    assert [(position[0], position[2]) for position in batch_idents(rest)] == [(0, 104), (1, 104)]


def test_a_range_rolled_back_during_its_ack_is_done():
    """1. A range is being acknowledged. 2. Another consumer takes over: what is outstanding is taken back.
    3. The cursor is written: what stood between the offset range's headers comes, and the offset range does
    not.
    """
    world, first = holey()
    acking = world.request_ack(first.batch_id)
    call = world.request_subscribe()
    world.lease()
    world.save()
    world.save()
    assert world.result(acking) == world.result(call)[1] == first.ack
    rest = world.get()
    assert [(position[0], position[2]) for position in batch_idents(rest)] == [(0, 104), (1, 104)]


def test_a_log_that_begins_inside_a_transaction_has_no_position_before_it():
    """1. The first fragment of a transaction is acknowledged, and its ring is freed.
    2. An offset range from the cursor has the whole transaction in it: the sources are read again.
    """
    world, begin = reading(Source(Tx(10, (2, 2)), Tx(20)))
    world.report(0, 1, low_watermark_us=10)
    assert world.ack(world.get().batch_id).shards == begin.shards
    world.report_all()
    call = world.request_range(OffsetRange(begin))
    world.open_all()
    world.report_all()
    assert world.result(call).headers["rows"].tolist() == [2, 2, 1]


def test_a_client_that_repeats_an_unreached_range_keeps_its_cursor():
    world, begin = reading(Source(Tx(10), Tx(20), Tx(30)))
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1))
    world.ack(first.batch_id)
    second = world.offset_range(OffsetRange(first.end, rows_max=1))
    cursor = world.ack(second.batch_id)
    for start in (first.end, begin):
        call = world.request_range(OffsetRange(start))
        assert world.opening[0].position == start.shards["s0"]
        world.tell(ev.GetTimedOut(call, "c"))
    world.tell(ev.Asked(world.call(), Release("c", world.epochs["c"]), 0))
    assert world.opening[0].position == cursor.shards["s0"]
    world.open_all()
    world.report_all()
    assert world.subscribe() == cursor
    assert keys(world.get()) == [30]


def test_an_outstanding_range_does_not_answer_other_numbers():
    """1. A reader counts rows otherwise, as after a change of the filter. 2. It gets the same rows by its own
    numbers; an end that these do not lead to is refused.
    """
    world, begin = reading(Source(Tx(10, (2,)), Tx(20)))
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=2))
    counted = GroupPosition(begin.shards, 7)
    with pytest.raises(DataError, match="ends at row 2 of the merged stream"):
        world.offset_range(OffsetRange(counted, first.end))
    again = world.offset_range(OffsetRange(counted, rows_max=2))
    assert batch_idents(again) == batch_idents(first)
    assert (again.start.sequence, again.end.sequence) == (7, 9)


def test_a_range_that_ended_after_a_page_has_to_end_after_it_again():
    """As many rows are not enough: a row may have come from a page of another shard."""
    page, bare = Position("a.1", 4, page_rows=1), Position("a.1", 4)
    noted = GroupPosition({"s0": bare, "s1": page, "left": page}, 5)
    check_same(noted, Progress.at(GroupPosition({"s0": bare, "s1": page}, 5)))
    check_same(noted, Progress.at(GroupPosition({"s0": replace(bare, offset=9), "s1": page}, 5)))
    with pytest.raises(DataError, match="without the page at the end of shard s1"):
        check_same(noted, Progress.at(GroupPosition({"s0": page, "s1": bare}, 5)))


def test_a_range_has_nothing_above_the_key_that_it_may_reach():
    world, begin = reading(Source(Tx(10), Tx(20), Tx(30)))
    world.report_all()
    assert world.offset_range(OffsetRange(begin, key_us_max=9)) is None
    assert keys(world.offset_range(OffsetRange(begin, key_us_max=20))) == [10, 20]
    world.rollback()
    assert keys(world.offset_range(OffsetRange(begin, key_us_max=20, rows_max=1))) == [10]


def test_transactions_without_rows_leave_with_all_of_what_follows():
    world, begin = reading(Source(Tx(10, (0,)), Tx(20, (2, 2)), Tx(30, (0,)), Tx(40, (5,)), Tx(50)))
    world.report_all()
    first = world.offset_range(OffsetRange(begin, rows_max=1))
    assert first.headers["rows"].tolist() == [0, 2, 2]
    second = world.offset_range(OffsetRange(first.end, rows_max=1))
    assert second.headers["rows"].tolist() == [0, 5]


def test_only_shards_that_both_know_tell_positions_apart():
    one, other = Position("a.1", 4), Position("a.1", 9)
    both = GroupPosition({"s0": one, "s1": one}, 3)
    assert same_positions(both, GroupPosition({"s0": one}, 3))
    assert same_positions(GroupPosition({"s0": one, "s2": other}, 3), both)
    assert not same_positions(both, GroupPosition({"s0": other}, 3))
    assert not same_positions(both, GroupPosition({"s0": one, "s1": other}, 3))
    assert reaches_back(both.shards, {"s0": other, "s2": other})
    assert not reaches_back({"s0": other}, both.shards)


def test_of_two_servers_the_gtids_say_whether_a_log_reaches_back():
    uuid = Source(Tx(1)).names[-1]
    base, position = (Position("a.1", 4, server=server) for server in ("old", "new"))
    few, many = (parse_gtid_set(f"{uuid}:{numbers}") for numbers in ("1", "1-2"))

    def reaches(base_gtids, position_gtids):
        return reaches_back(
            {"s": replace(base, gtid_set=base_gtids)}, {"s": replace(position, gtid_set=position_gtids)}
        )

    assert reaches(few, many)
    assert reaches(few, few)
    assert not reaches(many, few)
    assert not reaches(NO_GTIDS, few)


def test_of_another_server_a_range_is_whole_when_all_its_gtids_are_there():
    """1. Its end is of the old server. 2. The new one has the same transactions elsewhere; the range
    waits for the last of them, and does not have what follows.
    """
    run = Source(Tx(10), Tx(20, (1, 1)), Tx(30)).run(0, 4)
    uuid = run.names[-1]
    first, second = (
        Position("old.9", 9 + last, parse_gtid_set(f"{uuid}:1-{last}"), server="old") for last in (1, 2)
    )

    def found(begin, end, start, until):
        headers, until = run.headers[begin:end], GroupPosition({"s": until})
        inside = covered(until, GroupPosition(start), headers, run.names, ("s",), ("new",))
        return inside if inside is None else inside.tolist()

    before, after = {"s": Position("old.9", 4, server="old")}, {"s": first}
    assert [found(0, end, before, second) for end in (0, 1, 2)] == [None] * 3
    assert found(0, 3, before, second) == [True, True, True]
    assert found(0, 4, before, second) == found(0, 4, {}, second) == [True, True, True, False]
    assert found(0, 4, before, first) == [True, False, False, False]
    assert found(0, 4, before, replace(first, gtid_set=NO_GTIDS)) is None
    assert found(1, 4, after, second) == [True, True, False]
    assert found(1, 4, after, first) == [False] * 3
    assert found(1, 4, before, second) is None


def test_a_transaction_committed_before_the_starts_greatest_key_is_late():
    headers = Source(Tx(10), Tx(20), Tx(30, (1, 1))).headers
    start = GroupPosition({"s0": Position("a.1", 4, key_us=5), "s1": Position("a.1", 4, key_us=20)})
    arranged = arrange(headers, start)
    assert arranged["key_us"].tolist() == [20, 20, 30, 30]
    assert (arranged["flags"] & Flag.LATE > 0).tolist() == [True, False, False, False]
    assert (arranged["flags"] & ~Flag.LATE).tolist() == headers["flags"].tolist()


def test_a_log_reaches_back_to_where_it_begins():
    base = Position("a.2", 9)
    assert [
        reaches_back({"s": base}, {"s": Position(file, offset)})
        for file, offset in (("a.2", 9), ("a.2", 10), ("a.3", 4), ("a.2", 8), ("a.1", 99))
    ] == [True, True, True, False, False]
    assert reaches_back({"s": Position("a.2", 9)}, {"s": Position("a.2", 9, key_us=3)})


def test_of_the_same_server_it_is_the_offset_that_tells_what_is_old():
    run = Source(Tx(10), Tx(20), Tx(30), Tx(40)).run(0, 4)
    for file, offset, count in (("bin.000001", 204, 2), ("bin.000002", 4, 3), ("bin.000002", 104, 4)):
        old = up_to(run.headers, run.names, Position(file, offset), same_server=True)
        assert old.tolist() == [index < count for index in range(4)]
        assert not up_to(run.headers, run.names, Position(file, offset), same_server=False).any()


def test_an_order_digest_depends_on_transactions_only():
    """The other server has other file names, cuts otherwise, and has a transaction without rows more."""
    one, other = Source(Tx(10, (3,)), Tx(20)), Source(Tx(10, (1, 2)), Tx(20), Tx(30, (0,)), name="other")
    here = order_of(one.headers, one.names, ("s0",))
    there = other.headers.copy()
    names = (*other.names[:-1], one.names[-1])
    there["shard"] = 1
    assert order_of(there, names, ("gone", "s0")) == here
    assert order_of(there[::-1], names, ("gone", "s0")) != here
    assert order_of(there, names, ("s0", "gone")) != here
    split = there.copy()
    split["gtid_number"][1] += 7
    assert order_of(split, names, ("gone", "s0")) != here, "a number alone tells two transactions"
    there["row_end"][-2] += 1
    assert order_of(there, names, ("gone", "s0")) != here
    assert order_of(one.headers[:0], (), ()) == ""


def test_without_gtids_a_digest_tells_offsets():
    source = Source(Tx(10), Tx(20))
    headers = source.headers.copy()
    headers["gtid_number"] = 0
    here = order_of(headers, source.names, ("s0",))
    assert order_of(headers, ("elsewhere", *source.names[1:]), ("s0",)) != here
    assert order_of(headers[::-1], source.names, ("s0",)) != here


def test_several_transactions_may_be_more_than_a_ring_holds():
    world, begin = reading(Source(Tx(10), Tx(20), Tx(30)), limits=batch_limits(ring_headers_max=2))
    world.report_all()
    assert keys(world.offset_range(OffsetRange(begin))) == [10, 20, 30]


def test_transactions_without_rows_make_room_for_a_transaction():
    """The ring holds three of them and the first half of the transaction, which would not end before."""
    empty = [Tx(commit_us, (0,)) for commit_us in (10, 20, 30)]
    world, begin = reading(Source(*empty, Tx(40, (1, 2))), limits=batch_limits(ring_headers_max=4))
    world.ring_size = 4
    world.report_all()
    assert world.offset_range(OffsetRange(begin)) is None, "more may come"
    world.full(0)
    first = world.offset_range(OffsetRange(begin))
    assert first.headers["rows"].tolist() == [0, 0, 0]
    world.ack(first.batch_id)
    world.report_all()
    assert world.offset_range(OffsetRange(first.end)).headers["rows"].tolist() == [1, 2]


def test_many_transactions_without_rows_are_a_range():
    limits = batch_limits(empty_headers_max=3)
    world, begin = reading(Source(*[Tx(10, (0,))] * 5), limits=limits)
    world.report(0, 2)
    world.report(0, 0, low_watermark_us=11)
    assert world.offset_range(OffsetRange(begin)) is None
    world.report_all()
    assert world.offset_range(OffsetRange(begin)).headers["rows"].tolist() == [0] * 5


def test_of_the_same_server_a_range_needs_no_gtids():
    run = Source(Tx(10), Tx(20)).run(0, 2)
    run.headers["gtid_number"] = 0
    until = GroupPosition({"s": Position("bin.000001", 104)})
    begin = GroupPosition({"s": Position("bin.000001", 4)})
    assert covered(until, begin, run.headers[:0], run.names, ("s",), ("",)) is None
    for count in (1, 2):
        found = covered(until, begin, run.headers[:count], run.names, ("s",), ("",))
        assert found.tolist() == [True, False][:count]


def test_a_range_ends_at_its_end_though_another_server_orders_it_elsewhere():
    """So what is noted of it is the same, whoever reads it again."""
    source = Source(*[Tx(10 * n) for n in range(1, 5)])
    uuid = source.names[-1]
    begin, until = (
        GroupPosition(
            {"s0": Position("old.000900", 500 + last, parse_gtid_set(f"{uuid}:1-{last}"), server="old")}, last
        )
        for last in (1, 3)
    )
    world = World.of(source, start=False)
    world.start(ev.ConsumerState("c", "", begin, "", 0))
    world.tell(ev.ShardOpened(0, 1, begin.shards["s0"], 0))
    del world.opening[0]
    world.subscribe()
    world.tell(ev.ShardReported(0, 1, source.run(1, 4), 99, 0, "new"))
    batch = world.offset_range(OffsetRange(begin, until))
    assert batch.headers["gtid_number"].tolist() == [2, 3]
    assert batch.end.shards == until.shards


def test_a_range_that_does_not_stand_together_on_another_server_is_refused():
    source = Source(*[Tx(10 * n) for n in range(1, 6)])
    uuid = source.names[-1]
    begin, until = (
        GroupPosition(
            {"s0": Position(f"old.00090{n}", 500, parse_gtid_set(f"{uuid}:{gtids}"), server="old")}, n
        )
        for n, gtids in ((1, "1"), (3, "1-2:5"))
    )
    world = World.of(source, start=False)
    world.start(ev.ConsumerState("c", "", begin, "", 0))
    world.tell(ev.ShardOpened(0, 1, begin.shards["s0"], 0))
    del world.opening[0]
    world.subscribe()
    world.tell(ev.ShardReported(0, 1, source.run(1, 5), 99, 0, "new"))
    with pytest.raises(DataError, match="no longer contiguous"):
        world.offset_range(OffsetRange(begin, until))


def test_a_new_range_ends_where_another_server_has_consumed_rows():
    """It is read for the first time: there is nothing that it has to be equal to."""
    source = Source(*[Tx(10 * n) for n in range(1, 6)])
    uuid = source.names[-1]
    begin, before = (
        GroupPosition(
            {"s0": Position(f"old.00090{n}", 500, parse_gtid_set(f"{uuid}:{gtids}"), server="old")}, n
        )
        for n, gtids in ((2, "1:3"), (1, "1"))
    )
    world = World.of(source, start=False)
    world.start(ev.ConsumerState("c", "", begin, "", 0), ev.ConsumerState("slower", "", before, "", 0))
    world.tell(ev.ShardOpened(0, 1, before.shards["s0"], 0))
    del world.opening[0]
    world.subscribe()
    world.tell(ev.ShardReported(0, 1, source.run(1, 5), 99, 0, "new"))
    first = world.offset_range(OffsetRange(begin, rows_min=3))
    assert first.headers["gtid_number"].tolist() == [2]
    world.ack(first.batch_id)
    assert world.offset_range(OffsetRange(first.end)).headers["gtid_number"].tolist() == [4, 5]


@pytest.mark.parametrize("had_rows", [True, False])
def test_a_range_of_a_shard_that_left_is_refused_if_that_had_rows_in_it(had_rows):
    """1. A range is read. 2. Shard 1 leaves. 3. The range, which had its rows or only names it, comes."""
    world, begin = reading(Source(Tx(10), Tx(30)), Source(*([Tx(20)] if had_rows else []), server=1))
    world.report(0, 1, low_watermark_us=25)
    world.report(1, low_watermark_us=25)
    first = world.offset_range(OffsetRange(begin))
    world.ack(first.batch_id)
    world.remove("s1", until_us=26)
    world.report(1, 0, low_watermark_us=27)
    while world.saving:
        world.save()
    assert world.closed == [1]
    call = world.request_range(OffsetRange(begin, first.end))
    world.open_all()
    world.report_all()
    if had_rows:
        with pytest.raises(UsageError, match="s1 left the group"):
            world.result(call)
    else:
        assert batch_idents(world.result(call)) == batch_idents(first)
