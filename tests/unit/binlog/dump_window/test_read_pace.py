"""When a dump server reads its source again: at intervals, or at once after a pause and if much arrives."""

from __future__ import annotations

import pytest

from canal_group.binlog.dump_window.read_pace import INTERVAL_S, MUCH_BYTES, ReadPace


def test_a_source_that_sends_little_is_read_at_intervals() -> None:
    pace, now_s = ReadPace(), 100.0
    assert pace.pause_s(now_s) == 0, "the first commit is read at once"
    for _ in range(10):
        pace.read(MUCH_BYTES - 1, now_s, emptied=True)
        assert pace.pause_s(now_s + 0.001) == pytest.approx(INTERVAL_S - 0.001)
        now_s += INTERVAL_S + 0.0001
        assert pace.pause_s(now_s) == 0


def test_a_source_that_sends_much_does_not_wait() -> None:
    """However little each read of it has brought, as long as there is enough of them."""
    pace, now_s = ReadPace(), 100.0
    pace.read(MUCH_BYTES, now_s, emptied=True)
    for _ in range(100):
        now_s += INTERVAL_S / 10
        assert pace.pause_s(now_s) == 0
        pace.read(MUCH_BYTES // 9, now_s, emptied=True)


def test_a_source_that_sends_less_waits_again() -> None:
    pace = ReadPace()
    pace.read(MUCH_BYTES, 100.0, emptied=True)
    pace.read(10, 100.0 + INTERVAL_S / 2, emptied=True)
    assert pace.pause_s(100.0 + INTERVAL_S / 2) == 0
    pace.read(10, 100.0 + INTERVAL_S + 0.001, emptied=True)
    assert pace.pause_s(100.0 + INTERVAL_S + 0.001) == pytest.approx(INTERVAL_S)


def test_what_a_read_has_left_is_read_at_once() -> None:
    pace = ReadPace()
    for _ in range(3):
        pace.read(10, 100.0, emptied=False)
        assert pace.pause_s(100.0) == 0
    pace.read(10, 100.0, emptied=True)
    assert pace.pause_s(100.0) == pytest.approx(INTERVAL_S)
