"""Ranges of rows, gathered from columns of several chunks in a given order.

Arrow's `take` looks at each row by itself, and copies the chunks into one first. The rows that shards hand
out are mostly adjacent in ranges: those are copied as a whole, by a compiled loop for each layout that
columns of tables have, and by `take` for any other. Ranges of lists and maps are ranges of their elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.merge.rows.native.runs import (
    copy_bits,
    copy_text,
    copy_values,
    fill_ascending,
    repeat_text,
    text_bytes,
)

Int64s: TypeAlias = NDArray[np.int64]

#: the largest offset of 32 bits
_TEXT_BYTES_MAX = (1 << 31) - 1


class Ranges:
    """Ranges of rows, in the order of the result.

    Args:
        first: (r,) int64: the first row of each range.
        length: (r,) int64: how many rows it has, at least one.
        No range reaches over the end of a chunk of a column that is gathered.
    """

    def __init__(self, first: Int64s, length: Int64s) -> None:
        self._first = first
        self._length = length
        self._count = int(length.sum())
        #: chunk and first row of each range, by the lengths of a column's chunks
        self._starts: dict[tuple[int, ...], tuple[Int64s, Int64s]] = {}
        self._indexes: Int64s | None = None

    def table(self, table: pa.Table) -> pa.Table:
        """Return the rows of all columns of a table."""
        table = table.unify_dictionaries()
        columns = [self.column(table.column(name)) for name in table.schema.names]
        return pa.table(columns, schema=table.schema)

    def column(self, column: pa.ChunkedArray) -> pa.Array:
        """Return the rows of a column whose chunks have one dictionary, if any."""
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        return self._array(chunks, column.type) if chunks else pa.array([], column.type)

    def _array(self, chunks: Sequence[pa.Array], kind: Any) -> pa.Array:
        if pa.types.is_dictionary(kind):
            indexes = self._array([chunk.indices for chunk in chunks], kind.index_type)
            return pa.DictionaryArray.from_arrays(
                indexes, chunks[0].dictionary, ordered=kind.ordered, safe=False
            )
        if pa.types.is_struct(kind):
            members = [
                self._array([chunk.field(index) for chunk in chunks], kind.field(index).type)
                for index in range(kind.num_fields)
            ]
            return pa.Array.from_buffers(kind, self._count, [self._validity(chunks)], children=members)
        return self._plain(chunks, kind)

    def _plain(self, chunks: Sequence[pa.Array], kind: Any) -> pa.Array:
        types = pa.types
        if types.is_boolean(kind):
            return self._of(kind, chunks, self._bits(chunks, 1))
        if types.is_string(kind) or types.is_binary(kind):
            return self._text(chunks, kind)
        if types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind):
            return self._of(kind, chunks, self._values(chunks, kind.bit_width // 8))
        if types.is_list(kind) or types.is_map(kind):
            return self._lists(chunks, kind)
        return self._gathered(chunks, kind)

    def _of(self, kind: Any, chunks: Sequence[pa.Array], *buffers: pa.Buffer) -> pa.Array:
        return pa.Array.from_buffers(kind, self._count, [self._validity(chunks), *buffers])

    def _validity(self, chunks: Sequence[pa.Array]) -> pa.Buffer | None:
        return self._bits(chunks, 0) if any(chunk.null_count for chunk in chunks) else None

    def _bits(self, chunks: Sequence[pa.Array], buffer: int) -> pa.Buffer:
        out = np.empty((self._count + 7) // 8, np.uint8)
        offsets = np.array([chunk.offset for chunk in chunks], np.int64)
        copy_bits(*self._where(chunks), _addresses(chunks, buffer, 0), offsets, out)
        return pa.py_buffer(out)

    def _values(self, chunks: Sequence[pa.Array], width: int) -> pa.Buffer:
        out = np.empty(self._count * width, np.uint8)
        copy_values(*self._where(chunks), _addresses(chunks, 1, width), width, out)
        return pa.py_buffer(out)

    def _text(self, chunks: Sequence[pa.Array], kind: Any) -> pa.Array:
        where, offsets = self._where(chunks), _addresses(chunks, 1, 4)
        size = text_bytes(*where, offsets)
        if size > _TEXT_BYTES_MAX:
            return self._gathered(chunks, kind)
        ends, data = np.empty(self._count + 1, np.int32), np.empty(size, np.uint8)
        copy_text(*where, offsets, _addresses(chunks, 2, 0), ends, data)
        return self._of(kind, chunks, pa.py_buffer(ends), pa.py_buffer(data))

    def _lists(self, chunks: Sequence[pa.Array], kind: Any) -> pa.Array:
        bounds = [
            np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :][: len(chunk) + 1] for chunk in chunks
        ]
        elements = [chunk.values for chunk in chunks]
        bases = np.cumsum([0, *map(len, elements)])
        begins, ends = (
            np.concatenate([base + each[rows] for base, each in zip(bases, bounds, strict=False)])
            for rows in (slice(None, -1), slice(1, None))
        )
        sizes = (ends - begins)[self._rows()]
        first, length = begins[self._first], ends[self._first + self._length - 1] - begins[self._first]
        some = length > 0
        taken = Ranges(first[some], length[some])._array(elements, elements[0].type)  # noqa: SLF001  its own
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        buffers = [self._validity(chunks), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, self._count, buffers, children=[taken])

    def _gathered(self, chunks: Sequence[pa.Array], kind: Any) -> pa.Array:
        if all(chunk.null_count == len(chunk) for chunk in chunks):
            return pa.nulls(self._count, kind)
        return pa.chunked_array(chunks, kind).take(pa.array(self._rows())).combine_chunks()

    def _rows(self) -> Int64s:
        if self._indexes is None:
            self._indexes = ascending(self._first, self._length)
        return self._indexes

    def _where(self, chunks: Sequence[pa.Array]) -> tuple[Int64s, Int64s, Int64s]:
        """Return the chunk of each range, its first row there, and its length."""
        key = tuple(map(len, chunks))
        start = self._starts.get(key)
        if start is None:
            lengths = np.array(key, np.int64)
            ends = lengths.cumsum()
            chunk = np.searchsorted(ends, self._first, side="right").astype(np.int64)
            begin = self._first - (ends - lengths)[chunk]
            assert (begin >= 0).all(), "a range begins before its column"
            assert (begin + self._length <= lengths[chunk]).all(), "a range ends after its chunk"
            start = self._starts[key] = chunk, begin
        return start[0], start[1], self._length


def ascending(first: Int64s, length: Int64s) -> Int64s:
    """Return the numbers of r ranges one after the other: `length` of them from `first` on, each (r,)."""
    out = np.empty(int(length.sum()), np.int64)
    fill_ascending(first, length, out)
    return out


def repeated(texts: pa.Array, counts: Int64s) -> pa.Array:
    """Return each of (r,) texts, none of which is null, repeated by (r,) `counts`."""
    if not len(texts):
        return texts
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]
    size = int((np.diff(ends).astype(np.int64) * counts).sum())
    assert size <= _TEXT_BYTES_MAX, "texts of 2 GiB and more in one batch"
    out_ends, out = np.empty(int(counts.sum()) + 1, np.int32), np.empty(size, np.uint8)
    values = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    repeat_text(counts, ends, values, out_ends, out)
    return pa.Array.from_buffers(texts.type, len(out_ends) - 1, [None, *map(pa.py_buffer, (out_ends, out))])


def _addresses(chunks: Sequence[pa.Array], buffer: int, width: int) -> Int64s:
    """Return the address of row 0 of each chunk in one of its buffers, whose values have `width` bytes."""
    buffers = [chunk.buffers()[buffer] for chunk in chunks]
    return np.array(
        [
            0 if memory is None else memory.address + chunk.offset * width
            for memory, chunk in zip(buffers, chunks, strict=True)
        ],
        np.int64,
    )
