"""A batch whose images lack columns."""

from __future__ import annotations

import json

import pyarrow as pa
from support.rows.batch_rows import batch, column, headers

from canal_group.merge.rows.assemble import ShardRows, ShardTable
from canal_group.merge.values.chunk import Op, TableName, partial_schema, rows_schema

ORDERS = TableName("shop", "orders")
COLUMNS = [column(name, pa.int32()) for name in ("id", "a", "b")]


def partial_table(changes, columns=COLUMNS, key=("id",)):
    """A ShardTable from (sequence, op, before, after); columns that an image lacks are absent from it."""
    schema = rows_schema(columns, json.dumps(key).encode()).set(0, pa.field("_sequence", pa.int64()))
    rows = [
        {
            "_sequence": sequence,
            "_row": 0,
            "_op": op,
            "before": before,
            "after": after,
            "_before_absent": bits(before, columns),
            "_after_absent": bits(after, columns),
        }
        for sequence, op, before, after in changes
    ]
    return ShardTable(ORDERS, pa.Table.from_pylist(rows, schema=partial_schema(schema)))


def bits(row, columns):
    absent = sum(1 << at for at, each in enumerate(columns) if row is not None and each.name not in row)
    return absent.to_bytes((len(columns) + 7) // 8, "little")


CHANGES = [
    (0, Op.INSERT, None, {"id": 1, "a": None}),
    (1, Op.UPDATE, {"id": 1}, {"id": 1, "b": 5}),
    (2, Op.UPDATE, {"id": 1, "a": 1, "b": 5}, {"id": 2, "a": 1, "b": 6}),
    (3, Op.DELETE, {"id": 2}, None),
]
BATCH = batch(headers(*({"sequence": at} for at in range(4))), ShardRows((partial_table(CHANGES),)))
