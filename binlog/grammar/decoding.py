"""Decoding: what is decoded of a stream, and how."""

from __future__ import annotations

from dataclasses import dataclass

from canal_group.binlog.columns.table_lookup import TableLookup
from canal_group.binlog.grammar.binlog_decoder import BinlogDecoder
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder, Limits
from canal_group.binlog.grammar.skips import Skips
from canal_group.binlog.grammar.tables import Select
from canal_group.merge.values.position import Position


@dataclass(frozen=True, slots=True)
class Decoding:
    """What is decoded, and how; it makes a decoder for each stream."""

    #: which tables are decoded and under which name; None leaves a table out. Called once per table and
    #: schema version, and for each definition statement (with an empty table name if it concerns no table)
    select: Select
    #: when a chunk is full
    limits: Limits
    #: answers what table maps do not say about columns; None: nothing does
    lookup: TableLookup | None = None
    #: whether statements that cannot be followed are passed on as text, or refused; see
    #: `canal_group.binlog.grammar.statements`
    verbatim: bool = False
    #: whether commit times are those of the servers that committed first, as far as the source writes them,
    #: and transactions without GTID name these servers; see `origin_source`
    original_times: bool = False
    #: events that operators have left out; None: no events
    skips: Skips | None = None

    def decoder(self, shard: str, start: Position, checksum: int) -> tuple[BinlogDecoder, ChunkBuilder]:
        """Return a decoder, and what gathers what it reads.

        Args:
            shard: see `BinlogDecoder`.
            start: see `BinlogDecoder`.
            checksum: see `BinlogDecoder`.
        """
        builder = ChunkBuilder(self.limits)
        builder.fast_path.original = self.original_times
        decoder = BinlogDecoder(
            shard,
            start,
            self.select,
            builder,
            checksum=checksum,
            lookup=self.lookup,
            verbatim=self.verbatim,
            skips=self.skips,
        )
        return decoder, builder
