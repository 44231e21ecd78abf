"""Commit times that lie ahead of their source's clock: nobody waits for a time that has not come."""

import numpy as np
import pytest
from support.defaults import AHEAD_MAX_US, timeline_of
from support.group.builders import Source, Tx, World, run_of

from canal_group.merge import events as ev
from canal_group.merge.order.timeline import END_OF_TIME_US
from canal_group.merge.values.header import Flag
from canal_group.merge.values.offset_range import OffsetRange

S = 1_000_000
#: a commit time of a session that said SET TIMESTAMP, and the source's clock
FAR, NOW = 10_000 * S, 100 * S


def flags(headers, flag):
    return ((headers["flags"] & flag) != 0).tolist()


def keys(headers):
    return headers["key_us"].tolist()


def test_a_commit_time_ahead_of_the_sources_clock_takes_the_previous_key():
    timeline = timeline_of(1)
    timeline.read_clock(0, NOW)
    timeline.append(0, run_of(Tx(NOW - S), Tx(FAR), Tx(NOW)))
    out = timeline.advance()
    assert keys(out) == [NOW - S, NOW - S, NOW]
    assert out["commit_us"].tolist() == [NOW - S, FAR, NOW]
    assert flags(out, Flag.FUTURE) == [False, True, False]
    assert flags(out, Flag.LATE) == [False] * 3
    assert (timeline.counters_of(0).future, timeline.counters.late) == (1, 0)


def test_a_commit_time_within_the_bound_is_believed():
    timeline = timeline_of(1, ahead_max_us=3 * S)
    timeline.read_clock(0, NOW)
    timeline.append(0, run_of(Tx(NOW + 3 * S), Tx(NOW + 3 * S + 1)))
    out = timeline.advance()
    assert keys(out) == [NOW + 3 * S, NOW + 3 * S]
    assert flags(out, Flag.FUTURE) == [False, True]


def test_all_fragments_share_the_fate_of_the_first_across_runs():
    timeline = timeline_of(1)
    source = Source(Tx(FAR, (1, 1, 1)), Tx(NOW))
    timeline.read_clock(0, NOW)
    for index in range(4):
        timeline.append(0, source.run(index, index + 1, index))
    out = timeline.advance()
    assert flags(out, Flag.FUTURE) == [True, True, True, False]
    assert keys(out) == [0, 0, 0, NOW]
    assert timeline.counters_of(0).future == 1


def test_a_low_watermark_raises_the_key_of_what_is_not_believed():
    timeline = timeline_of(2)
    timeline.read_clock(0, NOW)
    timeline.low_watermark(0, NOW)
    timeline.append(0, run_of(Tx(FAR)))
    timeline.low_watermark(1, NOW)
    assert keys(timeline.advance()) == [NOW]


def test_a_later_reading_decides_about_what_came_in_before_it():
    """1. No clock is known, and a transaction of the far future holds its shard. 2. The clock is read."""
    timeline = timeline_of(2)
    timeline.append(0, run_of(Tx(NOW), Tx(FAR), Tx(NOW + S)))
    timeline.append(1, run_of(Tx(NOW + 2 * S)))
    assert keys(timeline.advance()) == [NOW, NOW + 2 * S]
    timeline.read_clock(0, NOW + 3 * S)
    timeline.append(0, run_of(Tx(NOW + 3 * S), first_sequence=3))
    timeline.low_watermark(1, NOW + 9 * S)
    out = timeline.advance()
    assert out["sequence"].tolist() == [1, 2, 3]
    assert keys(out) == [NOW + 2 * S, NOW + 2 * S, NOW + 3 * S]
    assert flags(out, Flag.FUTURE) == [True, False, False]


def test_a_low_watermark_is_a_clock_reading_for_earlier_rows_only():
    timeline = timeline_of(2)
    timeline.append(0, run_of(Tx(NOW), Tx(FAR)))
    timeline.low_watermark(0, NOW + S)
    timeline.append(0, run_of(Tx(FAR), first_sequence=2))
    timeline.low_watermark(1, NOW + S)
    out = timeline.advance()
    assert (keys(out), flags(out, Flag.FUTURE)) == ([NOW, NOW], [False, True])
    assert timeline.frontier_us(0) == FAR, "what came after it may be of a time after it"


def test_an_old_low_watermark_says_nothing_of_the_clock():
    timeline = timeline_of(2)
    timeline.low_watermark(0, NOW)
    timeline.append(0, run_of(Tx(FAR)))
    timeline.low_watermark(0, NOW)
    timeline.low_watermark(0, NOW - S)
    assert timeline.frontier_us(0) == FAR


def test_the_end_is_not_a_clock_reading():
    timeline = timeline_of(1)
    timeline.append(0, run_of(Tx(FAR)))
    timeline.low_watermark(0, END_OF_TIME_US)
    assert keys(timeline.advance()) == [FAR]
    timeline.read_clock(0, NOW)
    assert timeline.frontier_us(0) == END_OF_TIME_US


def test_a_low_watermark_of_a_fast_clock_is_withdrawn_when_it_is_set():
    """1. The source's clock is an hour ahead and promises that hour. 2. It is set right. 3. What commits then
    is not held until the hour is over, and is not ahead of what is out.
    """
    timeline = timeline_of(2)
    timeline.read_clock(0, FAR)
    timeline.low_watermark(0, FAR)
    timeline.append(1, run_of(Tx(NOW)))
    assert keys(timeline.advance()) == [NOW]
    timeline.read_clock(0, NOW + S)
    timeline.validate()
    assert timeline.frontier_us(0) == NOW + S
    timeline.append(0, run_of(Tx(NOW + S)))
    timeline.low_watermark(1, NOW + 2 * S)
    assert keys(timeline.advance()) == [NOW + S]
    assert timeline.low_watermark(0, NOW + 2 * S), "it promises anew"


def test_what_is_out_is_not_keyed_again():
    timeline = timeline_of(2)
    timeline.append(0, run_of(Tx(FAR)))
    timeline.low_watermark(1, FAR)
    assert keys(timeline.advance()) == [FAR]
    timeline.read_clock(0, NOW)
    timeline.append(0, run_of(Tx(NOW), first_sequence=1))
    timeline.low_watermark(1, FAR + 1)
    assert keys(timeline.advance()) == [FAR]


def test_a_shard_stamped_decades_ahead_delays_no_client_and_loses_none():
    """SET TIMESTAMP in one session; counted and shown."""
    world = World.of(
        Source(Tx(NOW), Tx(FAR), Tx(NOW + 2 * S), Tx(NOW + 3 * S)),
        Source(*[Tx(NOW + n * S) for n in range(1, 5)], server=1),
    )
    world.subscribe()
    world.report(0, source_us=NOW + 4 * S, low_watermark_us=NOW + 4 * S)
    world.report(1, source_us=NOW + 4 * S, low_watermark_us=NOW + 4 * S)
    batch = world.get()
    assert len(batch.headers) == 8
    assert (np.diff(batch.headers["key_us"]) >= 0).all()
    assert world.status(0)["future"] == 1
    assert world.group.describe(0)["future"] == 1
    cursor = world.ack(batch.batch_id)
    assert cursor.passed_us == NOW + 4 * S, "no key of the far future is kept"


@pytest.mark.parametrize("ahead_us", [AHEAD_MAX_US + 2, FAR])
def test_what_a_removed_shard_stamped_ahead_does_not_end_it(ahead_us):
    world = World.of(Source(Tx(NOW), Tx(NOW + ahead_us), Tx(NOW)), Source(Tx(NOW), server=1))
    world.subscribe()
    world.remove("s0", until_us=NOW + 1)
    world.report(0, source_us=NOW + 1)
    world.report(0, 0, source_us=NOW + S, low_watermark_us=NOW + S)
    world.report(1, low_watermark_us=NOW + 2 * S)
    assert sorted(world.get().headers["shard"].tolist()) == [0, 0, 0, 1]


def test_a_repeated_range_has_the_same_order_for_any_clock():
    """1. A range has a transaction that is not believed. 2. It is read again after its time has come."""
    world = World.of(
        Source(Tx(NOW), Tx(NOW + 20 * S), Tx(NOW + 2 * S)), Source(Tx(NOW + S), Tx(NOW + 3 * S), server=1)
    )
    begin = world.subscribe()
    for shard in (0, 1):
        world.report(shard, source_us=NOW + 4 * S, low_watermark_us=NOW + 4 * S)
    first = world.offset_range(OffsetRange(begin))
    assert keys(first.headers) == [NOW, NOW, NOW + S, NOW + 2 * S, NOW + 3 * S]
    world.lose(0)
    world.open_all()
    for shard in (0, 1):
        world.report(shard, source_us=NOW + 60 * S, low_watermark_us=NOW + 60 * S)
    again = world.offset_range(OffsetRange(begin, first.end))
    assert again.headers["gtid_number"].tolist() == first.headers["gtid_number"].tolist()
    assert keys(again.headers) == keys(first.headers)
    assert again.end.to_json() == first.end.to_json()


def test_a_disbelieved_time_is_not_late_for_a_client_past_its_key():
    """1. A client reads as far as a shard promises. 2. The shard is opened again for a client that is behind,
    and brings a transaction that is not believed: nothing but its shard's key says where it belongs.
    """
    world = World.of(Source(Tx(NOW)), Source(Tx(FAR), Tx(NOW + 2 * S), server=1))
    world.subscribe("ahead")
    world.subscribe("behind")
    world.report(0, low_watermark_us=NOW + 3 * S)
    world.report(1, 0, source_us=NOW + S, low_watermark_us=NOW + S)
    world.ack(world.get("ahead").batch_id, "ahead")
    world.lose(1)
    world.open_all()
    world.report(0, low_watermark_us=NOW + 3 * S)
    world.report(1, source_us=NOW + 3 * S, low_watermark_us=NOW + 3 * S)
    batch = world.get("ahead")
    assert keys(batch.headers) == [NOW, NOW + 2 * S]
    assert flags(batch.headers, Flag.FUTURE) == [True, False]
    assert flags(batch.headers, Flag.LATE) == [False, False]
    assert keys(world.get("behind").headers) == [0, NOW, NOW + 2 * S]


def test_only_what_follows_a_disbelieved_transaction_is_disbelieved():
    timeline = timeline_of(1)
    source = Source(Tx(NOW), Tx(FAR, (1, 1)), Tx(NOW))
    timeline.read_clock(0, NOW)
    timeline.append(0, source.run(0, 2))
    timeline.append(0, source.run(2, 4, 2))
    assert flags(timeline.advance(), Flag.FUTURE) == [False, True, True, False]


def test_a_low_watermark_in_bounds_stays_before_disbelieved_rows():
    timeline = timeline_of(2, ahead_max_us=S)
    timeline.low_watermark(0, NOW)
    timeline.append(0, run_of(Tx(FAR)))
    timeline.read_clock(0, NOW - S)
    assert timeline.frontier_us(0) == NOW
    timeline.low_watermark(1, NOW)
    assert keys(timeline.advance()) == [NOW]


def test_a_reading_that_takes_keys_back_takes_the_watermark_back():
    timeline = timeline_of(2)
    timeline.append(0, run_of(Tx(FAR)))
    timeline.low_watermark(1, NOW)
    timeline.read_clock(0, NOW)
    timeline.low_watermark(1, NOW + 9 * S)
    timeline.validate()
    assert timeline.watermark_us == timeline.frontier_us(0) == 0


def test_disbelieved_transactions_stay_counted_after_a_reopening():
    world = World.of(Source(Tx(FAR), Tx(NOW, (2,))), Source(Tx(NOW), server=1))
    world.subscribe()
    for generation in (1, 2, 3):
        world.report(1, low_watermark_us=NOW + S)
        world.report(0, source_us=NOW, low_watermark_us=NOW + S)
        assert world.group.describe(0)["future"] == generation
        world.lose(0)
        assert world.group.describe(0)["future"] == generation
        world.open_all()


def test_a_removed_shard_is_read_up_to_its_clock_at_the_request():
    """1. It is to leave. 2. That is said once more. 3. Fifty seconds later its clock is read."""
    source = Source(Tx(NOW + S), Tx(NOW + 2 * S), Tx(NOW + 4 * S), Tx(NOW + 9 * S))
    world = World.of(source, Source(Tx(NOW), server=1))
    world.subscribe()
    world.now_us = 10 * S
    assert world.remove("s0")["role"] == "leaving"
    world.now_us += 50 * S
    world.remove("s0")
    world.report(0, source_us=NOW + 53 * S)
    world.report(1, low_watermark_us=NOW + 60 * S)
    batch = world.get()
    assert batch.headers["commit_us"].tolist() == [NOW, NOW + S, NOW + 2 * S]


def test_a_clock_read_before_merging_begins_is_ignored():
    world = World.of(Source(Tx(NOW)), Source(Tx(NOW)), start=False)
    world.start()
    world.open(0)
    world.now_us = 3 * S
    world.report(0, 0, source_us=NOW)
    assert world.status(0)["frontier_still_s"] == 3


def test_a_slow_answer_tells_the_clock_at_the_time_of_the_question():
    """1. A reading that was asked for before the shard was to leave does not count. 2. One that was asked for
    after that does, as of when it was asked for.
    """
    world = World.of(Source(Tx(NOW + 4 * S), Tx(NOW + 6 * S)), Source(Tx(NOW), server=1))
    world.subscribe()
    world.now_us = 15 * S
    world.remove("s0")
    world.tell(ev.ShardReported(0, 1, None, None, 17 * S, source_us=NOW, asked_us=14 * S))
    world.tell(ev.ShardReported(0, 1, None, None, 25 * S, source_us=NOW + 10 * S, asked_us=20 * S))
    world.report(0)
    world.report(1, low_watermark_us=NOW + 60 * S)
    assert world.get().headers["commit_us"].tolist() == [NOW, NOW + 4 * S]


@pytest.mark.parametrize("how", ["source_us", "low_watermark_us"])
def test_a_shard_with_an_unknown_clock_leaves_when_it_is_known(how):
    world = World.of(Source(Tx(NOW + 4 * S)), Source(Tx(NOW), server=1))
    world.subscribe()
    world.remove("s0")
    world.now_us = 2 * S
    world.report(0, 0, **{how: NOW})
    world.report(0, low_watermark_us=NOW + 9 * S)
    world.save()
    assert world.closed == [0]


@pytest.mark.parametrize(("first_us", "then_us", "future"), [(NOW, FAR, True), (FAR, NOW, False)])
def test_a_clock_read_inside_a_transaction_does_not_cover_its_rest(first_us, then_us, future):
    timeline, source = timeline_of(1), Source(Tx(FAR, (1, 1)))
    timeline.read_clock(0, first_us)
    timeline.append(0, source.run(0, 1))
    begun = timeline.advance()
    timeline.read_clock(0, then_us)
    timeline.append(0, source.run(1, 2, 1))
    rest = timeline.advance()
    assert flags(begun, Flag.FUTURE) + flags(rest, Flag.FUTURE) == [future] * 2
    assert keys(begun) == keys(rest)


def test_a_delivered_time_is_believed_of_other_shards():
    """Its transaction waits for another shard's, which is out in part."""
    timeline = timeline_of(2)
    timeline.append(0, Source(Tx(FAR, (1, 1))).run(0, 1))
    timeline.append(1, run_of(Tx(FAR), Tx(FAR + 1)))
    assert keys(timeline.advance()) == [FAR]
    timeline.read_clock(1, NOW)
    timeline.append(0, Source(Tx(FAR, (1, 1)), Tx(FAR + 2)).run(1, 3, 1))
    out = timeline.advance()
    assert (out["shard"].tolist(), keys(out)) == ([0, 1, 1], [FAR] * 3)
    assert flags(out, Flag.FUTURE) == [False, False, True]


def test_a_report_without_any_clock_leaves_the_last_reading():
    world = World.of(Source(Tx(NOW), Tx(NOW + S)), Source(Tx(NOW), server=1))
    world.subscribe()
    world.report(0, 0, low_watermark_us=NOW)
    world.report(0, 1)
    world.remove("s0")
    world.report(0)
    world.report(1, low_watermark_us=NOW + 9 * S)
    assert world.get().headers["commit_us"].tolist() == [NOW, NOW]
