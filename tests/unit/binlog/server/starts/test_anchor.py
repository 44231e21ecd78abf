"""The last delivered transaction is looked for by origin; what was not delivered is never dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from canal_group.binlog.server.starts.by_time import AnchorSearch, Found, Logged

PRIMARY, STANDBY = 1, 2
START = "f.000001", 0


def logged(offset: int, original_us: int, server_id: int = PRIMARY) -> Logged:
    return Logged("f.000001", offset, server_id, original_us, original_us)


def search(found: list[Logged], commit_us: int, *, origin_id: int = PRIMARY, ordered: bool = True) -> Found:
    looking = AnchorSearch(commit_us, origin_id, STANDBY, ordered=ordered)
    for each in found:
        looking.take(each)
        if looking.anchored:
            break
    return looking.found(START)


def test_everything_up_to_the_anchor_is_dropped():
    binlog = [logged(offset, 100 + offset) for offset in range(5)]
    assert search(binlog, 103) == Found(None, 4, 0)


def test_without_an_anchor_what_was_committed_up_to_its_time_is_counted():
    binlog = [logged(0, 100), logged(1, 101), logged(2, 150, STANDBY)]
    assert search(binlog, 103) == Found(START, 0, 2)
    assert search(binlog, 101, ordered=False) == Found(START, 0, 2)
    assert search(binlog, 101, origin_id=0) == Found(START, 0, 2)
    assert search(binlog, 150, origin_id=STANDBY) == Found(START, 0, 3)


def test_another_servers_transaction_of_that_time_is_not_an_anchor():
    assert search([logged(0, 100), logged(1, 101, 7)], 101).begin == START


def test_what_another_server_committed_before_the_anchor_is_delivered():
    binlog = [logged(0, 100), logged(1, 101, STANDBY), logged(2, 102)]
    assert search(binlog, 102) == Found(("f.000001", 1), 1, 2)


def test_nothing_is_dropped_after_the_origins_clock_was_set_back():
    binlog = [logged(0, 102), logged(1, 90), logged(2, 103)]
    assert search(binlog, 103) == Found(("f.000001", 1), 1, 2)


@given(
    times=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    delivered=st.integers(1, 12),
    others=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 40)), max_size=4),
    lost=st.booleans(),
)
def test_nothing_is_dropped_that_was_not_delivered(
    times: list[int], delivered: int, others: list[tuple[int, int]], lost: bool
):
    """The primary's clock may go anywhere, the standby has transactions of its own, and may lack the last."""
    delivered = min(delivered, len(times))
    commit_us = times[delivered - 1]
    own = [(PRIMARY, number, time_us) for number, time_us in enumerate(times)]
    binlog = [each for each in own if not lost or each[1] < delivered - 1]
    for offset, time_us in others:
        binlog.insert(min(offset, len(binlog)), (STANDBY, -1, time_us))
    placed = [logged(offset, time_us, server) for offset, (server, _, time_us) in enumerate(binlog)]
    found = search(placed, commit_us)
    missed = binlog[: found.dropped]
    assert all(server == PRIMARY and number < delivered for server, number, _ in missed)
