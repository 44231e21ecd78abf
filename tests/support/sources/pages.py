"""Pages of a snapshot, as they enter a stream."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from canal_group.actors.snapshot.page_chunk import PageAt, page_chunk
from canal_group.merge.values.chunk import MYSQL_TYPE, Chunk, TableName, TableRows, rows_schema

NAME = TableName("app", "t")
STATE = pa.dictionary(pa.int32(), pa.utf8())
FIELDS = [pa.field("id", pa.int64(), metadata={MYSQL_TYPE: b"bigint"}), pa.field("state", STATE)]
SCHEMA = rows_schema(FIELDS, b'["id"]')


def page(at: PageAt, *ids: int) -> tuple[Chunk, PageAt]:
    """Return a page with these rows, and where the next one enters."""
    states = pa.array(["new"] * len(ids), pa.utf8()).dictionary_encode().cast(STATE)
    rows = pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), states], schema=pa.schema(FIELDS))
    table = TableRows(NAME, pa.RecordBatch.from_pylist([], SCHEMA), NAME)
    return replace(page_chunk(table, rows, at), snapshot=f'{{"app.t":{list(ids)}}}'), at.after(len(ids))
