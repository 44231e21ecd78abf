"""Assembly: the rows of a batch, fetched from several shards, in merged order.

A shard hands out its rows table by table; the order of transactions over all shards stands in the batch's
headers. Each row change gets two numbers:

    rank   the index of its header in the batch: its (shard, ring sequence), looked up
    seq    its number in the merged stream: the row changes of all headers before it, and those of its own
           transaction before it. Changes that a filter dropped are counted: seq is the same for all readers

A transaction's rows are adjacent in the rows that its shard hands out: runs of rows are numbered, runs are
put in order, and rows are copied run by run. `typed` and `envelope` build the delivered tables from it, the
one for one table, the other for all of them.

Rules: no Python per row or per header; every row of the input has its header in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.rows.native.runs import find
from canal_group.merge.rows.ranges import Int64s, ascending, repeated
from canal_group.merge.values.chunk import Op, TableName
from canal_group.merge.values.header import UUID_CHARS, Flag, Headers

#: what is taken from the ordinal of a row of a page: no two rows of a shard have one file, offset and ordinal
PAGE_ROWS: Final = 1 << 40
#: the columns of a row that headers have
HEADER_COLUMNS = ("shard", "seq", "commit_us", "key_us", "late", "gtid", "file", "pos", "row")
_NONE = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class ShardTable:
    """Row changes of one table in one schema version, in the order of one shard's ring."""

    name: TableName
    #: a chunk's table (see `canal_group.merge.values.chunk`) with `_sequence` int64, the header's ring
    #: sequence, for `_header`; without `before` if no reader needs it
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class ShardRows:
    """The rows and statements of one shard in a batch."""

    #: a table may appear more than once
    tables: tuple[ShardTable, ...] = ()
    #: `canal_group.merge.values.chunk.STATEMENTS` with `_sequence` int64 for `_header`; None: no statements
    statements: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class BatchRows:
    """A batch, or a contiguous run of one: its headers in merged order, and the rows they announce."""

    #: (h,) HEADER in merged order, `shard` and `key_us` final, `file` and `gtid_source` indexes into `names`.
    #: Each shard's sequences grow by one.
    order: Headers
    #: one per shard, by shard_index
    shards: tuple[ShardRows, ...]
    #: names of the shards, by shard_index
    shard_names: tuple[str, ...]
    #: binlog files and GTID sources of all shards
    names: tuple[str, ...]
    #: number of the batch's first row change in the merged stream
    first_sequence: int


@dataclass(frozen=True, slots=True)
class Runs:
    """r ranges of rows that follow each other both in their tables and in the merged stream; each (r,) int64.

    All rows of a run have one header.
    """

    #: index of its first row among all rows that are put together
    first: Int64s
    #: rows, at least one
    length: Int64s
    #: index of its header into the batch's `order`
    rank: Int64s
    #: number of its first row in the merged stream
    seq: Int64s

    @classmethod
    def in_merged_order(cls, parts: Sequence[Runs]) -> Runs:
        """Return all runs of several parts in merged order."""
        order = np.argsort(_joined(part.seq for part in parts), kind="stable")
        names = ("first", "length", "rank", "seq")
        return cls(*(_joined(getattr(part, name) for part in parts)[order] for name in names))


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """Numbers the row changes of one batch.

    Built once for a batch, in time linear in its headers.
    """

    batch: BatchRows
    #: by shard: its first ring sequence, and the rank of each of its headers
    _ranks: list[tuple[int, Int64s]] = field(init=False, repr=False)
    #: by rank: the number that a row's ordinal is added to for its seq
    _seq_of_row_zero: Int64s = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = self.batch.order
        object.__setattr__(
            self, "_ranks", [_ranks_of(order, shard) for shard in range(len(self.batch.shards))]
        )
        changes = order["row_end"] - order["row_begin"]
        before = np.cumsum(changes) - changes
        object.__setattr__(self, "_seq_of_row_zero", self.batch.first_sequence + before - order["row_begin"])

    def runs(self, shard: int, rows: pa.Table, base: int, deleted_base: int | None = None) -> Runs:
        """Return the runs of a `ShardTable` or of a shard's statements, as its ring has them.

        Args:
            shard: shard_index.
            rows: (n,) with `_sequence` and `_row`.
            base: index of the first row among all that are put together.
            deleted_base: the same for deletes, whose rows have other images, which come after; None: they are
                among the others.
        """
        first_sequence, ranks = self._ranks[shard]
        numbers, parts, begin = np.empty((4, len(rows)), np.int64), [], 0
        for chunk in rows.to_batches():
            deletes = _NONE if deleted_base is None else chunk.column("_op").to_numpy() == Op.DELETE
            count = find(
                chunk.column("_sequence").to_numpy(),
                chunk.column("_row").to_numpy(),
                deletes,
                first_sequence,
                ranks,
                self._seq_of_row_zero,
                base + begin,
                (deleted_base or 0) + begin,
                numbers,
            )
            parts.append(numbers[:, :count].copy())
            begin += len(chunk)
        return Runs(*np.concatenate([np.empty((4, 0), np.int64), *parts], axis=1))

    def delivered(self, shard: int, statements: pa.Table) -> pa.Table:
        """Return a shard's statements without those that are withheld; see `Flag.WITHHELD`."""
        first_sequence, ranks = self._ranks[shard]
        rank = ranks[statements.column("_sequence").to_numpy() - first_sequence]
        withheld = (self.batch.order["flags"][rank] & Flag.WITHHELD) != 0
        return statements.filter(pa.array(~withheld)) if withheld.any() else statements

    def columns(self, runs: Runs, names: Collection[str] = HEADER_COLUMNS) -> dict[str, Any]:
        """Return the columns of each row that its header has, as (n,) Arrow arrays by name.

        `seq commit_us key_us pos row` int64, `late` bool, `gtid file` utf8, `shard` dictionary of utf8.

        Args:
            runs: in merged order. A value that all rows of a header share is computed once for the run.
            names: the columns to return.
        """
        headers, counts = self.batch.order[runs.rank], runs.length
        make: dict[str, Callable[[], Any]] = {
            "shard": lambda: pa.DictionaryArray.from_arrays(
                np.repeat(headers["shard"].astype(np.int32), counts),
                pa.array(self.batch.shard_names, pa.utf8()),
                safe=False,
            ),
            "seq": lambda: pa.array(ascending(runs.seq, counts)),
            "commit_us": lambda: pa.array(np.repeat(headers["commit_us"], counts)),
            "key_us": lambda: pa.array(np.repeat(headers["key_us"], counts)),
            "late": lambda: pa.array(np.repeat((headers["flags"] & Flag.LATE) != 0, counts)),
            "gtid": lambda: repeated(gtids(headers, self.batch.names), counts),
            "file": lambda: repeated(
                pa.array(self.batch.names, pa.utf8()).take(pa.array(headers["file"])), counts
            ),
            "pos": lambda: pa.array(np.repeat(headers["begin_offset"], counts)),
            "row": lambda: pa.array(ascending(self.ordinals(runs.seq, runs.rank), counts)),
        }
        return {name: column() for name, column in make.items() if name in names}

    def ordinals(self, seq: Int64s, rank: Int64s) -> Int64s:
        """Return the ordinals of row changes in their transactions, given their numbers and headers.

        Those of pages are below 0: pages come before the transaction at their offset.
        """
        ordinals: Int64s = seq - self._seq_of_row_zero[rank]
        pages = (self.batch.order["flags"][rank] & Flag.PAGE) != 0
        return np.where(pages, ordinals - PAGE_ROWS, ordinals)

    @property
    def bounds(self) -> Int64s:
        """The number of each header's first row change, and that after the last one's; (h + 1,)."""
        order = self.batch.order
        changes = np.cumsum(order["row_end"] - order["row_begin"], dtype=np.int64)
        return np.concatenate(([self.batch.first_sequence], self.batch.first_sequence + changes))


def images(rows: pa.Table, side: str) -> Any:
    """Return the images `before` or `after` of a `ShardTable`; nulls where the shard left them out."""
    if side in rows.schema.names:
        return rows.column(side)
    return pa.chunked_array([pa.nulls(len(rows), rows.schema.field("after").type)])


def _ranks_of(order: Headers, shard: int) -> tuple[int, Int64s]:
    ranks = np.flatnonzero(order["shard"] == shard)
    sequences = order["sequence"][ranks]
    assert (np.diff(sequences) == 1).all(), "a shard's sequences have a gap"
    return int(sequences[0]) if len(ranks) else 0, ranks


def gtids(headers: Headers, names: Sequence[str]) -> Any:
    """Return the GTID of each header's transaction as (h,) utf8; empty where it has none."""
    has_gtid = headers["gtid_number"] != 0
    prefixes = [f"{name}{':' if len(name) >= UUID_CHARS else '-'}" for name in names]
    sources = pa.array(prefixes, pa.utf8()).take(pa.array(np.where(has_gtid, headers["gtid_source"], 0)))
    numbers = pa.array(headers["gtid_number"]).cast(pa.utf8())
    return pc.if_else(pa.array(has_gtid), pc.binary_join_element_wise(sources, numbers, ""), "")


def _joined(arrays: Iterable[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])
