"""The timeline's rules, one by one."""

from itertools import pairwise

import numpy as np
import pytest
from support.defaults import timeline_of
from support.group.builders import Source, Tx, brief, run_of

from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag, HeaderRun, no_headers


def late(headers):
    return ((headers["flags"] & Flag.LATE) != 0).tolist()


def test_equal_keys_go_out_by_shard_then_in_the_shards_order():
    timeline = timeline_of(3)
    for shard in (2, 0, 1):
        timeline.append(shard, run_of(Tx(5), Tx(5)))
    assert brief(timeline.advance()) == [(0, 5, 0), (0, 5, 1), (1, 5, 0), (1, 5, 1), (2, 5, 0), (2, 5, 1)]


def test_a_clock_that_steps_back_raises_the_key_and_is_not_late():
    timeline = timeline_of(1)
    timeline.append(0, run_of(Tx(9), Tx(4), Tx(12)))
    out = timeline.advance()
    assert out["key_us"].tolist() == [9, 9, 12]
    assert out["commit_us"].tolist() == [9, 4, 12]
    assert late(out) == [False] * 3
    assert timeline.counters.late == 0


def test_a_commit_below_the_low_watermark_is_raised_flagged_and_counted():
    timeline = timeline_of(2)
    timeline.low_watermark(0, 10)
    timeline.append(0, run_of(Tx(9), Tx(10)))
    timeline.low_watermark(1, 10)
    out = timeline.advance()
    assert out["key_us"].tolist() == [10, 10]
    assert out["commit_us"].tolist() == [9, 10]
    assert late(out) == [True, False]
    assert timeline.counters.late == 1


def test_all_fragments_of_a_late_transaction_are_late_and_it_counts_once():
    timeline = timeline_of(1)
    source = Source(Tx(5, (1, 1, 1)), Tx(20))
    timeline.low_watermark(0, 10)
    for begin in range(4):
        timeline.append(0, source.run(begin, begin + 1, begin))
        timeline.low_watermark(0, 10 + begin)
    out = timeline.advance()
    assert late(out) == [True, True, True, False]
    assert out["key_us"].tolist() == [10, 10, 10, 20]
    assert timeline.counters.late == 1


def test_a_repeated_or_smaller_low_watermark_says_nothing():
    timeline = timeline_of(1)
    assert timeline.low_watermark(0, 10)
    assert not timeline.low_watermark(0, 10)
    assert not timeline.low_watermark(0, 9)
    assert timeline.frontier_us(0) == 10


def test_the_watermark_is_the_smallest_frontier_of_those_that_count():
    timeline = timeline_of(3)
    timeline.append(0, run_of(Tx(30)))
    timeline.low_watermark(1, 20)
    assert (timeline.watermark_us, timeline.held_by()) == (0, 2)
    timeline.exclude(2)
    assert (timeline.watermark_us, timeline.held_by()) == (20, 1)
    timeline.exclude(1)
    assert timeline.watermark_us == 30
    timeline.exclude(0)
    assert timeline.watermark_us == END_OF_TIME_US


def test_while_a_transaction_is_open_only_its_own_fragments_go_out():
    timeline = timeline_of(2)
    source = Source(Tx(5, (1, 1, 1)), Tx(6))
    timeline.append(0, source.run(0, 1, 0))
    timeline.append(1, run_of(Tx(5), Tx(7)))
    assert brief(timeline.advance()) == [(0, 5, 0)]
    assert timeline.held_by() == 0
    timeline.low_watermark(0, 6)
    assert len(timeline.advance()) == 0
    timeline.append(0, source.run(1, 2, 1))
    assert brief(timeline.advance()) == [(0, 5, 1)]
    timeline.append(0, source.run(2, 4, 2))
    assert brief(timeline.advance()) == [(0, 5, 2), (1, 5, 0), (0, 6, 3)]
    timeline.low_watermark(0, 7)
    assert brief(timeline.advance()) == [(1, 7, 1)]
    assert timeline.pending == 0


def test_of_two_open_transactions_the_first_one_goes_out():
    timeline = timeline_of(2)
    first, second = Source(Tx(5, (1, 1))), Source(Tx(4), Tx(5, (1, 1)))
    timeline.append(0, first.run(0, 1, 0))
    timeline.append(1, second.run(0, 2, 0))
    assert brief(timeline.advance()) == [(1, 4, 0), (0, 5, 0)]
    timeline.append(1, second.run(2, 3, 2))
    assert len(timeline.advance()) == 0
    timeline.append(0, first.run(1, 2, 1))
    assert brief(timeline.advance()) == [(0, 5, 1), (1, 5, 1), (1, 5, 2)]


def test_what_an_excluded_shard_brings_is_raised_to_what_is_out():
    timeline = timeline_of(2)
    timeline.append(0, run_of(Tx(50)))
    timeline.exclude(1)
    assert brief(timeline.advance()) == [(0, 50, 0)]
    assert timeline.lag_us(1) == 50
    timeline.append(1, run_of(Tx(10), Tx(60)))
    assert timeline.lag_us(1) == 0
    assert timeline.excluded(1)
    out = timeline.advance()
    assert (brief(out), late(out)) == ([(1, 50, 0)], [True])
    timeline.include(1)
    timeline.low_watermark(0, 60)
    assert brief(timeline.advance()) == [(1, 60, 1)]


def test_a_shard_that_counts_again_low_watermarks_what_is_out():
    timeline = timeline_of(2)
    timeline.append(0, run_of(Tx(50)))
    timeline.exclude(1)
    timeline.advance()
    timeline.include(1)
    assert timeline.watermark_us == 50
    timeline.append(1, run_of(Tx(49), Tx(50)))
    assert late(timeline.advance()) == [True, False]


def test_headers_that_come_in_are_not_changed():
    run = run_of(Tx(5), Tx(3))
    before = run.headers.copy()
    timeline = timeline_of(2)
    timeline.low_watermark(1, 10)
    timeline.append(1, run)
    timeline.advance()
    assert (run.headers == before).all()


def test_an_empty_run_is_nothing():
    timeline = timeline_of(1)
    timeline.append(0, HeaderRun(no_headers(), ()))
    assert len(timeline.advance()) == 0
    assert timeline.frontier_us(0) == 0
    assert timeline.held_by() is None


def test_names_of_several_runs_become_one_table():
    timeline = timeline_of(2)
    first, second = Source(Tx(1), name="a"), Source(Tx(2), name="b", server=1)
    timeline.append(0, first.run(0, 1))
    timeline.append(1, second.run(0, 1))
    timeline.low_watermark(0, 9)
    out, names = timeline.advance(), timeline.names.as_tuple()
    assert [names[index] for index in out["file"]] == ["a.000001", "b.000001"]
    assert [names[index][-1] for index in out["gtid_source"]] == ["0", "1"]


def test_runs_are_cut_where_the_watermark_says():
    timeline = timeline_of(2)
    timeline.append(0, run_of(Tx(1), Tx(2), Tx(3)))
    timeline.append(0, run_of(Tx(4), Tx(5), first_sequence=3))
    out = []
    for low_watermark_us in (2, 4, 9):
        timeline.low_watermark(1, low_watermark_us)
        out.append(timeline.advance()["sequence"].tolist())
    assert out == [[0, 1], [2, 3], [4]]
    assert np.concatenate(out).tolist() == list(range(5))


def test_late_and_open_is_what_the_last_transaction_of_a_run_is():
    timeline = timeline_of(1)
    source = Source(Tx(20), Tx(5, (1, 1)))
    timeline.low_watermark(0, 10)
    timeline.append(0, source.run(0, 2))
    timeline.append(0, source.run(2, 3, 2))
    assert late(timeline.advance()) == [False, True, True]
    timeline = timeline_of(1)
    source = Source(Tx(5), Tx(20, (1, 1)))
    timeline.low_watermark(0, 10)
    timeline.append(0, source.run(0, 2))
    timeline.append(0, source.run(2, 3, 2))
    assert late(timeline.advance()) == [True, False, False]


@pytest.mark.parametrize("cuts", [(1, 3, 4), (1, 2, 3, 4), (1, 4), (1, 2, 4)])
def test_after_the_end_of_an_open_transaction_the_watermark_counts_again(cuts):
    """However its fragments and what follows them come in, before anything is asked for."""
    timeline, source = timeline_of(2), Source(Tx(5, (1, 1, 1)), Tx(50))
    timeline.low_watermark(1, 5)
    timeline.append(0, source.run(0, cuts[0]))
    assert brief(timeline.advance()) == [(0, 5, 0)]
    assert timeline.open_shard == 0
    for begin, end in pairwise(cuts):
        timeline.append(0, source.run(begin, end, begin))
        timeline.validate()
    assert timeline.pending == 3
    assert brief(timeline.advance()) == [(0, 5, 1), (0, 5, 2)]
    assert (timeline.open_shard, timeline.pending) == (None, 1)
    timeline.low_watermark(1, 50)
    assert brief(timeline.advance()) == [(0, 50, 3)]


def test_a_rest_that_has_not_ended_leaves_its_transaction_open():
    timeline, source = timeline_of(2), Source(Tx(5, (1, 1, 1)))
    timeline.low_watermark(1, 90)
    timeline.append(0, source.run(0, 1))
    timeline.advance()
    timeline.append(0, source.run(1, 2, 1))
    assert brief(timeline.advance()) == [(0, 5, 1)]
    assert timeline.open_shard == 0


def test_a_partly_delivered_transaction_holds_the_other_shards():
    timeline = timeline_of(2)
    timeline.append(0, run_of(Tx(10)))
    timeline.append(1, Source(Tx(10, (1, 1))).run(0, 1))
    assert brief(timeline.advance()) == [(0, 10, 0), (1, 10, 0)]
    timeline.append(0, run_of(Tx(10), first_sequence=1))
    assert timeline.held_by() == 1


def test_a_shard_joining_at_a_reserved_index_is_not_awaited():
    timeline = timeline_of(2)
    timeline.join(1)
    timeline.validate()
    timeline.append(0, run_of(Tx(50)))
    assert brief(timeline.advance()) == [(0, 50, 0)]


def test_a_low_watermark_inside_a_transaction_does_not_make_its_rest_late():
    timeline, source = timeline_of(1), Source(Tx(20, (1, 1)))
    timeline.append(0, source.run(0, 1))
    timeline.low_watermark(0, 30)
    timeline.append(0, source.run(1, 2, 1))
    assert late(timeline.advance()) == [False, False]


def test_a_second_wait_for_a_shard_changes_nothing():
    timeline = timeline_of(2)
    for shard in (0, 1):
        timeline.append(shard, run_of(Tx(20)))
    assert len(timeline.advance()) == 2
    timeline.include(0)
    timeline.append(0, run_of(Tx(15), first_sequence=1))
    assert late(timeline.advance()) == [False]
