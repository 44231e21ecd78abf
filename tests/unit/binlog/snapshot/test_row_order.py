"""Row orders: which literals may be keys of a table."""

from __future__ import annotations

import pytest

from canal_group.binlog.schema.definition import ColumnDefinition
from canal_group.binlog.snapshot.row_order import RowOrder
from canal_group.merge.snapshot.cursor import KeyRange

TEXT = "_utf8mb4 X'78'"


@pytest.mark.parametrize(
    ("column", "in_range", "of_row", "neither"),
    [
        (ColumnDefinition("k", "enum", values=("x", "y")), ["1"], ["1"], [TEXT, "-1", "1e0", "1" * 40]),
        (ColumnDefinition("k", "int"), ["7", "-7"], ["7", "-7"], [TEXT, "'2024-01-01'"]),
        (ColumnDefinition("k", "varchar", length=9), [TEXT, "X'78'"], [TEXT], ["7", "'2024-01-01'"]),
        (ColumnDefinition("k", "date"), ["'2024-01-01'"], ["'2024-01-01'"], ["7", TEXT]),
    ],
)
def test_a_key_has_literals_of_its_columns_types(column, in_range, of_row, neither):
    order = RowOrder("PRIMARY", (column,))
    assert all(order.takes(KeyRange((each,), (each,))) for each in in_range)
    assert order.takes([(each,) for each in of_row])
    for each in neither:
        assert not order.takes([(each,)])
        assert not order.takes(KeyRange((each,), None))
    assert not order.takes([(in_range[0], in_range[0])])
