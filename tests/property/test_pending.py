"""Pending headers: whatever comes when, what goes out is what a list that is sorted each time would give."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from canal_group.merge.order.pending import Pending
from canal_group.merge.values.header import HEADER

#: (shard, steps of its key from header to header), or a watermark
steps = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(0, 4), max_size=6)) | st.integers(0, 60), max_size=60
)


def entries(headers):
    return list(zip(*(headers[name].tolist() for name in ("key_us", "shard", "sequence")), strict=True))


@given(steps, st.integers(2, 9), st.integers(0, 3))
def test_what_goes_out_is_sorted_by_key_shard_and_arrival(told, fan, given_back):
    """1. runs come and go; 2. now and then an end of what was taken is put back; 3. nothing is lost."""
    pending, model, keys, counts = Pending(fan), [], [0] * 4, [0] * 4
    watermark = 0
    for step in [*told, 10**6]:
        if isinstance(step, int):
            watermark = max(watermark, step)
            expected = sorted(entry for entry in model if entry[0] <= watermark)
            taken = pending.take(watermark)
            assert entries(taken) == expected
            if step != 10**6:
                pending.put_back(taken[len(taken) - given_back :] if given_back else taken[:0])
                kept = expected[len(expected) - given_back :] if given_back else []
                expected = expected[: len(expected) - len(kept)]
            model = [entry for entry in model if entry not in set(expected)]
        else:
            shard, rises = step
            headers = np.zeros(len(rises), dtype=HEADER)
            headers["shard"] = shard
            headers["key_us"] = keys[shard] + np.cumsum(rises, dtype=np.int64)
            headers["sequence"] = counts[shard] + np.arange(len(rises))
            pending.add(headers)
            model += entries(headers)
            counts[shard] += len(rises)
            keys[shard] = int(headers["key_us"][-1]) if rises else keys[shard]
        assert len(pending) == len(model)
    assert not model


def test_runs_are_gathered_by_rank():
    """Else what goes out would be a little of each of many runs."""
    pending = Pending(fan=4)
    headers = np.zeros(1, dtype=HEADER)
    for _ in range(4 * 4 + 4 + 1):
        pending.add(headers)
    assert [[len(run) for run in runs] for runs in pending._ranks] == [[1], [4], [16]]


def test_what_is_removed_of_a_shard_is_gone_in_its_order():
    pending = Pending(fan=2)
    for number in range(7):
        headers = np.zeros(2, dtype=HEADER)
        headers["shard"], headers["sequence"], headers["key_us"] = (0, 1), number, number
        pending.add(headers)
    assert pending.remove(1)["sequence"].tolist() == list(range(7))
    assert len(pending) == 7
    assert pending.take(100)["shard"].tolist() == [0] * 7
    assert len(pending) == 0
