"""Chunks of a versioned table."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from canal_group.merge.values.chunk import Chunk, Op, SpecialColumns, TableName, TableRows, rows_schema
from canal_group.merge.values.header import HEADER, WHOLE

NAME, SOURCE = TableName("shop", "orders"), TableName("shop_0", "orders")
MOMENT = pa.timestamp("us", tz="UTC")
PAST, NEVER, NEVER_SINCE_11_5 = 1_700_000_000_000_001, 2**31 * 10**6 - 1, 2**32 * 10**6 - 1
IMPLICIT = SpecialColumns(("hash",), ("start", "end"), "end")


def schema_of(kind, key=("id", "end")):
    columns = [("id", pa.int32()), ("start", kind), ("end", kind), ("hash", pa.uint64())]
    return rows_schema([pa.field(*column) for column in columns], json.dumps(list(key)).encode())


def image(number, end):
    return None if end is None else {"id": number, "start": 1, "end": end, "hash": number}


def chunk(ends, special, kind=MOMENT):
    """Return a chunk of one-row transactions; the ends of the periods in the images before and after."""
    ops = [
        Op.INSERT if before is None else Op.DELETE if after is None else Op.UPDATE for before, after in ends
    ]
    rows = [
        {
            "_header": index,
            "_row": 7,
            "_op": int(op),
            "before": image(index, before),
            "after": image(index, after),
        }
        for index, (op, (before, after)) in enumerate(zip(ops, ends, strict=True))
    ]
    headers = np.zeros(len(rows), HEADER)
    headers["rows"], headers["row_begin"], headers["row_end"], headers["flags"] = 1, 7, 8, WHOLE
    batch = pa.RecordBatch.from_pylist(rows, schema=schema_of(kind))
    return Chunk(headers, ("f",), (TableRows(NAME, batch, SOURCE, special),))
