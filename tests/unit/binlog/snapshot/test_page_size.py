"""Page sizes: large enough for a fast server, small for a slow one; a busy machine makes none small."""

from __future__ import annotations

import pytest

from canal_group.binlog.snapshot.page import PAGE_BYTES
from canal_group.binlog.snapshot.page_size import FIRST_ROWS, LEAST_S, MOST_S, ROWS_MIN, PageSize

ROW_BYTES, ROWS_MAX = 100, 32_768


def read(size, seconds_a_row, others_s=(0.0,), pages=30, row_bytes=ROW_BYTES):
    """Read pages of a server that takes so long for a row; others delay them by turns."""
    for number in range(pages):
        rows = size.rows()
        size.was_read(rows, rows * row_bytes, rows * seconds_a_row + others_s[number % len(others_s)])
    return size.rows()


def test_pages_of_a_fast_server_have_as_many_bytes_as_they_may():
    assert read(PageSize(ROWS_MAX), 1e-6) == PAGE_BYTES // ROW_BYTES


def test_pages_have_no_more_rows_than_they_may():
    assert read(PageSize(1_000), 1e-6) == 1_000
    assert PageSize(100).rows() == 100


def test_pages_of_a_slow_server_take_a_short_time():
    rows = read(PageSize(ROWS_MAX), 2e-5)
    assert LEAST_S <= rows * 2e-5 <= MOST_S
    assert rows > FIRST_ROWS
    grown = PageSize(ROWS_MAX)
    read(grown, 1e-6)
    assert read(grown, 2e-5) * 2e-5 <= MOST_S


def test_pages_that_wait_for_a_processor_are_not_made_small():
    """One of four does not, and says what a page takes."""
    assert read(PageSize(ROWS_MAX), 1e-6, (0.4, 0.3, 0.0, 0.5)) == PAGE_BYTES // ROW_BYTES


def test_pages_of_large_rows_are_made_small():
    assert read(PageSize(ROWS_MAX), 1e-6, row_bytes=PAGE_BYTES // 4) == 4


def test_no_page_is_made_very_small_because_it_took_long():
    size = PageSize(ROWS_MAX)
    read(size, 1e-6)
    assert read(size, 1e-3) == ROWS_MIN


@pytest.mark.parametrize(("attempt", "rows"), [(0, 500), (1, 250), (3, 62), (20, 1)])
def test_each_attempt_in_vain_halves_a_page(attempt, rows):
    assert PageSize(ROWS_MAX).rows(attempt) == rows
