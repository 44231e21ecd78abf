"""The rules of a timeline that is ordered by ids, one by one."""

import pytest
from support.defaults import AHEAD_MAX_US
from support.group.builders import Source, Tx, run_of

from canal_group.merge.order.id_timeline import IdTimeline
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag

#: D of these tests
WITHIN_US = 10


def tx(commit_us, order_id=0, rows=(1,)):
    return Tx(commit_us, rows, order_id=order_id)


def timeline_of(shards):
    return IdTimeline(shards, AHEAD_MAX_US, within_us=WITHIN_US)


def came_out(timeline):
    out = timeline.advance()
    timeline.validate()
    return [(int(h["shard"]), int(h["order_id"]), int(h["order_key"])) for h in out]


def test_ids_order_transactions_against_their_commit_times():
    timeline = timeline_of(2)
    timeline.append(0, run_of(tx(1, 20), tx(2, 40)))
    timeline.append(1, run_of(tx(3, 10), tx(4, 30)))
    assert came_out(timeline) == [(1, 10, 10), (0, 20, 20), (1, 30, 30)]
    timeline.low_watermark(1, END_OF_TIME_US)
    assert came_out(timeline) == [(0, 40, 40)]


def test_an_idle_shard_delays_an_id_as_long_as_a_smaller_may_come():
    timeline = timeline_of(2)
    timeline.append(0, run_of(tx(100, 7)))
    timeline.low_watermark(1, 100 + WITHIN_US)
    assert came_out(timeline) == []
    assert timeline.held_by() == 1
    timeline.low_watermark(1, 101 + WITHIN_US)
    assert came_out(timeline) == [(0, 7, 7)]


def test_a_busy_shard_without_ids_delays_no_longer_than_an_idle_one():
    timeline = timeline_of(2)
    timeline.append(0, run_of(tx(100, 7)))
    timeline.append(1, run_of(tx(105), tx(101 + WITHIN_US)))
    assert came_out(timeline)[:3] == [(1, 0, 0), (1, 0, 0), (0, 7, 7)]
    timeline.append(1, run_of(tx(102 + WITHIN_US), first_sequence=2))
    assert came_out(timeline) == [(1, 0, 7)], "it follows what its shard can still precede"
    assert timeline.counters.late == 0


def test_a_gap_in_the_ids_delays_nothing():
    timeline = timeline_of(2)
    timeline.append(0, run_of(tx(1, 5), tx(2, 10**15)))
    timeline.append(1, run_of(tx(1, 6), tx(2, 10**15 + 7)))
    assert [order_id for _, order_id, _ in came_out(timeline)] == [5, 6, 10**15]


def test_equal_keys_go_out_by_shard():
    timeline = timeline_of(3)
    for shard in (2, 0, 1):
        timeline.append(shard, run_of(tx(shard, 5), tx(9)))
    assert [shard for shard, _, _ in came_out(timeline)] == [0, 0, 1, 1, 2, 2]


def test_a_transaction_without_an_id_follows_its_shards_previous_one():
    timeline = timeline_of(2)
    timeline.append(0, run_of(tx(1, 5), tx(2), tx(3, 9)))
    timeline.append(1, run_of(tx(1, 6), tx(1, 20)))
    assert came_out(timeline) == [(0, 5, 5), (0, 0, 5), (1, 6, 6), (0, 9, 9)]


def test_a_smaller_id_of_the_same_shard_keeps_its_order_and_is_not_late():
    timeline = timeline_of(1)
    timeline.append(0, run_of(tx(1, 9), tx(2, 4), tx(3, 12)))
    assert came_out(timeline) == [(0, 9, 9), (0, 4, 9), (0, 12, 12)]
    assert timeline.counters.late == 0


def test_an_id_below_the_low_watermark_is_late_raised_and_counted():
    timeline = timeline_of(2)
    timeline.append(0, run_of(tx(100, 50)))
    timeline.low_watermark(1, 200)
    assert came_out(timeline) == [(0, 50, 50)]
    timeline.append(1, run_of(tx(201, 30, (1, 2)), tx(202, 60)))
    timeline.low_watermark(0, 300)
    out = timeline.advance()
    assert out["order_key"].tolist() == [50, 50, 60]
    assert ((out["flags"] & Flag.LATE) != 0).tolist() == [True, True, False]
    assert (timeline.counters.late, timeline.counters.late_rows) == (1, 3)
    assert timeline.counters_of(0).late == 0


def test_a_late_commit_time_is_not_a_late_id():
    timeline = timeline_of(2)
    timeline.low_watermark(0, 1000)
    timeline.low_watermark(1, END_OF_TIME_US)
    timeline.append(0, run_of(tx(900, 5)))
    out = timeline.advance()
    assert out["flags"].tolist() == [Flag.BEGIN | Flag.END | Flag.BY_ID]
    assert timeline.counters.late == 0


def test_a_stamp_from_the_future_makes_no_frontier():
    """Else every id of the others would be below the low watermark that follows from it."""
    timeline = timeline_of(2)
    timeline.read_clock(1, 100)
    timeline.append(0, run_of(tx(100, 50)))
    timeline.append(1, run_of(tx(10**12)))
    assert came_out(timeline) == [(1, 0, 0)]
    timeline.append(1, run_of(tx(101, 40), first_sequence=1))
    assert came_out(timeline) == [(1, 40, 40)]
    assert (timeline.counters.future, timeline.counters.late) == (1, 0)


def test_a_shard_that_counts_again_begins_after_what_went_out():
    timeline = timeline_of(2)
    timeline.append(0, run_of(tx(100, 50), tx(120, 70)))
    timeline.exclude(1)
    assert [order_id for _, order_id, _ in came_out(timeline)] == [50, 70]
    timeline.append(1, run_of(tx(90, 40), tx(119, 80)))
    timeline.include(1)
    timeline.low_watermark(0, 1000)
    timeline.low_watermark(1, 1000)
    assert came_out(timeline) == [(1, 40, 70), (1, 80, 80)]
    assert timeline.counters_of(1).late == 1


def test_a_shard_that_counts_again_says_at_once_what_it_can_still_bring():
    timeline = timeline_of(2)
    timeline.append(0, run_of(tx(100, 50)))
    timeline.exclude(1)
    assert came_out(timeline) == [(0, 50, 50)]
    timeline.include(1)
    timeline.validate()
    assert timeline.watermark_id == 50


def test_what_matters_to_a_skipped_shard_is_not_forgotten():
    """It counts again while a transaction is open, so that not all that could go out is out."""
    timeline = timeline_of(3)
    timeline.exclude(2)
    source = Source(tx(100, 10, (1, 1)))
    timeline.append(0, source.run(0, 1, 0))
    timeline.append(1, run_of(tx(100, 50)))
    for shard in (0, 1):
        timeline.low_watermark(shard, 200)
    assert came_out(timeline) == [(0, 10, 10)]
    timeline.include(2)
    timeline.append(2, run_of(tx(105, 30)))
    timeline.append(0, source.run(1, 2, 1))
    assert came_out(timeline) == [(0, 0, 10), (2, 30, 30)]
    timeline.append(2, run_of(tx(106, 40), first_sequence=1))
    assert came_out(timeline) == [(2, 40, 40)]
    timeline.low_watermark(2, 200)
    assert came_out(timeline) == [(1, 50, 50)]
    assert timeline.counters.late == 0


@pytest.mark.parametrize("ids", [(5, 0), (5, 9)])
def test_fragments_have_the_key_of_the_first(ids):
    timeline = timeline_of(2)
    source = Source(tx(1, 5, (1, 1, 1)), tx(2, 30))
    source.headers["order_id"][:2] = ids
    timeline.append(1, run_of(tx(1, 7), tx(3, 40)))
    for index in range(4):
        timeline.append(0, source.run(index, index + 1, index))
    assert came_out(timeline)[:4] == [(0, 5, 5), (0, ids[1], 5), (0, 0, 5), (1, 7, 7)]


def test_an_open_transaction_is_not_split():
    timeline = timeline_of(2)
    source = Source(tx(1, 5, (1, 1)), tx(20, 30))
    timeline.append(1, run_of(tx(1, 4), tx(1, 6)))
    timeline.append(0, source.run(0, 1, 0))
    assert came_out(timeline) == [(1, 4, 4), (0, 5, 5)]
    timeline.low_watermark(0, 100)
    assert came_out(timeline) == []
    timeline.append(0, source.run(1, 3, 1))
    assert came_out(timeline) == [(0, 0, 5), (1, 6, 6)]


def test_a_shard_that_joins_begins_after_what_went_out():
    timeline = timeline_of(1)
    timeline.append(0, run_of(tx(100, 50)))
    assert came_out(timeline) == [(0, 50, 50)]
    timeline.join(1)
    timeline.append(1, run_of(tx(10, 8)))
    timeline.include(1)
    assert came_out(timeline) == [(1, 8, 50)]
    assert timeline.counters.late == 1
