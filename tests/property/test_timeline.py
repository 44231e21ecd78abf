"""Timelines of random sources: neither the order of arrival nor the cutting of runs changes the result."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from support.defaults import timeline_of
from support.group.builders import Source, Tx
from support.soak import cases

from canal_group.merge.values.header import Flag

END = 10**9

transactions = st.builds(
    Tx, commit_us=st.integers(1, 40), rows=st.sampled_from([(1,), (1,), (1,), (1, 1), (1, 1, 1), (0,)])
)
groups = st.lists(st.lists(transactions, max_size=10).map(lambda txs: Source(*txs)), min_size=1, max_size=4)


wishes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.none() | st.integers(0, 50)), max_size=25
)


def schedule(sources, wished):
    """Steps (shard, count, promise): as wished, promises lowered until they are true, then the rest."""
    at = [0] * len(sources)
    steps = []
    for shard, count, low_watermark_us in [*wished, *((shard, 99, None) for shard in range(len(sources)))]:
        if shard < len(sources):
            at[shard] += count
            true_us = sources[shard].latest_low_watermark(at[shard])
            steps.append((shard, count, None if low_watermark_us is None else min(low_watermark_us, true_us)))
    return steps


def play(sources, steps, *, advance_each):
    """Return the timeline and everything that went out."""
    timeline = timeline_of(1 * len(sources))
    at = [0] * len(sources)
    out = []
    for shard, count, low_watermark_us in steps:
        end = min(at[shard] + count, len(sources[shard].headers))
        timeline.append(shard, sources[shard].run(at[shard], end, at[shard]))
        at[shard] = end
        if low_watermark_us is not None:
            timeline.low_watermark(shard, low_watermark_us)
        if advance_each:
            out.append(timeline.advance())
    for shard in range(len(sources)):
        timeline.low_watermark(shard, END)
    out.append(timeline.advance())
    return timeline, np.concatenate(out)


def order_of(headers):
    return list(zip(*(headers[name].tolist() for name in ("key_us", "shard", "sequence")), strict=True))


def check_low_watermarks(sources, timeline, out):
    """What holds for every schedule."""
    assert timeline.pending == 0
    assert (np.diff(out["key_us"]) >= 0).all()
    for shard, source in enumerate(sources):
        mine = out[out["shard"] == shard]
        assert mine["sequence"].tolist() == list(range(len(source.headers)))
        for column in ("commit_us", "rows", "row_begin", "row_end", "begin_offset", "end_offset", "bytes"):
            assert (mine[column] == source.headers[column]).all()
        names = timeline.names.as_tuple()
        assert [names[i] for i in mine["file"]] == [source.names[i] for i in source.headers["file"]]
        assert [names[i] for i in mine["gtid_source"]] == [
            source.names[i] for i in source.headers["gtid_source"]
        ]
    opened = (out["flags"][:-1] & Flag.END) == 0
    assert (out["shard"][:-1][opened] == out["shard"][1:][opened]).all(), "a transaction is split"


@given(groups, wishes, wishes)
def test_true_low_watermarks_make_one_order_for_any_schedule(sources, first, second):
    timeline, out = play(sources, schedule(sources, first), advance_each=False)
    other, again = play(sources, schedule(sources, second), advance_each=False)
    check_low_watermarks(sources, timeline, out)
    assert order_of(out) == order_of(again) == sorted(order_of(out))
    assert timeline.counters.late == other.counters.late == 0
    assert not (out["flags"] & Flag.LATE).any()


@given(groups, wishes)
def test_advancing_meanwhile_changes_only_the_order_of_equal_keys(sources, wished):
    steps = schedule(sources, wished)
    timeline, out = play(sources, steps, advance_each=True)
    check_low_watermarks(sources, timeline, out)
    _, at_the_end = play(sources, steps, advance_each=False)
    assert sorted(order_of(out)) == order_of(at_the_end)
    assert not (out["flags"] & Flag.LATE).any()


@given(
    groups,
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 4), st.sampled_from(["", "low_watermark", "exclude", "include"])
        ),
        max_size=30,
    ),
    st.integers(1, 40),
)
@settings(max_examples=cases(300))
def test_the_guarantees_hold_for_any_low_watermarks_and_members(sources, steps, low_watermark_us):
    """Lies, shards that are skipped and come back."""
    timeline = timeline_of(len(sources))
    at = [0] * len(sources)
    out = []
    for shard, count, what in [*steps, *((shard, 99, "include") for shard in range(len(sources)))]:
        if shard >= len(sources):
            continue
        end = min(at[shard] + count, len(sources[shard].headers))
        timeline.append(shard, sources[shard].run(at[shard], end, at[shard]))
        at[shard] = end
        if what == "low_watermark":
            timeline.low_watermark(shard, low_watermark_us + len(out))
        elif what == "exclude":
            timeline.exclude(shard)
        elif what == "include":
            timeline.include(shard)
        out.append(timeline.advance())
    for shard in range(len(sources)):
        timeline.low_watermark(shard, END)
    out.append(timeline.advance())
    together = np.concatenate(out)
    check_low_watermarks(sources, timeline, together)
    raised = (together["key_us"] > together["commit_us"]) & ((together["flags"] & Flag.LATE) == 0)
    for shard in np.unique(together["shard"][raised]).tolist():
        # A key that was raised without being late was raised to the shard's own key before it.
        mine = together[together["shard"] == shard]
        keys = np.concatenate([[0], mine["key_us"]])
        own = (mine["key_us"] > mine["commit_us"]) & ((mine["flags"] & Flag.LATE) == 0)
        assert (mine["key_us"][own] == keys[:-1][own]).all()
    late = (together["flags"] & Flag.LATE) != 0
    assert timeline.counters.late == int((late & ((together["flags"] & Flag.BEGIN) != 0)).sum())
    assert (together["commit_us"][late] < together["key_us"][late]).all()
