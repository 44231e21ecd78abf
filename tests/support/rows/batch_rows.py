"""Batches of shards, spelled out."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from canal_group.merge.rows.assemble import BatchRows, ShardRows, ShardTable
from canal_group.merge.values.chunk import MYSQL_TYPE, rows_schema
from canal_group.merge.values.header import HEADER, WHOLE

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NAMES = ("bin.000001", UUID, "mysql-bin.000007", "0-2", f"{UUID}:tag")


def column(name, kind, mysql_type=""):
    return pa.field(name, kind, metadata={MYSQL_TYPE: mysql_type})


def headers(*records):
    """Headers in merged order, from dicts; whole transactions of one row unless they say otherwise."""
    order = np.zeros(len(records), dtype=HEADER)
    order["flags"], order["row_end"] = WHOLE, 1
    for index, record in enumerate(records):
        for name, value in record.items():
            order[name][index] = value
    return order


def table(name, columns, changes, key=("id",)):
    """A ShardTable from (sequence, row, op, before, after)."""
    schema = rows_schema(columns, json.dumps(key).encode())
    schema = schema.set(0, pa.field("_sequence", pa.int64()))
    names = ("_sequence", "_row", "_op", "before", "after")
    rows = [dict(zip(names, change, strict=True)) for change in changes]
    return ShardTable(name, pa.Table.from_pylist(rows, schema=schema))


def batch(order, *shards, first=100):
    names = ("north", "south", "west")[: len(shards)]
    return BatchRows(order, tuple(shards), names, NAMES, first)


def one_shard(*tables, rows=1):
    return batch(headers({"row_end": rows}), ShardRows(tables))
