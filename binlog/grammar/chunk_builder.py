"""Chunk builder: gathers transactions with their rows, and closes them as chunks.

A chunk is full when its rows hold about `bytes_max` bytes, at `rows_max` rows or at `headers_max` headers;
its owner may close it at any time. Rows count as they are kept, not as they are logged: a few bytes of an
event may be a SET of a thousand characters. An event whose rows hold more than a chunk may is read in parts,
after all of it was verified. A transaction that is open when its
chunk is closed continues in the next chunk. Its part up to there is a *fragment*: a header of its own with
the transaction's commit time, GTID and beginning, the ordinals of its rows, and the end of the last event
read as its end.

Only rows of selected tables get ordinals: rows events of other tables are not opened. Ordinals are therefore
stable as long as the selection does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from canal_group.binlog.columns.columns import Losses, TableSchema
from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.native.accumulator import Accumulator
from canal_group.binlog.native.fast_path import FastPath
from canal_group.binlog.native.images import ROW_BYTES_MAX
from canal_group.merge.values.chunk import (
    STATEMENTS,
    Chunk,
    StatementSource,
    TableName,
    TableRows,
)
from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.header import HEADER, Headers, gtid_text
from canal_group.merge.values.marks.mark import MARK_SOURCE, mark_statement
from canal_group.merge.values.rows.moments import filtered


@dataclass(frozen=True, slots=True)
class Limits:
    """When a chunk is full, and which statements are too long."""

    #: bytes that rows hold
    bytes_max: int
    #: rows of selected tables
    rows_max: int
    #: characters of the longest statement that is read; of a longer one only the names in it are known
    statement_chars_max: int
    #: headers, the only cost of a transaction without a selected row
    headers_max: int = 8_192
    #: bytes that one row may hold
    row_bytes_max: int = ROW_BYTES_MAX


#: for reading a binlog without a shard: searches, and files that a command shows
SEARCH_LIMITS: Final = Limits(bytes_max=4 << 20, rows_max=32_768, statement_chars_max=1 << 20)

#: bytes that a column costs a chunk beside its values: Arrow's objects, for both images
COLUMN_BYTES: Final = 1_024
#: columns of a chunk that are not counted: a chunk of a few rows would count as a large one
COLUMNS_FREE: Final = 128

#: name, table map and columns of a table; columns, because a lookup may answer differently for one table map
_Key: TypeAlias = tuple[TableName, bytes, tuple[bytes, ...]]


@dataclass(slots=True)
class _OpenChunk:
    names: dict[str, int] = field(default_factory=dict)
    #: columns of all tables
    columns: int = 0
    tables: dict[_Key, tuple[TableSchema, RowsBuilder]] = field(default_factory=dict)
    statements: list[dict[str, Any]] = field(default_factory=list)
    #: table and kind of each statement in the source
    statement_sources: list[StatementSource] = field(default_factory=list)
    #: by header: definitions of tables
    ddls: dict[int, DdlMark] = field(default_factory=dict)
    #: rows that were rolled back: header, first ordinal, ordinal after the last one
    undone: list[tuple[int, int, int]] = field(default_factory=list)

    def column_bytes(self, table: TableSchema) -> int:
        """Count the columns of another table, and return the bytes that they add to the chunk."""
        counted = max(self.columns, COLUMNS_FREE)
        self.columns += len(table.map.columns)
        return max(0, self.columns - counted) * COLUMN_BYTES

    def without_undone(self, rows: Any, headers: Headers) -> Any:
        """Return a table's rows without those that were rolled back, and no longer count those."""
        if not self.undone:
            return rows
        header, ordinal = (rows.column(each).to_numpy() for each in ("_header", "_row"))
        dropped = np.zeros(len(header), bool)
        for index, begin, end in self.undone:
            undone = (header == index) & (ordinal >= begin) & (ordinal < end)
            headers["rows"][index] -= np.count_nonzero(undone & ~dropped)
            dropped |= undone
        return filtered(rows, ~dropped)


class ChunkBuilder:
    """Gathers headers and rows of one shard's stream."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        #: what was lost or changed in decoding since the beginning
        self.losses = Losses()
        #: counts, headers and the open transaction; shared with the fast path
        self.accumulator = Accumulator(limits.bytes_max, limits.rows_max, limits.headers_max)
        #: reads the usual events
        self.fast_path = FastPath(self.accumulator)
        self._chunk = _OpenChunk()
        #: tables of the previous chunk: the next chunk is expected to have about as many rows of each
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
        """Ordinal of the open transaction's next row; 0 outside a transaction."""
        return self.accumulator.row if self.accumulator.is_open else 0

    @property
    def gtid(self) -> str:
        """GTID of the open transaction, as the server prints it; empty: the transaction has no GTID."""
        accumulator = self._opened()
        return gtid_text(list(self._chunk.names)[accumulator.source], accumulator.number)

    @property
    def handed_over(self) -> bool:
        """Whether rows of the open transaction were handed over in earlier chunks."""
        return self.accumulator.is_open and self.accumulator.was_cut

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
            file: binlog file that it is in.
            begin_offset: where its first event begins.
            commit_us: commit time.
            gtid_source: source of its GTID; empty without.
            gtid_number: number within the source; 0 without.
            skip: how many of its first rows were handed over before. Its first header then lacks the BEGIN
                flag, which the fragments with those rows had.
        """
        assert not self.accumulator.is_open, "a transaction is open"
        self.accumulator.begin(
            self._name(file), begin_offset, commit_us, self._name(gtid_source), gtid_number, skip
        )

    def add_rows(
        self,
        table: TableSchema,
        version: bytes,
        event_type: int,
        body: bytes,
        post_header_size: int,
        rest_at: int = 0,
    ) -> int:
        """Add a rows event of a selected table, or its rows up to a full chunk, to the open transaction.

        Args:
            table: the table, as its table map describes it.
            version: bytes that are equal only for equal table maps.
            event_type: type of the rows event.
            body: the event without header and checksum.
            post_header_size: as the format description says.
            rest_at: what the call before returned for the event; 0 at first.

        Returns:
            Where the unread rows begin, a byte of the body; 0: all were read.

        Raises:
            UnsupportedEvent, CorruptEvent: see `RowsBuilder.add`; nothing was added.
        """
        accumulator = self._opened()
        key = (table.name, version, table.described)
        entry, column_bytes = self._chunk.tables.get(key), 0
        if entry is None:
            column_bytes = self._chunk.column_bytes(table)
            entry = self._chunk.tables[key] = (table, RowsBuilder(table, self.losses))
            entry[1].row_bytes_max = self.limits.row_bytes_max
            last = self._last.get(key)
            if last is not None:
                entry[1].expect_as_many(last[1])
        builder = entry[1]
        skip = max(0, accumulator.skip - accumulator.row)
        count = builder.add(
            event_type,
            body,
            post_header_size=post_header_size,
            header=len(accumulator),
            row_begin=accumulator.row,
            skip=skip,
            held_max=max(0, accumulator.bytes_max - accumulator.bytes),
            rest_at=rest_at,
        )
        accumulator.add(count, max(0, count - skip), builder.held + column_bytes)
        self.fast_path.gather(body, version, builder)
        return builder.rest_at

    def add_statement(self, statement: Mapping[str, Any], source: StatementSource) -> None:
        """Add a statement to the open transaction; it takes one ordinal, like a row.

        Args:
            statement: the columns of `STATEMENTS` from `schema` on.
            source: its table and kind in the source.
        """
        accumulator = self._opened()
        ordinal = accumulator.row
        is_new = ordinal >= accumulator.skip
        if is_new:
            self._chunk.statements.append({"_header": len(accumulator), "_row": ordinal, **statement})
            self._chunk.statement_sources.append(source)
        accumulator.add(1, int(is_new), len(statement["sql"]))

    def add_mark(self, sql: str) -> None:
        """Add the mark of an event that is left out to the open transaction; it takes one ordinal.

        Args:
            sql: see `canal_group.merge.values.marks.mark`.
        """
        self.add_statement(mark_statement(sql), MARK_SOURCE)

    def undo(self, since: int) -> bool:
        """Leave out rows of the open transaction that were rolled back; they keep their ordinals.

        Args:
            since: ordinal of the first one.

        Returns:
            False, and nothing was changed, if some of them were handed over before.
        """
        accumulator = self._opened()
        if since == accumulator.row or accumulator.row < accumulator.skip:
            return True  # they were left out when they were read first
        if since < accumulator.row_begin:
            return False
        self._chunk.undone.append((len(accumulator), since, accumulator.row))
        return True

    def mark_ddl(self, mark: DdlMark | None) -> None:
        """Declare the open transaction a change of definitions.

        Args:
            mark: its table and statement; None: it concerns no table.
        """
        accumulator = self._opened()
        accumulator.mark_ddl()
        if mark is not None:
            self._chunk.ddls[len(accumulator)] = mark

    def end(self, end_offset: int) -> None:
        """Close the open transaction at the end of its last event."""
        self._opened().end_header(end_offset, last=True)

    def discard(self) -> bool:
        """Remove the open transaction with its rows, as if it had not begun.

        Returns:
            False, and nothing was changed, if rows of it were handed over before.
        """
        if not self._take_back():
            return False
        self.accumulator.discard()
        return True

    def restart(self) -> bool:
        """Remove the content of the open transaction, which stays open.

        Returns:
            False, and nothing was changed, if rows of it were handed over before.
        """
        if not self._take_back():
            return False
        self.accumulator.restart()
        return True

    def pass_handed_over(self) -> None:
        """Go on after the rows of the open transaction that were handed over before, without reading them."""
        accumulator = self._opened()
        accumulator.add(max(0, accumulator.skip - accumulator.row), 0, 0)

    def _take_back(self) -> bool:
        accumulator = self._opened()
        if accumulator.was_cut:
            return False
        header = len(accumulator)
        for _, builder in self._chunk.tables.values():
            builder.discard(header)
        statements = [each for each in self._chunk.statements if each["_header"] != header]
        # Those of the open transaction are the last.
        self._chunk.statements, self._chunk.statement_sources = (
            statements,
            self._chunk.statement_sources[: len(statements)],
        )
        self._chunk.ddls.pop(header, None)
        self._chunk.undone = [each for each in self._chunk.undone if each[0] != header]
        return True

    def close(self, end_offset: int) -> Chunk | None:
        """Return the gathered transactions as a chunk and begin the next one; None if nothing was gathered.

        An open transaction that has rows is split here.

        Args:
            end_offset: end of the last event read, which becomes the end of an open transaction's fragment.
        """
        accumulator, chunk = self.accumulator, self._chunk
        if accumulator.is_open and accumulator.has_rows:
            accumulator.end_header(end_offset, last=False)
        if not len(accumulator):
            return None
        headers = np.frombuffer(bytearray(accumulator.take()), dtype=HEADER)
        self._chunk, self._last = _OpenChunk(), chunk.tables
        self.fast_path.begin_chunk()
        names = tuple(chunk.names)
        if accumulator.is_open:
            accumulator.rename(self._name(names[accumulator.file]), self._name(names[accumulator.source]))
        statements = None
        if chunk.statements:
            statements = pa.RecordBatch.from_pylist(chunk.statements, schema=STATEMENTS)
        tables = [
            TableRows(
                table.name,
                chunk.without_undone(builder.finish(), headers),
                TableName(table.map.schema, table.map.table),
                table.special,
                table.lineage,
            )
            for table, builder in chunk.tables.values()
        ]
        grown = sum(builder.grown for _, builder in chunk.tables.values())
        if grown:
            headers["bytes"] += headers["bytes"] * grown // headers["bytes"].sum()
        return Chunk(
            headers=headers,
            names=names,
            tables=tuple(table for table in tables if table.rows.num_rows),
            statements=statements,
            statement_sources=tuple(chunk.statement_sources),
            ddls=chunk.ddls,
        )

    def _opened(self) -> Accumulator:
        assert self.accumulator.is_open, "no transaction is open"
        return self.accumulator

    def _name(self, text: str) -> int:
        return self._chunk.names.setdefault(text, len(self._chunk.names))
