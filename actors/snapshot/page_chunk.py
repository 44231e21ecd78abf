"""Page chunks: a page of a snapshot as a shard's stream has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from canal_group.merge.values.chunk import Chunk, Op, TableRows
from canal_group.merge.values.header import HEADER, WHOLE, Flag
from canal_group.merge.values.position import Position


@dataclass(frozen=True, slots=True)
class PageAt:
    """Where a page enters a stream."""

    #: between two transactions; its `page_rows` are those of the pages that entered there before
    boundary: Position
    #: commit time of the transaction before it
    commit_us: int

    def after(self, rows: int) -> PageAt:
        """Return where the next page enters, after one with so many rows."""
        passed = self.boundary.page_rows + ordinals(rows)
        return replace(self, boundary=replace(self.boundary, page_rows=passed))


def ordinals(rows: int) -> int:
    """Return how many ordinals a page with so many rows takes."""
    return max(rows, 1)


def page_chunk(table: TableRows, rows: Any, at: PageAt) -> Chunk:
    """Return the chunk of a page.

    Args:
        table: what chunks say of the table, with a batch of its schema, whose rows are not used.
        rows: (n,) RecordBatch of its columns; n may be 0.
        at: where it enters.
    """
    count, first = rows.num_rows, at.boundary.page_rows
    schema = table.rows.schema
    image = schema.field("after").type
    after = pa.StructArray.from_arrays(rows.columns, fields=list(image))
    arrays = [
        pa.array(np.zeros(count, np.int32)),
        pa.array(np.arange(first, first + count)),
        pa.array(np.full(count, Op.READ, np.uint8)),
        pa.nulls(count, image),
        after,
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    headers = np.zeros(1, HEADER)
    header = headers[0]
    header["flags"], header["rows"], header["bytes"] = WHOLE | Flag.PAGE, count, batch.nbytes
    header["row_begin"], header["row_end"] = first, first + ordinals(count)
    header["commit_us"] = at.commit_us
    header["begin_offset"] = header["end_offset"] = at.boundary.offset
    header["gtid_source"] = 1
    tables = (TableRows(table.name, batch, table.source, table.special, table.lineage),) if count else ()
    return Chunk(headers, (at.boundary.file, ""), tables)
