"""Rows sent from a ring to the gateway: a range of a shard's sequences as Arrow IPC streams.

A payload is an IPC stream with the rows of that range, of one table in one schema version. Its rows are as in
a chunk, except that

- `_sequence` (int64, the ring's) replaces `_header`;
- `before` is left out if no row's image before the change is wanted.

A payload is written into shared memory, or sent. All payloads of a range are sent as the rows of one table,
`STREAMS`, each as a message of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.actors.store.ring import Stored
from canal_group.merge.rows.assemble import ShardRows, ShardTable
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.values.chunk import ABSENT, Op, TableName, names_of
from canal_group.merge.values.marks.mark import is_mark

#: slices that are smaller on average are combined into one batch: a quiet source makes chunks of single
#: transactions, and each record batch costs as much as many rows
SMALL_ROWS = 1_024

STREAMS = pa.schema(
    [
        ("schema", pa.utf8()),  # null: statements
        ("table", pa.utf8()),
        ("rows", pa.large_binary()),  # the IPC stream
    ]
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows and columns of a range are wanted."""

    #: the only table, without statements; None: every table that passes `table_filter`, and its statements
    table: TableName | None = None
    #: whether images before the change are wanted for all rows; False: for deletes only
    before: bool = True
    #: names of the wanted columns; None: all
    columns: tuple[str, ...] | None = None
    #: a reader's filter, see `canal_group.merge.rows.table_filter`, by the names that consumers know; empty:
    #: every table
    table_filter: str = ""
    #: whether only the columns of the wanted tables are: payloads have no rows, and there are no statements
    schema_only: bool = False

    def matcher(self) -> Callable[[TableName], bool]:
        """Return a function that tells whether a table, or a statement on it, is wanted.

        Raises:
            ConfigError: the filter cannot be used.
        """
        if self.table is not None:
            return lambda name: name == self.table
        return TableFilter.of_reader(self.table_filter).matches


class Payload(NamedTuple):
    """Rows of one table in one schema version; or statements, without a name."""

    name: TableName | None
    batches: list[pa.RecordBatch]

    def size(self) -> int:
        """Return how many bytes its stream has."""
        counter = pa.MockOutputStream()
        self._write(counter)
        size: int = counter.size()
        return size

    def write(self, block: pa.Buffer) -> None:
        """Write its stream into a block of `size` bytes."""
        self._write(pa.FixedSizeBufferWriter(block))

    def _write(self, sink: pa.NativeFile) -> None:
        with pa.ipc.new_stream(sink, self.batches[0].schema) as writer:
            for batch in self.batches:
                writer.write_batch(batch)


def gather(stored: Iterable[Stored], selection: Selection) -> Iterator[Payload]:
    """Yield the wanted rows of consecutive parts of chunks.

    Raises:
        ConfigError: the filter cannot be used.
    """
    matches = selection.matcher()
    tables: dict[TableName, list[tuple[pa.Schema, list[_Slice]]]] = {}
    statements: list[_Slice] = []
    for part in stored:
        for table in part.chunk.tables:
            if matches(table.name):
                rows = _slice(table.rows, part)
                if len(rows.sequence):
                    _version(tables.setdefault(table.name, []), table.rows.schema).append(rows)
        if part.chunk.statements is not None and selection.table is None:
            part_statements = _statements_on(_slice(part.chunk.statements, part), matches)
            if len(part_statements.sequence):
                statements.append(part_statements)
    for name, slices in ((name, slices) for name, versions in tables.items() for _, slices in versions):
        if selection.schema_only:
            yield Payload(name, [_numbered(slices[0].rows.slice(0, 0), slices[0].sequence[:0])])
        else:
            yield Payload(name, _sequenced(_thinned(slices, selection)))
    if statements and not selection.schema_only:
        yield Payload(None, _sequenced(statements))


def message(payload: Payload) -> pa.RecordBatch:
    """Return a payload as one row of `STREAMS`."""
    # Allocate the exact size: a growing sink would copy its bytes again and again.
    block = pa.allocate_buffer(payload.size())
    payload.write(block)
    offsets = pa.py_buffer(np.array([0, block.size], dtype=np.int64))
    stream = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, block])
    schema, table = payload.name or (None, None)
    return pa.RecordBatch.from_arrays(
        [pa.array([schema], pa.utf8()), pa.array([table], pa.utf8()), stream], schema=STREAMS
    )


def read_message(message: pa.RecordBatch) -> tuple[TableName | None, pa.Buffer]:
    """Return the table that a row of `STREAMS` belongs to (None: statements), and its IPC stream."""
    schema, table, stream = (message.column(name)[0] for name in STREAMS.names)
    name = TableName(schema.as_py(), table.as_py()) if schema.is_valid else None
    return name, stream.as_buffer()


def opened(streams: Iterable[tuple[TableName | None, pa.Buffer]]) -> ShardRows:
    """Return the rows of payloads, given as pairs of table and IPC stream, without copying them."""
    tables: list[ShardTable] = []
    statements: pa.Table | None = None
    for name, stream in streams:
        with pa.ipc.open_stream(stream) as reader:
            rows = reader.read_all()
        if name is not None:
            tables.append(ShardTable(name, rows))
        else:
            statements = rows
    return ShardRows(tuple(tables), statements)


class _Slice(NamedTuple):
    """Rows of a chunk's table, and for each row its header's sequence in the ring."""

    rows: pa.RecordBatch
    sequence: NDArray[np.int64]


def _version(versions: list[tuple[pa.Schema, list[_Slice]]], schema: pa.Schema) -> list[_Slice]:
    """Return the slices of a table's version; add a new one. Schemas are compared faster than hashed."""
    for each, slices in versions:
        if each.equals(schema, check_metadata=True):
            return slices
    versions.append((schema, []))
    return versions[-1][1]


def _slice(rows: pa.RecordBatch, part: Stored) -> _Slice:
    header = rows.column("_header").to_numpy()
    begin, end = np.searchsorted(header, [part.header_begin, part.header_end])
    sequence = header[begin:end].astype(np.int64) + (part.first_sequence - part.header_begin)
    return _Slice(rows.slice(begin, end - begin), sequence)


def _statements_on(statements: _Slice, matches: Callable[[TableName], bool]) -> _Slice:
    """Return the statements on wanted tables, and the marks.

    They are few, so names are compared one by one.
    """
    texts = statements.rows.select(["schema", "table", "tables", "sql"]).to_pylist()
    matching = [any(map(matches, names_of(each))) or is_mark(each["sql"]) for each in texts]
    if all(matching):
        return statements
    return _Slice(statements.rows.filter(pa.array(matching, pa.bool_())), statements.sequence[matching])


def _thinned(slices: list[_Slice], selection: Selection) -> list[_Slice]:
    """Return the rows of a table, without their images before the change if those are not wanted."""
    if selection.before:
        needed = any(rows.column("before").null_count < rows.num_rows for rows, _ in slices)
    else:
        needed = any((rows.column("_op").to_numpy() == Op.DELETE).any() for rows, _ in slices)
    slices = _narrowed(slices, selection.columns)
    if needed:
        return slices
    needless = [name for name in ("before", ABSENT["before"]) if name in slices[0].rows.schema.names]
    return [_Slice(rows.drop_columns(needless), sequence) for rows, sequence in slices]


def _narrowed(slices: list[_Slice], columns: tuple[str, ...] | None) -> list[_Slice]:
    """Return the rows of a table with the wanted columns only.

    If images lack columns, keep all columns: the bitmap of absent columns refers to them by index.
    """
    names = slices[0].rows.schema.names
    if columns is None or any(name in names for name in ABSENT.values()):
        return slices
    narrow: list[_Slice] = []
    for rows, sequence in slices:
        taken = rows
        for side in ("before", "after"):
            if side in names:
                taken = taken.set_column(names.index(side), side, _struct_of(rows.column(side), columns))
        narrow.append(_Slice(taken, sequence))
    return narrow


def _struct_of(image: pa.StructArray, columns: tuple[str, ...]) -> pa.StructArray:
    indexes = [index for index, each in enumerate(image.type) if each.name in columns]
    fields = [image.type[index] for index in indexes]
    # `field` respects the offset of a slice, but not the validity of the struct itself.
    arrays = [image.field(index) for index in indexes]
    mask = image.is_null() if image.null_count else None
    if not fields:
        return pa.nulls(len(image), pa.struct([]))
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _sequenced(slices: list[_Slice]) -> list[pa.RecordBatch]:
    """Return the rows with sequences instead of header indexes."""
    if len(slices) * SMALL_ROWS > sum(len(sequence) for _, sequence in slices):
        together = pa.Table.from_batches([rows for rows, _ in slices]).combine_chunks()
        slices = [_Slice(together.to_batches()[0], np.concatenate([sequence for _, sequence in slices]))]
    return [_numbered(rows, sequence) for rows, sequence in slices]


def _numbered(rows: pa.RecordBatch, sequence: NDArray[np.int64]) -> pa.RecordBatch:
    return rows.set_column(0, pa.field("_sequence", pa.int64(), nullable=False), pa.array(sequence))
