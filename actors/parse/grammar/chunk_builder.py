"""Chunk builder: gathers transactions with their rows, and closes them as chunks.

A chunk closes at about `bytes_max` bytes of rows events or at `rows_max` rows, and whenever its owner asks.
It
never holds a part of a rows event. A transaction that is open when its chunk is full goes on in the next one:
its part so far is a *fragment*, a header of its own that has the transaction's commit time, GTID and
beginning, the ordinals of its rows, and as its end the end of the last event read.

Only the rows of selected tables count: rows events of other tables are not opened, so their rows have no
ordinals. Ordinals are therefore stable as long as the selection is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from actors.parse.columns.columns import Losses, TableSchema
from actors.parse.columns.rows import RowsBuilder
from actors.parse.native.accumulator import Accumulator
from actors.parse.native.fast_path import FastPath
from merge.values.chunk import STATEMENTS, Chunk, TableName, TableRows
from merge.values.header import HEADER


@dataclass(frozen=True, slots=True)
class Limits:
    """When a chunk is full."""

    #: bytes of rows events
    bytes_max: int = 4 << 20
    #: rows of selected tables
    rows_max: int = 32_768
    #: headers; transactions without a selected row cost nothing else
    headers_max: int = 8_192


#: name, table map and types of a table: of one table map, a lookup may say two things
_Key: TypeAlias = tuple[TableName, bytes, tuple[bytes, ...]]


@dataclass(slots=True)
class _Gathered:
    """The chunk that is being gathered, but for its headers."""

    names: dict[str, int] = field(default_factory=dict)
    tables: dict[_Key, tuple[TableSchema, RowsBuilder]] = field(default_factory=dict)
    statements: list[tuple[int, int, str, str, str, str]] = field(default_factory=list)


class ChunkBuilder:
    """Gathers headers and rows of one shard's stream."""

    def __init__(self, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        #: what could not be handed on as it was, since the beginning
        self.losses = Losses()
        #: what is counted and followed, by the fast path as well
        self.accumulator = Accumulator(limits.bytes_max, limits.rows_max, limits.headers_max)
        #: a short way for the usual events
        self.fast_path = FastPath(self.accumulator)
        self._chunk = _Gathered()
        #: tables of the chunk before: the next one has about as many rows of each
        self._last: dict[_Key, tuple[TableSchema, RowsBuilder]] = {}

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self.accumulator.is_open

    @property
    def gathers(self) -> bool:
        """Whether anything was gathered since the last chunk was closed."""
        return bool(len(self.accumulator)) or self.accumulator.is_open

    @property
    def row(self) -> int:
        """Ordinal that the open transaction's next row gets; 0 outside a transaction."""
        return self.accumulator.row if self.accumulator.is_open else 0

    @property
    def full(self) -> bool:
        """Whether the chunk should be closed."""
        return self.accumulator.full

    def begin(
        self,
        *,
        file: str,
        begin_offset: int,
        commit_us: int,
        gtid_source: str,
        gtid_number: int,
        skip: int = 0,
    ) -> None:
        """Open a transaction.

        Args:
            file: binlog file it stands in.
            begin_offset: where its first event begins.
            commit_us: commit time.
            gtid_source: source of its GTID; empty without.
            gtid_number: number within the source; 0 without.
            skip: its first rows that were handed over before. Its first header then lacks the BEGIN flag: the
                fragments that had those rows came with it.
        """
        assert not self.accumulator.is_open, "a transaction is open"
        self.accumulator.begin(
            self._name(file), begin_offset, commit_us, self._name(gtid_source), gtid_number, skip
        )

    def add_rows(
        self, table: TableSchema, version: bytes, event_type: int, body: bytes, post_header_size: int
    ) -> None:
        """Add a rows event of a selected table to the open transaction.

        Args:
            table: the table, as its table map describes it.
            version: bytes that are equal only for equal table maps.
            event_type: type of the rows event.
            body: the event without header and checksum.
            post_header_size: as the format description says.

        Raises:
            UnsupportedEvent, CorruptEvent: see `RowsBuilder.add`; nothing was added.
        """
        accumulator = self._opened()
        key = (table.name, version, table.types)
        found = self._chunk.tables.get(key)
        if found is None:
            found = self._chunk.tables[key] = (table, RowsBuilder(table, self.losses))
            last = self._last.get(key)
            if last is not None:
                found[1].expect_as_many(last[1])
        skip = max(0, accumulator.skip - accumulator.row)
        count = found[1].add(
            event_type,
            body,
            post_header_size=post_header_size,
            header=len(accumulator),
            row_begin=accumulator.row,
            skip=skip,
        )
        accumulator.add(count, max(0, count - skip), len(body))
        self.fast_path.gather(body, version, found[1])

    def add_statement(self, name: TableName, op: str, sql: str) -> None:
        """Add a statement to the open transaction; it takes one ordinal, like a row."""
        accumulator = self._opened()
        ordinal = accumulator.row
        kept = ordinal >= accumulator.skip
        if kept:
            self._chunk.statements.append((len(accumulator), ordinal, name.schema, name.table, op, sql))
        accumulator.add(1, int(kept), len(sql))

    def mark_ddl(self) -> None:
        """Declare the open transaction a change of definitions."""
        self._opened().mark_ddl()

    def end(self, end_offset: int) -> None:
        """Close the open transaction at the end of its last event."""
        self._opened().end_header(end_offset, last=True)

    def discard(self) -> bool:
        """Take the open transaction back, rows and all, as if it had not begun.

        Returns:
            False, and nothing was changed, if rows of it were handed over before.
        """
        accumulator = self._opened()
        if accumulator.was_cut:
            return False
        header = len(accumulator)
        for _, builder in self._chunk.tables.values():
            builder.discard(header)
        self._chunk.statements = [each for each in self._chunk.statements if each[0] != header]
        accumulator.discard()
        return True

    def close(self, end_offset: int) -> Chunk | None:
        """Return what was gathered as a chunk and begin the next one; None if there is nothing.

        An open transaction that has rows is cut here.

        Args:
            end_offset: end of the last event read; where an open transaction's fragment ends.
        """
        accumulator, chunk = self.accumulator, self._chunk
        if accumulator.is_open and accumulator.has_rows:
            accumulator.end_header(end_offset, last=False)
        if not len(accumulator):
            return None
        headers = np.frombuffer(bytearray(accumulator.take()), dtype=HEADER)
        self._chunk, self._last = _Gathered(), chunk.tables
        self.fast_path.begin_chunk()
        names = tuple(chunk.names)
        if accumulator.is_open:
            accumulator.rename(self._name(names[accumulator.file]), self._name(names[accumulator.source]))
        statements = None
        if chunk.statements:
            columns = zip(*chunk.statements, strict=True)
            statements = pa.RecordBatch.from_arrays(
                [pa.array(c, type=f.type) for c, f in zip(columns, STATEMENTS, strict=True)],
                schema=STATEMENTS,
            )
        tables = [TableRows(table.name, builder.finish()) for table, builder in chunk.tables.values()]
        return Chunk(
            headers=headers,
            names=names,
            tables=tuple(table for table in tables if table.rows.num_rows),
            statements=statements,
        )

    def _opened(self) -> Accumulator:
        assert self.accumulator.is_open, "no transaction is open"
        return self.accumulator

    def _name(self, text: str) -> int:
        return self._chunk.names.setdefault(text, len(self._chunk.names))
