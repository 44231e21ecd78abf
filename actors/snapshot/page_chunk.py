"""Page chunks: a page of a snapshot, and the mark at its end, as a shard's stream has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from canal_group.merge.values.chunk import STATEMENTS, Chunk, Op, TableRows
from canal_group.merge.values.header import HEADER, WHOLE, Flag, Headers
from canal_group.merge.values.marks.mark import MARK_SOURCE, mark_statement
from canal_group.merge.values.position import Position


@dataclass(frozen=True, slots=True)
class PageAt:
    """Where a page enters a stream."""

    #: position between two transactions; `page_rows` counts the ordinals of all pages that entered there
    #: before
    boundary: Position
    #: commit time of the transaction before it; if that is not known, when its file was created
    commit_us: int

    def after(self, rows: int) -> PageAt:
        """Return where the next page enters, after one with so many rows."""
        passed = self.boundary.page_rows + ordinals(rows)
        return replace(self, boundary=replace(self.boundary, page_rows=passed))


def ordinals(rows: int) -> int:
    """Return how many ordinals a page with so many rows takes."""
    return max(rows, 1)


def read_rows(schema: Any, rows: Any, first: int = 0) -> Any:
    """Return rows that were read, as chunks have them.

    Args:
        schema: of the table's batches.
        rows: (n,) RecordBatch of its columns.
        first: ordinal of the first one.
    """
    count, image = rows.num_rows, schema.field("after").type
    arrays = [
        pa.array(np.zeros(count, np.int32)),
        pa.array(np.arange(first, first + count)),
        pa.array(np.full(count, Op.READ, np.uint8)),
        pa.nulls(count, image),
        pa.StructArray.from_arrays(rows.columns, fields=list(image)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def page_chunk(table: TableRows, rows: Any, at: PageAt) -> Chunk:
    """Return the chunk of a page.

    Args:
        table: what chunks say of the table, with a batch of its schema, whose rows are not used.
        rows: (n,) RecordBatch of its columns; n may be 0.
        at: where it enters.
    """
    count = rows.num_rows
    batch = read_rows(table.rows.schema, rows, at.boundary.page_rows)
    tables = (TableRows(table.name, batch, table.source, table.special, table.lineage),) if count else ()
    return Chunk(_header(count, batch.nbytes, at), (at.boundary.file, ""), tables)


def mark_chunk(sql: str, at: PageAt) -> Chunk:
    """Return the chunk of a mark, see `canal_group.merge.values.marks`."""
    row = {"_header": 0, "_row": at.boundary.page_rows, **mark_statement(sql)}
    batch = pa.RecordBatch.from_pylist([row], STATEMENTS)
    return Chunk(_header(1, batch.nbytes, at), (at.boundary.file, ""), (), batch, (MARK_SOURCE,))


def _header(rows: int, size: int, at: PageAt) -> Headers:
    headers = np.zeros(1, HEADER)
    header, first = headers[0], at.boundary.page_rows
    header["flags"], header["rows"], header["bytes"] = WHOLE | Flag.PAGE, rows, size
    header["row_begin"], header["row_end"] = first, first + ordinals(rows)
    header["commit_us"] = at.commit_us
    header["begin_offset"] = header["end_offset"] = at.boundary.offset
    header["gtid_source"] = 1
    return headers
