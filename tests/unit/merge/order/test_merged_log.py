"""The merged log: a window between two growing indexes."""

import numpy as np
import pytest

from canal_group.merge.order.merged_log import MergedLog
from canal_group.merge.values.header import HEADER


def numbered(begin, end):
    headers = np.zeros(end - begin, dtype=HEADER)
    headers["sequence"] = range(begin, end)
    return headers


def sequences(headers):
    return headers["sequence"].tolist()


def test_what_is_kept_keeps_its_index_while_the_log_grows_and_is_freed():
    log, base, tip = MergedLog(1), 0, 0
    for count in (1, 1000, 30, 2000, 5, 9000):
        log.append(numbered(tip, tip + count))
        tip += count
        assert (log.base, log.tip) == (base, tip)
        assert sequences(log.slice(base, tip)) == list(range(base, tip))
        until = max(base, tip - 3)
        assert sequences(log.truncate(until)) == list(range(base, until))
        base = until


def test_a_slice_ends_where_the_log_does_and_is_a_copy():
    log = MergedLog(1)
    log.append(numbered(0, 5))
    log.truncate(2)
    found = log.slice(3, 99)
    assert sequences(found) == [3, 4]
    assert sequences(log.slice(3, 4)) == [3]
    found["sequence"] = 0
    assert sequences(log.slice(2, 5)) == [2, 3, 4]
    with pytest.raises(AssertionError, match="before the base"):
        log.slice(1, 3)
    assert len(log.truncate(2)) == 0


def test_memory_that_was_freed_is_used_again():
    log = MergedLog(1)
    for turn in range(1000):
        log.append(numbered(0, 100))
        log.truncate(100 * turn + 50)
    assert len(log._buffer) < 2000


def test_the_first_header_of_a_shard_is_found_without_a_copy():
    log = MergedLog(8)
    headers = numbered(0, 10_000)
    headers["shard"] = 1
    headers["shard"][[2, 5_000, 9_999]] = 7
    log.append(headers)
    for freed, first in ((0, 2), (3, 5_000), (5_001, 9_999), (10_000, None)):
        log.truncate(freed)
        assert log.first_of(7) == first
    assert log.first_of(1) is None


def test_the_last_header_of_a_shard_is_known_after_it_is_freed():
    log = MergedLog(2)
    log.append(numbered(0, 5))
    log.truncate(5)
    assert [log.last_of(shard) for shard in (0, 1)] == [4, -1]
    log.forget(0)
    log.add_shard()
    assert [log.last_of(shard) for shard in (0, 1, 2)] == [-1, -1, -1]


def test_what_a_shard_has_is_counted_from_an_index_on():
    log = MergedLog(3)
    headers = numbered(0, 6)
    headers["shard"] = [0, 2, 2, 0, 2, 2]
    headers["bytes"] = [50, 1, 1, 50, 1, 1]
    headers["rows"] = [1, 2, 3, 4, 5, 6]
    log.append(headers)
    log.truncate(1)
    assert [log.rows_of(shard) for shard in (0, 1, 2)] == [4, 0, 16]
    assert [log.most_since(index) for index in (0, 2, 4, 6)] == [(4, 50), (3, 50), (2, 2), (0, 0)]
