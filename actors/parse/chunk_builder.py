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
from typing import Any

import numpy as np
import pyarrow as pa

from actors.parse.columns import Losses, TableSchema
from actors.parse.native.lane import RowsLane
from actors.parse.rows import RowsBuilder
from merge.chunk import STATEMENTS, Chunk, TableName, TableRows
from merge.header import HEADER, Flag


@dataclass(frozen=True, slots=True)
class Limits:
    """When a chunk is full."""

    #: bytes of rows events
    bytes_max: int = 1 << 20
    #: rows of selected tables
    rows_max: int = 16_384
    #: headers; transactions without a selected row cost nothing else
    headers_max: int = 8_192


@dataclass(slots=True)
class _Open:
    """A transaction that has begun and not ended."""

    file: str
    begin_offset: int
    commit_us: int
    gtid_source: str
    gtid_number: int
    #: rows that were handed over before this stream began: not handed over again
    skip: int
    #: ordinal of the next row
    row: int = 0
    #: of the fragment that is being gathered
    row_begin: int = 0
    rows: int = 0
    bytes: int = 0
    begun: bool = False
    ddl: bool = False
    statements: bool = False


@dataclass(slots=True)
class _Gathered:
    """The chunk that is being gathered."""

    headers: list[tuple[Any, ...]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    tables: dict[tuple[TableName, bytes], tuple[TableSchema, RowsBuilder]] = field(default_factory=dict)
    statements: list[tuple[int, int, str, str, str, str]] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


class ChunkBuilder:
    """Gathers headers and rows of one shard's stream."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        #: values that had no place in their type, since the beginning
        self.losses = Losses()
        #: a short way for rows events; what it took is counted by `settle`
        self.lane = RowsLane()
        self._chunk = _Gathered()
        self._open: _Open | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._open is not None

    @property
    def row(self) -> int:
        """Ordinal that the open transaction's next row gets; 0 outside a transaction."""
        self.settle()
        return self._open.row if self._open else 0

    @property
    def full(self) -> bool:
        """Whether the chunk should be closed."""
        if self.lane.is_open:  # it takes nothing that makes a chunk full
            return False
        chunk, limits = self._chunk, self.limits
        return (
            chunk.bytes >= limits.bytes_max
            or chunk.rows >= limits.rows_max
            or len(chunk.headers) >= limits.headers_max
        )

    def settle(self) -> None:
        """Shut the lane and count what it took."""
        rows, size = self.lane.leave()
        if rows:
            assert self._open is not None, "rows come in a transaction"
            self._open.row += rows
            self._count(self._open, rows, size)

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
        assert self._open is None, "a transaction is open"
        self._open = _Open(file, begin_offset, commit_us, gtid_source, gtid_number, skip, begun=skip > 0)
        self._open.row_begin = skip

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
        open_ = self._opened()
        key = (table.name, version)
        found = self._chunk.tables.get(key)
        if found is None:
            found = self._chunk.tables[key] = (table, RowsBuilder(table, self.losses))
        skip = max(0, open_.skip - open_.row)
        count = found[1].add(
            event_type,
            body,
            post_header_size=post_header_size,
            header=len(self._chunk.headers),
            row_begin=open_.row,
            skip=skip,
        )
        kept = max(0, count - skip)
        open_.row += count
        self._count(open_, kept, len(body) if kept else 0)
        if open_.row >= open_.skip:
            chunk, limits = self._chunk, self.limits
            self.lane.prepare(
                body,
                version,
                found[1],
                len(chunk.headers),
                open_.row,
                limits.rows_max - chunk.rows,
                limits.bytes_max - chunk.bytes,
            )

    def add_statement(self, name: TableName, op: str, sql: str) -> None:
        """Add a statement to the open transaction; it takes one ordinal, like a row."""
        open_ = self._opened()
        ordinal, open_.row = open_.row, open_.row + 1
        if ordinal < open_.skip:
            return
        self._chunk.statements.append((len(self._chunk.headers), ordinal, name.schema, name.table, op, sql))
        open_.statements = True
        self._count(open_, 1, len(sql))

    def mark_ddl(self) -> None:
        """Declare the open transaction a change of definitions."""
        self._opened().ddl = True

    def end(self, end_offset: int) -> None:
        """Close the open transaction at the end of its last event."""
        self._close_fragment(end_offset, last=True)
        self._open = None

    def discard(self) -> bool:
        """Take the open transaction back, rows and all, as if it had not begun.

        Returns:
            False, and nothing was changed, if rows of it were handed over before.
        """
        open_ = self._opened()
        if open_.begun:
            return False
        header = len(self._chunk.headers)
        for _, builder in self._chunk.tables.values():
            builder.discard(header)
        self._chunk.statements = [each for each in self._chunk.statements if each[0] != header]
        self._count(open_, -open_.rows, -open_.bytes)
        self._open = None
        return True

    def close(self, end_offset: int) -> Chunk | None:
        """Return what was gathered as a chunk and begin the next one; None if there is nothing.

        An open transaction that has rows is cut here.

        Args:
            end_offset: end of the last event read; where an open transaction's fragment ends.
        """
        self.settle()
        if self._open is not None and self._open.rows:
            self._close_fragment(end_offset, last=False)
        chunk = self._chunk
        if not chunk.headers:
            return None
        self._chunk = _Gathered()
        statements = None
        if chunk.statements:
            columns = zip(*chunk.statements, strict=True)
            statements = pa.RecordBatch.from_arrays(
                [pa.array(c, type=f.type) for c, f in zip(columns, STATEMENTS, strict=True)],
                schema=STATEMENTS,
            )
        tables = [TableRows(table.name, builder.finish()) for table, builder in chunk.tables.values()]
        return Chunk(
            headers=np.array(chunk.headers, dtype=HEADER),
            names=tuple(chunk.names),
            tables=tuple(table for table in tables if table.rows.num_rows),
            statements=statements,
        )

    def _opened(self) -> _Open:
        self.settle()
        assert self._open is not None, "no transaction is open"
        return self._open

    def _count(self, open_: _Open, rows: int, size: int) -> None:
        open_.rows += rows
        open_.bytes += size
        self._chunk.rows += rows
        self._chunk.bytes += size

    def _name(self, text: str) -> int:
        return self._chunk.names.setdefault(text, len(self._chunk.names))

    def _close_fragment(self, end_offset: int, *, last: bool) -> None:
        open_ = self._opened()
        flags = (Flag(0) if open_.begun else Flag.BEGIN) | (Flag.END if last else Flag(0))
        flags |= Flag.DDL if open_.ddl else Flag(0)
        # A selection that was narrowed since can leave fewer rows than were handed over before.
        row_end = max(open_.row, open_.row_begin)
        self._chunk.headers.append(
            (
                0,  # sequence, shard: set by the ring and the group
                0,
                int(flags),
                open_.rows,
                open_.row_begin,
                row_end,
                max(1, open_.bytes),
                open_.commit_us,
                0,  # key_us: set by the shard
                self._name(open_.file),
                open_.begin_offset,
                end_offset,
                self._name(open_.gtid_source),
                open_.gtid_number,
            )
        )
        open_.begun, open_.row_begin, open_.rows, open_.bytes = True, row_end, 0, 0
