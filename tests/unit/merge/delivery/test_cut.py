"""How many headers leave together."""

import pytest
from support.group.builders import Tx, run_of

from canal_group.merge.delivery import batch_limits as cutting
from canal_group.merge.values.header import no_headers


def headers(*rows, bytes_each=100, ddl=()):
    return run_of(
        *(Tx(1, (count,), ddl=index in ddl, bytes_each=bytes_each) for index, count in enumerate(rows))
    ).headers


def cut(given, **bounds):
    """Cut headers within bounds, which are above all of them unless they are given."""
    return cutting.cut(given, **{"rows_max": 1_000, "bytes_max": 100_000, **bounds})


def test_nothing_of_nothing():
    assert cut(no_headers(), rows_max=5, bytes_max=5, ddl_isolation=True) == 0


def test_everything_without_bounds():
    assert cut(headers(1, 2, 3)) == 3


@pytest.mark.parametrize(("rows_max", "count"), [(0, 1), (1, 1), (2, 1), (3, 2), (5, 2), (6, 3), (7, 3)])
def test_rows(rows_max, count):
    assert cut(headers(1, 2, 3), rows_max=rows_max) == count


@pytest.mark.parametrize(("bytes_max", "count"), [(0, 1), (99, 1), (100, 1), (199, 1), (200, 2), (1000, 3)])
def test_bytes(bytes_max, count):
    assert cut(headers(1, 1, 1), bytes_max=bytes_max) == count


def test_headers_without_rows_cost_no_rows():
    assert cut(headers(0, 2, 0, 0, 1), rows_max=2) == 4


def test_the_smallest_bound_decides():
    assert cut(headers(1, 1, 1, 1), rows_max=3, bytes_max=200) == 2
    assert cut(headers(1, 1, 1, 1), rows_max=1, bytes_max=200) == 1


def test_sums_beyond_32_bits():
    assert cut(headers(2**31 - 1, 2**31 - 1, 1), rows_max=2**32) == 3


@pytest.mark.parametrize(("ddl", "count"), [((0,), 1), ((1,), 1), ((2,), 2), ((0, 1), 1), ((), 3)])
def test_a_ddl_leaves_alone(ddl, count):
    assert cut(headers(1, 1, 1, ddl=ddl), ddl_isolation=True) == count
    assert cut(headers(1, 1, 1, ddl=ddl), ddl_isolation=False) == 3
