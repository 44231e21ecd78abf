"""Shard counters against counting one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from canal_group.actors.shard.shard_counters import CHUNKS_MAX, OTHER, QUANTILES, ShardCounters
from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.merge.errors import UnsupportedEvent
from canal_group.merge.values.chunk import Chunk, Op, TableName, TableRows
from canal_group.merge.values.header import HEADER, WHOLE, Flag

NOW_US = 10_000_000

transactions = st.lists(
    st.tuples(
        st.lists(st.sampled_from(list(Op)), max_size=4),
        st.integers(0, 2 * NOW_US),
        st.sampled_from([WHOLE, WHOLE | Flag.DDL, Flag.BEGIN]),
    ),
    max_size=5,
)


def chunk_of(described):
    headers = np.zeros(len(described), dtype=HEADER)
    ops = [op for kinds, _, _ in described for op in kinds]
    for header, (kinds, commit_us, flags) in zip(headers, described, strict=True):
        header["rows"], header["commit_us"] = len(kinds), commit_us
        header["flags"], header["bytes"] = flags, 10
    rows = pa.record_batch({"_op": pa.array(ops, pa.uint8())})
    return Chunk(headers, (), (TableRows(TableName("shop", "orders"), rows),))


@given(st.lists(transactions, max_size=4), st.sampled_from([NOW_US, None]))
def test_counts_are_those_of_counting_one_by_one(chunks, source_us):
    counters = ShardCounters()
    for described in chunks:
        counters.stored(chunk_of(described), source_us)
    every = [each for described in chunks for each in described]
    ends = [each for each in every if each[2] & Flag.END]
    state = counters.describe(ReadCounts())
    assert state["transactions"] == len(ends)
    assert state["statements"] == sum(bool(flags & Flag.DDL) for _, _, flags in every)
    assert state["decoded_bytes"] == 10 * len(every)
    for op, name in [
        (Op.INSERT, "insert"),
        (Op.UPDATE, "update"),
        (Op.DELETE, "delete"),
        (Op.READ, "read"),
    ]:
        assert state["rows"][name] == sum(kinds.count(op) for kinds, _, _ in every)
    delays = [] if source_us is None else [max(source_us - commit_us, 0) for _, commit_us, _ in ends]
    assert state["delay_s"]["count"] == len(delays)
    assert state["delay_s"]["sum"] == sum(delays) / 1e6
    assert (state["delay_s"]["p50"] is None) == (not delays)


@given(st.lists(st.integers(0, NOW_US), min_size=1, max_size=60))
def test_quantiles_are_the_smallest_delays_that_their_part_did_not_exceed(delays_us):
    counters = ShardCounters()
    for delay_us in delays_us:
        counters.stored(chunk_of([([], NOW_US - delay_us, WHOLE)]), NOW_US)
    quantiles = counters.describe(ReadCounts())["delay_s"]
    for name, part in QUANTILES.items():
        below = [
            each for each in sorted(delays_us) if sum(d <= each for d in delays_us) >= part * len(delays_us)
        ]
        assert quantiles[name] == below[0] / 1e6


def test_only_the_last_chunks_count_for_quantiles():
    counters = ShardCounters()
    counters.stored(chunk_of([([], 0, WHOLE)]), NOW_US)
    for _ in range(CHUNKS_MAX):
        counters.stored(chunk_of([([], NOW_US, WHOLE)]), NOW_US)
    quantiles = counters.describe(ReadCounts())["delay_s"]
    assert (quantiles["p99"], quantiles["count"]) == (0, CHUNKS_MAX + 1)


def test_what_ended_readers_read_is_added():
    counters = ShardCounters()
    counters.ended(ReadCounts(5, 1, 0, {"unknown type 43": 2}))
    counters.ended(ReadCounts(1, 0, 3))
    described = counters.describe(ReadCounts(10, ignored_events={"unknown type 43": 1, "unknown type 99": 4}))
    names = ("read_bytes", "zero_dates", "invalid_text")
    assert [described[name] for name in names] == [16, 1, 3]
    assert described["ignored_events"] == {"unknown type 43": 3, "unknown type 99": 4}


def test_stops_at_what_is_not_read_are_counted_by_the_type_of_the_event():
    counters = ShardCounters()
    for details in ({"event": "unknown type 43"}, {"event": "unknown type 43"}, {}):
        counters.stopped_at(UnsupportedEvent("It is not supported.", **details))
    assert counters.describe(ReadCounts())["unsupported_events"] == {"unknown type 43": 2, OTHER: 1}
