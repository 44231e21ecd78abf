"""Low watermarks in ids from the ids that came in."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from canal_group.merge.order.id_timeline import STEPS, IdsSeen


def add(seen, *pairs):
    times, ids = zip(*pairs, strict=True)
    seen.add(np.array(times, dtype=np.int64), np.array(ids, dtype=np.int64))


def below(seen, *frontiers_us):
    return seen.below(np.array(frontiers_us, dtype=np.int64)).tolist()


def test_an_id_counts_once_the_frontier_exceeds_the_contract():
    seen = IdsSeen(10)
    assert below(seen, 0, 1000) == [0, 0]
    add(seen, (100, 7), (105, 5), (110, 9))
    assert below(seen, 110, 111, 120, 121) == [0, 7, 7, 9]


def test_what_is_forgotten_still_counts():
    seen = IdsSeen(10)
    add(seen, (100, 7), (110, 9), (130, 12))
    seen.forget(121)
    assert len(seen) == 1
    assert below(seen, 121, 141) == [9, 12]
    add(seen, (131, 3))
    assert below(seen, 121, 200) == [9, 12]


def test_a_low_watermark_is_late_by_at_most_a_step():
    within_us = STEPS * 1000
    seen = IdsSeen(within_us)
    add(seen, (1, 7))
    assert below(seen, 1 + within_us, 1001 + within_us) == [0, 7]


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 500)), max_size=12), max_size=12),
    st.integers(1, 300),
    st.integers(2, 20),
    st.lists(st.integers(0, 4000), max_size=12),
)
def test_a_bounded_memory_never_says_more_than_all_ids_would(runs, within_us, times_max, frontiers_us):
    seen, known = IdsSeen(within_us, times_max), []
    for frontier_us, run in zip(sorted([*frontiers_us, *[0] * len(runs)]), [*runs, *[[]] * 12], strict=False):
        seen.forget(frontier_us)
        if run:
            add(seen, *run)
            known += run
        assert len(seen) <= times_max
        for at_us in (frontier_us, frontier_us + 50, frontier_us + 5000):
            exact = max((number for time, number in known if time + within_us < at_us), default=0)
            assert below(seen, at_us)[0] <= exact
    if known:
        assert below(seen, 10**6) == [max(number for _, number in known)], "in the end all ids count"
