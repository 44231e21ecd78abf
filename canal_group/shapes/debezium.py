"""Debezium's envelope: `before after source op ts_ms`, with images as maps of text and without statements."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.rows.envelope import MAP

_SOURCE = pa.struct(
    [
        ("connector", pa.utf8()),
        ("name", pa.utf8()),
        ("ts_ms", pa.int64()),
        ("ts_us", pa.int64()),
        ("snapshot", pa.utf8()),
        ("db", pa.utf8()),
        ("table", pa.utf8()),
        ("gtid", pa.utf8()),
        ("file", pa.utf8()),
        ("pos", pa.int64()),
        ("row", pa.int64()),
        ("sequence", pa.int64()),
    ]
)
DEBEZIUM = pa.schema(
    [("before", MAP), ("after", MAP), ("source", _SOURCE), ("op", pa.utf8()), ("ts_ms", pa.int64())]
)
#: names of what happens to a row, and Debezium's letters for them. Plain lists: creating an array here would
#: import pandas with this module
_OPS, _LETTERS = ["INSERT", "UPDATE", "DELETE", "READ"], ["c", "u", "d", "r"]


def is_change(rows: pa.Table) -> Any:
    """Return which of n envelope rows are changes of rows: (n,) bool Array."""
    return pc.is_in(rows.column("op"), pa.array(_OPS)).combine_chunks()


def debezium_columns(changes: pa.Table) -> dict[str, Any]:
    """Return the columns of `DEBEZIUM`, each (n,) Array.

    Args:
        changes: (n,) Table of `canal_group.merge.rows.envelope.ENVELOPE` without statements.
    """
    column = {name: changes.column(name).combine_chunks() for name in changes.schema.names}
    millis = pc.divide(column["commit_us"], 1000)
    source = {
        "connector": pa.repeat("mysql", len(changes)),
        "name": column["shard"],
        "ts_ms": millis,
        "ts_us": column["commit_us"],
        "snapshot": pc.if_else(pc.equal(column["op"], "READ"), "incremental", "false"),
        "db": column["schema"],
        "table": column["table"],
        "gtid": column["gtid"],
        "file": column["file"],
        "pos": column["pos"],
        "row": column["row"],
        "sequence": column["seq"],
    }
    return {
        "before": column["before"],
        "after": column["after"],
        "source": pa.StructArray.from_arrays(list(source.values()), fields=list(_SOURCE)),
        "op": pa.array(_LETTERS).take(pc.index_in(column["op"], pa.array(_OPS))),
        "ts_ms": millis,
    }
