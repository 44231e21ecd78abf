"""Assembly: the rows of a batch, fetched from several shards, in merged order.

A shard hands out its rows table by table; the order of transactions over all shards stands in the batch's
headers. Each row change is found a place:

    rank   which header of the batch it belongs to: its (shard, ring sequence), looked up
    seq    its number in the merged stream: the row changes of all headers before it, and those of its own
           transaction before it. Changes that a filter dropped are counted: seq does not depend on who asks

`typed` and `envelope` build what is delivered from it, the one for one table, the other for all of them.

Rules: no Python per row or per header; every row of the input has its header in the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from merge.chunk import TableName
from merge.header import UUID_CHARS, Flag, Headers

Int64s: TypeAlias = NDArray[np.int64]

#: what headers say of a row
HEADER_COLUMNS = ("shard", "seq", "commit_us", "key_us", "late", "gtid", "file", "pos", "row")


@dataclass(frozen=True, slots=True)
class ShardTable:
    """Row changes of one table in one schema version, as one shard's ring hands them out, in its order."""

    name: TableName
    #: a chunk's table (see `merge.chunk`) with `_sequence` int64, the header's ring sequence, for `_header`;
    #: without `before` where no row's is wanted
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class ShardRows:
    """What one shard contributes to a batch."""

    #: a table may appear more than once
    tables: tuple[ShardTable, ...] = ()
    #: `merge.chunk.STATEMENTS` with `_sequence` int64 for `_header`; None: no statements
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
class Placed:
    """Places of n row changes, as two (n,) arrays of int64."""

    #: index into the batch's `order`
    rank: Int64s
    #: number in the merged stream, unique
    seq: Int64s

    def __len__(self) -> int:
        return len(self.seq)

    def take(self, indexes: Int64s) -> Placed:
        """Return the places at `indexes`, (m,) int64."""
        return Placed(self.rank[indexes], self.seq[indexes])


@dataclass(frozen=True, slots=True)
class Places:
    """Finds the place of each row change of one batch.

    Built once for a batch, in time linear in its headers.
    """

    batch: BatchRows
    #: by shard: its first ring sequence, and the rank of each of its headers
    _ranks: list[tuple[int, Int64s]] = field(init=False, repr=False)
    #: by rank: what added to a row's ordinal gives its seq
    _seq_of_row_zero: Int64s = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = self.batch.order
        object.__setattr__(
            self, "_ranks", [_ranks_of(order, shard) for shard in range(len(self.batch.shards))]
        )
        changes = order["row_end"] - order["row_begin"]
        before = np.cumsum(changes) - changes
        object.__setattr__(self, "_seq_of_row_zero", self.batch.first_sequence + before - order["row_begin"])

    def place(self, shard: int, rows: pa.Table) -> Placed:
        """Return the place of each row of a `ShardTable` or of a shard's statements.

        Args:
            shard: shard_index.
            rows: (n,) with `_sequence` and `_row`.
        """
        first, ranks = self._ranks[shard]
        indexes = _int64(rows, "_sequence") - first
        assert not len(indexes) or 0 <= indexes.min() <= indexes.max() < len(ranks), (
            "a row without its header"
        )
        rank = ranks[indexes]
        return Placed(rank, self._seq_of_row_zero[rank] + _int64(rows, "_row"))

    def columns(self, placed: Placed, names: Collection[str] = HEADER_COLUMNS) -> dict[str, Any]:
        """Return what the headers say of each row, as (n,) Arrow arrays by name.

        `seq commit_us key_us pos row` int64, `late` bool, `gtid file` utf8, `shard` dictionary of utf8.

        Args:
            placed: in merged order. What is the same for all rows of a header is found once for the header.
            names: which of them are wanted.
        """
        firsts = np.flatnonzero(np.diff(placed.rank, prepend=-1))
        counts = np.diff(firsts, append=len(placed))
        ranks = placed.rank[firsts]
        headers = self.batch.order[ranks]
        make: dict[str, Callable[[], Any]] = {
            "shard": lambda: pa.DictionaryArray.from_arrays(
                np.repeat(headers["shard"].astype(np.int32), counts),
                pa.array(self.batch.shard_names, pa.utf8()),
            ),
            "seq": lambda: pa.array(placed.seq),
            "commit_us": lambda: pa.array(np.repeat(headers["commit_us"], counts)),
            "key_us": lambda: pa.array(np.repeat(headers["key_us"], counts)),
            "late": lambda: pa.array(np.repeat((headers["flags"] & Flag.LATE) != 0, counts)),
            "gtid": lambda: _gtids(headers, self.batch.names).take(
                pa.array(np.repeat(np.arange(len(ranks), dtype=np.int32), counts))
            ),
            "file": lambda: pa.array(self.batch.names, pa.utf8()).take(
                pa.array(np.repeat(headers["file"], counts))
            ),
            "pos": lambda: pa.array(np.repeat(headers["begin_offset"], counts)),
            "row": lambda: pa.array(placed.seq - np.repeat(self._seq_of_row_zero[ranks], counts)),
        }
        return {name: made() for name, made in make.items() if name in names}


def images(rows: pa.Table, side: str) -> Any:
    """Return the images `before` or `after` of a `ShardTable`; nulls where the shard left them out."""
    if side in rows.schema.names:
        return rows.column(side)
    return pa.chunked_array([pa.nulls(len(rows), rows.schema.field("after").type)])


def in_merged_order(parts: Sequence[Placed]) -> tuple[Placed, Int64s]:
    """Return the places of all parts in merged order, and the indexes that `take` the same from their rows.

    Args:
        parts: places in the order in which their rows are concatenated.
    """
    together = Placed(*(_joined(getattr(part, name) for part in parts) for name in ("rank", "seq")))
    indexes = _sorting(together.seq)
    return together.take(indexes), indexes


def _sorting(seq: Int64s) -> Int64s:
    """Return the indexes that sort (n,) unique numbers.

    A transaction's rows stand side by side in what its shard hands out, so their numbers grow by one: runs
    are sorted by their first number, not rows.
    """
    firsts = np.flatnonzero(np.diff(seq, prepend=seq[:1] - 2) != 1)
    lengths = np.diff(firsts, append=len(seq))
    places = np.argsort(seq[firsts], kind="stable")
    firsts, lengths = firsts[places], lengths[places]
    return np.repeat(firsts - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(seq))


def _ranks_of(order: Headers, shard: int) -> tuple[int, Int64s]:
    ranks = np.flatnonzero(order["shard"] == shard)
    sequences = order["sequence"][ranks]
    assert (np.diff(sequences) == 1).all(), "a shard's sequences have a gap"
    return int(sequences[0]) if len(ranks) else 0, ranks


def _gtids(headers: Headers, names: Sequence[str]) -> Any:
    known = headers["gtid_number"] != 0
    prefixes = [f"{name}{':' if len(name) >= UUID_CHARS else '-'}" for name in names]
    sources = pa.array(prefixes, pa.utf8()).take(pa.array(np.where(known, headers["gtid_source"], 0)))
    numbers = pa.array(headers["gtid_number"]).cast(pa.utf8())
    return pc.if_else(pa.array(known), pc.binary_join_element_wise(sources, numbers, ""), "")


def _int64(rows: pa.Table, name: str) -> Int64s:
    values: Int64s = rows.column(name).to_numpy()
    return values


def _joined(arrays: Iterable[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])
