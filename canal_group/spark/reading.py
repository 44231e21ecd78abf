"""The executors' end of a query: reads one part of an offset range straight from the gateway, piece by piece.

An offset range is cut into pieces of about `PIECE_ROWS` rows, between transactions, and a part is a run of
them. While Spark takes the rows of one piece the next one is on its way: the gateway assembles, this process
reshapes and the JVM makes its rows at the same time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from canal_group.client.batch import Batch
from canal_group.client.range_rows import RangeRows
from canal_group.malloc_tuning import tune_malloc
from canal_group.spark.limit import COLUMNS, within
from canal_group.spark.options import Options
from canal_group.spark.shapes import CHANGE, added_columns
from merge.values.position import GroupPosition

#: rows of a piece: what is in memory of an executor is twice that, and a transaction's rows at least
PIECE_ROWS = 65_536


@dataclass(frozen=True)
class RangePart(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """A contiguous run of an offset range; carries what any executor needs to read it."""

    options: Options = field(repr=False)
    #: fencing epoch of the driver's consumer
    epoch: int
    batch_id: int
    #: the offset range as JSON texts of its positions
    start: str
    end: str
    #: which transactions it has in which order, see `Batch.order`
    order: str
    #: which pieces of how many
    pieces: range
    count: int
    #: JSON of a position that rows of the offset range stand behind, which are not wanted; empty: none do
    limit: str = ""


def parts(options: Options, epoch: int, offset_range: Batch, partitions: int) -> list[RangePart]:
    """Return an offset range as so many parts, of about as many rows each.

    Args:
        options: of the query.
        epoch: fencing epoch of the consumer that the offset range is outstanding for.
        offset_range: what is read.
        partitions: how many.
    """
    each = max(1, -(-offset_range.rows // (partitions * PIECE_ROWS)))
    count = each * partitions
    positions = offset_range.start.to_json(), offset_range.end.to_json()
    return [
        RangePart(
            options,
            epoch,
            offset_range.batch_id,
            *positions,
            offset_range.order,
            range(first, first + each),
            count,
        )
        for first in range(0, count, each)
    ]


def read_part(part: RangePart, shape: Callable[[pa.Table], pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of a part in merged order, in the shape that is wanted.

    A gateway or a group that was restarted meanwhile has the same rows under another batch id.

    Args:
        part: what to read.
        shape: makes of what the gateway has what the query wants; called on a thread of its own.

    Raises:
        FencedError: the query has another driver by now.
        RolledBack: the offset range is done with.
        RetryableError: no server answered for `retrySeconds`.
    """
    _reconcile()
    source, kept = _rows_of(part), _kept_of(part)
    pool = ThreadPoolExecutor(1, thread_name_prefix="piece")

    def shaped(piece: int) -> pa.Table:
        return shape(kept(source.read(piece, part.count)))

    try:
        coming = pool.submit(shaped, part.pieces[0])
        for following in part.pieces[1:]:
            rows = coming.result()
            coming = pool.submit(shaped, following)
            yield rows
        yield coming.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        source.gateway_client.close()


@cache
def _reconcile() -> None:
    """Make a worker process one that rows pass through: once, it serves many tasks.

    Freed memory stays with it, and what it has imported is not looked through for garbage after every task.
    """
    tune_malloc()
    gc.freeze()


def _rows_of(part: RangePart) -> RangeRows:
    options = part.options
    wanted: dict[str, Any] = {"format": "envelope"}
    if options.format == "typed":
        before = "updates" if options.preimages else False
        wanted = {"format": "typed", "table": options.table, "before": before}
        if options.columns:
            wanted["columns"] = [name for name in options.columns if name not in CHANGE.names]
        added = added_columns(options.columns)
        wanted["added"] = sorted({*added, *COLUMNS}) if part.limit else added
    where = part.batch_id, part.start, part.end, part.order
    return RangeRows(options.gateway_client(), options.client, part.epoch, *where, wanted, options.retry_s)


def _kept_of(part: RangePart) -> Callable[[pa.Table], pa.Table]:
    """Return what takes the rows of a part that are wanted."""
    if not part.limit:
        return lambda rows: rows
    servers = {name: place.server for name, place in GroupPosition.from_json(part.end).shards.items()}
    return partial(within, limit=GroupPosition.from_json(part.limit), servers=servers)
