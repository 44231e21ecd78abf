"""Timelines ordered by ids: shards whose ids keep the contract come out sorted, whatever the schedule."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from support.defaults import AHEAD_MAX_US
from support.group.builders import Source, Tx
from support.soak import cases

from canal_group.merge.order.id_timeline import IdTimeline
from canal_group.merge.values.header import Flag

END = 10**9
SHARDS = 4

#: of each transaction with an id, in the order of ids: its shard, microseconds since the id before it was
#: generated, and until it is committed (cut to D); an id of 0 for some
written = st.lists(
    st.tuples(st.integers(0, SHARDS - 1), st.integers(0, 9), st.integers(0, 60), st.integers(1, 9)),
    max_size=40,
)
#: transactions without ids: shard and commit time
others = st.lists(st.tuples(st.integers(0, SHARDS - 1), st.integers(1, 300)), max_size=12)
wishes = st.lists(
    st.tuples(st.integers(0, SHARDS - 1), st.integers(0, 4), st.none() | st.integers(0, 400)), max_size=30
)


def sources_of(made, without, within_us):
    """Return the shards' binlogs: each is in the order of its commits."""
    logs = [[] for _ in range(SHARDS)]
    at_us, order_id = 1, 0
    for shard, after_us, lag_us, gap in made:
        at_us += after_us
        order_id += gap
        logs[shard].append((at_us + min(lag_us, within_us), order_id))
    for shard, commit_us in without:
        logs[shard].append((commit_us, 0))
    return [
        Source(*(Tx(commit_us, order_id=number) for commit_us, number in sorted(log, key=lambda one: one[0])))
        for log in logs
    ]


def play(sources, wished, within_us):
    """Return the timeline and what went out; low watermarks are lowered until they are true."""
    timeline = IdTimeline(SHARDS, AHEAD_MAX_US, within_us=within_us)
    at, out = [0] * SHARDS, []
    for shard, count, low_us in [*wished, *((shard, 99, END) for shard in range(SHARDS))]:
        end = min(at[shard] + count, len(sources[shard].headers))
        timeline.append(shard, sources[shard].run(at[shard], end, at[shard]))
        at[shard] = end
        if low_us is not None:
            timeline.low_watermark(shard, min(low_us, sources[shard].latest_low_watermark(end)))
        out.append(timeline.advance())
        timeline.validate()
    assert timeline.pending == 0 or timeline.held_by() is not None
    for shard in range(SHARDS):
        timeline.low_watermark(shard, 2 * END)
    out.append(timeline.advance())
    together = np.concatenate(out)
    assert len(together) == sum(len(source.headers) for source in sources)
    return timeline, together


def expected(sources):
    """Return (greatest id of its shard so far, shard, sequence) of the transactions with ids, sorted."""
    found = []
    for shard, source in enumerate(sources):
        ids = source.headers["order_id"]
        so_far = np.maximum.accumulate(ids) if len(ids) else ids
        found += [(int(so_far[index]), shard, int(index)) for index in np.flatnonzero(ids)]
    return sorted(found)


@given(written, others, wishes, st.integers(1, 60))
@settings(max_examples=cases(300))
def test_ids_that_keep_the_contract_come_out_sorted(made, without, wished, within_us):
    sources = sources_of(made, without, within_us)
    timeline, out = play(sources, wished, within_us)
    with_ids = out[out["order_id"] > 0]
    sequences = list(zip(with_ids["shard"].tolist(), with_ids["sequence"].tolist(), strict=True))
    assert sequences == [(shard, sequence) for _, shard, sequence in expected(sources)]
    assert timeline.counters.late == 0
    assert not (out["flags"] & Flag.LATE).any()
    assert (np.diff(out["order_key"]) >= 0).all()


@given(written, others, wishes, st.integers(1, 60), st.integers(1, 10), st.sets(st.integers(0, 3)))
@settings(max_examples=cases(300))
def test_a_broken_contract_is_counted_and_the_guarantees_hold(
    made, without, wished, true_us, told_us, skipped
):
    """The settings tell less than the truth; some shards are skipped at first."""
    sources = sources_of(made, without, true_us)
    timeline, out = play(sources, wished, told_us)
    assert (np.diff(out["order_key"]) >= 0).all()
    for shard in range(SHARDS):
        mine = out[out["shard"] == shard]
        assert mine["sequence"].tolist() == list(range(len(sources[shard].headers)))
    late = (out["flags"] & Flag.LATE) != 0
    assert timeline.counters.late == int(late.sum())
    assert (out["order_id"][late] < out["order_key"][late]).all()
    with_ids = out[out["order_id"] > 0]
    sequences = list(zip(with_ids["shard"].tolist(), with_ids["sequence"].tolist(), strict=True))
    if sequences != [(shard, sequence) for _, shard, sequence in expected(sources)]:
        assert late.any(), "what is out of order is not silent"


def test_a_broken_contract_is_seen():
    """The id 5 is committed 30 us after a greater one, and 10 us are allowed."""
    sources = [Source(Tx(100, order_id=9)), Source(Tx(130, order_id=5)), Source(), Source()]
    steps = [(0, 1, 400), (1, 0, 129), (2, 0, 400), (3, 0, 400), (1, 1, None)]
    timeline, out = play(sources, steps, 10)
    assert out["order_id"].tolist() == [9, 5]
    assert timeline.counters.late == 1
    again, sorted_out = play(sources, steps, 30)
    assert sorted_out["order_id"].tolist() == [5, 9]
    assert again.counters.late == 0
