"""Rows on their way from a ring to the gateway."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from actors.store.ring import Stored
from merge.chunk import TableName


@dataclass(frozen=True, slots=True)
class RowStreams:
    """Rows of a range of one shard's sequences, as Arrow IPC streams.

    An IPC stream holds just the range, while a pickled slice would hold the whole chunk it was cut from.
    Tables are as in a chunk, but with `_sequence` (int64, the ring's) in place of `_header`.
    """

    tables: tuple[tuple[TableName, pa.Buffer], ...]
    statements: pa.Buffer | None


def gather(stored: Iterable[Stored]) -> RowStreams:
    """Return the rows of consecutive parts of chunks, in one stream a table and schema version."""
    versions: dict[tuple[TableName, pa.Schema], list[pa.RecordBatch]] = {}
    statements: list[pa.RecordBatch] = []
    for part in stored:
        for table in part.chunk.tables:
            rows = _sequenced(table.rows, part)
            if rows.num_rows:
                versions.setdefault((table.name, rows.schema), []).append(rows)
        if part.chunk.statements is not None:
            statements.append(_sequenced(part.chunk.statements, part))
    tables = tuple((name, _stream(batches)) for (name, _), batches in versions.items())
    return RowStreams(tables, _stream(statements) if statements else None)


def read(stream: pa.Buffer) -> pa.Table:
    """Return the table that an IPC stream holds, without copying it."""
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()


def _sequenced(rows: pa.RecordBatch, part: Stored) -> pa.RecordBatch:
    """Return the part's rows of a chunk's table, with sequences in place of header indexes."""
    header = rows.column("_header").to_numpy()
    begin, end = np.searchsorted(header, [part.header_begin, part.header_end])
    cut = rows.slice(begin, end - begin)
    sequence = header[begin:end].astype(np.int64) + (part.first_sequence - part.header_begin)
    return cut.set_column(0, pa.field("_sequence", pa.int64(), nullable=False), pa.array(sequence))


def _stream(batches: list[pa.RecordBatch]) -> pa.Buffer:
    table = pa.Table.from_batches(batches).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
