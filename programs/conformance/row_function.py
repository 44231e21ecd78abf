"""What every processing function has to do; a plug-in runs these tests by a class of its own.

class TestMine(RowFunctionConformance):
    @pytest.fixture
    def function(self) -> RowFunction: ...

    @pytest.fixture
    def rows(self) -> pa.RecordBatch: ...
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from canal_group.actors.sink.images import Images
from canal_group.actors.sink.process import Process
from canal_group.actors.sink.row_function import RowFunction

TABLE = "shop_0.orders"


class RowFunctionConformance:
    """The tests; `function` and `rows`, two or more with the columns that it reads, are fixtures."""

    @pytest.fixture
    def process(self, function: RowFunction) -> Process:
        """Return the function as called by a shard, which refuses invalid results."""
        return Process("mine", lambda: function)

    def test_it_adds_columns_and_changes_nothing(
        self, process: Process, function: RowFunction, rows: pa.RecordBatch
    ) -> None:
        assert list(function.reads) == rows.schema.names, "`rows` has the columns of `reads`"
        result = extended(process, rows)
        assert len(result.columns) == rows.num_columns + len(function.adds)

    def test_a_row_s_columns_do_not_depend_on_the_rows_beside_it(
        self, process: Process, rows: pa.RecordBatch
    ) -> None:
        count = rows.num_rows
        assert count > 1, "`rows` has two or more"
        for order in (np.arange(count)[::-1], np.array([0, 0, count - 1])):
            alone = extended(process, rows.take(pa.array(order)))
            together = extended(process, rows)
            for one, other in zip(alone.columns, together.columns, strict=True):
                assert one.equals(other.take(pa.array(order)))

    def test_rows_without_an_image_have_no_added_values(self, process: Process, rows: pa.RecordBatch) -> None:
        present = np.arange(rows.num_rows) % 2 == 0
        result = extended(process, rows, present)
        for added in result.columns[rows.num_columns :]:
            assert not added.is_valid().to_numpy(zero_copy_only=False)[~present].any()

    def test_values_may_be_null(self, process: Process, rows: pa.RecordBatch) -> None:
        nulls = pa.RecordBatch.from_arrays(
            [pa.nulls(2, each.type) for each in rows.schema], schema=rows.schema
        )
        extended(process, nulls)


def extended(process: Process, rows: pa.RecordBatch, present: np.ndarray | None = None) -> Images:
    """Return the images that a shard makes of rows."""
    there = np.ones(rows.num_rows, np.bool_) if present is None else present
    return process.extended(TABLE, list(rows.schema), Images(list(rows.columns), there, None))
