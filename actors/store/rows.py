"""Rows on their way from a ring to the gateway: a range of a shard's sequences as Arrow IPC streams.

An IPC stream holds just the range, and one table in one schema version. Its rows are as in a chunk, but

- `_sequence` (int64, the ring's) stands in place of `_header`;
- `before` is left out where no row's image before the change is wanted.

All streams of a range travel as the rows of one table, `STREAMS`, each a message of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.store.ring import Stored
from merge.assemble import ShardRows, ShardTable
from merge.chunk import ABSENT, Op, TableName

STREAMS = pa.schema(
    [
        ("schema", pa.utf8()),  # null: statements
        ("table", pa.utf8()),
        ("rows", pa.large_binary()),  # the IPC stream
    ]
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a range is wanted."""

    #: the only table; None: all of them, and statements
    table: TableName | None = None
    #: whether images before the change are wanted of all rows, and not of deletes only
    before: bool = True


def gather(stored: Iterable[Stored], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of consecutive parts of chunks, as record batches of `STREAMS` with one row."""
    versions: dict[tuple[TableName, pa.Schema], list[pa.RecordBatch]] = {}
    statements: list[pa.RecordBatch] = []
    for part in stored:
        for table in part.chunk.tables:
            if wanted.table in (None, table.name):
                rows = _sequenced(table.rows, part)
                if rows.num_rows:
                    versions.setdefault((table.name, table.rows.schema), []).append(rows)
        if part.chunk.statements is not None and wanted.table is None:
            statements.append(_sequenced(part.chunk.statements, part))
    for (name, _), batches in versions.items():
        yield _message(name, _thinned(batches, wanted))
    if statements:
        yield _message(None, statements)


def scattered(streams: Iterable[pa.RecordBatch]) -> ShardRows:
    """Return the rows that record batches of `STREAMS` hold, without copying them."""
    tables: list[ShardTable] = []
    statements: pa.Table | None = None
    for message in streams:
        schema, table, stream = (message.column(name)[0] for name in STREAMS.names)
        with pa.ipc.open_stream(stream.as_buffer()) as reader:
            rows = reader.read_all()
        if schema.is_valid:
            tables.append(ShardTable(TableName(schema.as_py(), table.as_py()), rows))
        else:
            statements = rows
    return ShardRows(tuple(tables), statements)


def _sequenced(rows: pa.RecordBatch, part: Stored) -> pa.RecordBatch:
    """Return the part's rows of a chunk's table, with sequences in place of header indexes."""
    header = rows.column("_header").to_numpy()
    begin, end = np.searchsorted(header, [part.header_begin, part.header_end])
    cut = rows.slice(begin, end - begin)
    sequence = header[begin:end].astype(np.int64) + (part.first_sequence - part.header_begin)
    return cut.set_column(0, pa.field("_sequence", pa.int64(), nullable=False), pa.array(sequence))


def _thinned(batches: list[pa.RecordBatch], wanted: Wanted) -> list[pa.RecordBatch]:
    """Return the rows of a table without the images before them, if nobody will look at those."""
    if wanted.before:
        needed = any(batch.column("before").null_count < batch.num_rows for batch in batches)
    else:
        needed = any(pc.any(pc.equal(batch.column("_op"), int(Op.DELETE))).as_py() for batch in batches)
    if needed:
        return batches
    needless = [name for name in ("before", ABSENT["before"]) if name in batches[0].schema.names]
    return [batch.drop_columns(needless) for batch in batches]


def _message(name: TableName | None, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    # Written once, into a block that fits: a sink that grows would copy its bytes again and again.
    counter = pa.MockOutputStream()
    _write(counter, batches)
    block = pa.allocate_buffer(counter.size())
    _write(pa.FixedSizeBufferWriter(block), batches)
    offsets = pa.py_buffer(np.array([0, block.size], dtype=np.int64))
    stream = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, block])
    schema, table = name or (None, None)
    return pa.RecordBatch.from_arrays(
        [pa.array([schema], pa.utf8()), pa.array([table], pa.utf8()), stream], schema=STREAMS
    )


def _write(sink: pa.NativeFile, batches: list[pa.RecordBatch]) -> None:
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
