"""Merged rows as a Ray Data dataset: its tasks read the parts of an offset range from the gateway.

    with canal_group.connect("grpc://...", destination="shop", client_id="lake") as consumer:
        offset_range = consumer.offset_range(consumer.cursor, rows_max=1_000_000)
        ray_data.dataset(consumer, offset_range, "shop.orders").write_parquet("orders")
        consumer.ack(offset_range.batch_id)

Rows do not pass through this process. Needs `pip install 'canal-group[ray-data]'`; nothing else of
`canal_group` imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from canal_group.client.batch import Batch
from canal_group.client.consumer import Consumer
from canal_group.client.range_rows import RangeRows
from canal_group.extras import needed_by
from canal_group.merge.errors import UsageError

with needed_by("canal_group.ray_data", "ray-data"):
    import ray.data
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

#: rows of a part if the number of parts is not given
PART_ROWS = 65_536


def dataset(
    consumer: Consumer,
    offset_range: Batch,
    table: str | None = None,
    *,
    before: bool = False,
    parts: int | None = None,
) -> ray.data.Dataset:
    """Return an offset range's rows as a dataset, which reads them each time that it is used.

    Until the dataset was used, the consumer must stay open and the offset range unacknowledged. Tasks wait
    for a gateway or a shard that is unavailable; rows that were lost with one are read again from the sources
    and are the same. Rows are in merged order if the dataset keeps its order (`preserve_order` of Ray Data's
    `execution_options`); otherwise sort by `_seq` (`seq` of the envelope).

    Args:
        consumer: the consumer of the offset range. Its token and the names of its certificate files are sent
            to the tasks.
        offset_range: the result of `Consumer.offset_range`.
        table: "schema.table", after routes: its own typed columns, see `Batch.table`; None: all tables, see
            `Batch.envelope`.
        before: add the before image of a table's rows as a struct `_before`.
        parts: number of tasks, each of which reads a contiguous run of the merged order; None: one for each
            65,536 rows.

    Raises:
        UsageError: `parts` is less than 1.

    Using the dataset raises, inside Ray's own errors, FencedError (another consumer took over) and
    RetryableError (no server answered within the consumer's `retry_s`).
    """
    count = parts if parts is not None else max(1, -(-offset_range.rows // PART_ROWS))
    if count < 1:
        raise UsageError(f"An offset range is read in 1 part or more, not in {count}.")
    typed = {"format": "typed", "table": table, "before": before}
    source = RangeDatasource(
        RangeRows.of(consumer, offset_range, {"format": "envelope"} if table is None else typed)
    )
    return ray.data.read_datasource(source, override_num_blocks=count)


class RangeDatasource(Datasource):  # type: ignore[misc]  # ray is not followed
    """An offset range for `ray.data.read_datasource`; prefer `dataset`.

    Args:
        rows: the offset range and table to read.
    """

    def __init__(self, rows: RangeRows) -> None:
        super().__init__()
        self._rows = rows

    def estimate_inmemory_data_size(self) -> int | None:
        """Return None: the size of rows is unknown before they are read."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: object = None
    ) -> list[ReadTask]:
        """Return one task for each of `parallelism` parts."""
        del data_context
        # Ray would take an upper limit for the exact number: a table's rows are only some of the offset
        # range's.
        unknown = BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None)
        return [
            ReadTask(_Part(self._rows, index, parallelism), unknown, per_task_row_limit=per_task_row_limit)
            for index in range(parallelism)
        ]


class _Part:
    def __init__(self, rows: RangeRows, index: int, count: int) -> None:
        self._rows, self._index, self._count = rows, index, count

    def __call__(self) -> Iterator[pa.Table]:
        rows = self._rows.read(self._index, self._count)
        if rows.num_rows:
            yield _plain(rows)


def _plain(rows: pa.Table) -> pa.Table:
    """Return rows without dictionary encoding, because dictionaries differ from part to part."""
    plain = [
        pa.field(each.name, each.type.value_type if pa.types.is_dictionary(each.type) else each.type)
        for each in rows.schema
    ]
    return rows.cast(pa.schema(plain))


__all__ = ["RangeDatasource", "dataset"]
