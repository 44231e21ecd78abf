"""The executors' side of a query: read one part of an offset range from the gateway, piece by piece.

An offset range is cut between transactions into pieces of about `PIECE_ROWS` rows; a part is a run of pieces.
While Spark takes the rows of one piece, the next one is prefetched: the gateway assembles rows, this process
reshapes them and the JVM makes its own rows at the same time.
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
from canal_group.merge.values.position import GroupPosition
from canal_group.spark.limit import COLUMNS, within
from canal_group.spark.options import Options
from canal_group.spark.shapes import CHANGE, added_columns

#: rows of a piece; an executor holds twice as many in memory, and at least the rows of one transaction
PIECE_ROWS = 65_536


@dataclass(frozen=True)
class RangePart(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """A contiguous run of an offset range, with everything that an executor needs to read it."""

    options: Options = field(repr=False)
    #: fencing epoch of the driver's consumer
    epoch: int
    batch_id: int
    #: the offset range as JSON texts of its positions
    start: str
    end: str
    #: digest of its transactions and their order, see `Batch.order`
    order: str
    #: the pieces of this part, and the number of pieces of the offset range
    pieces: range
    count: int
    #: JSON of a position after which rows of the offset range are left out; empty: none are
    limit: str = ""


def parts(options: Options, epoch: int, offset_range: Batch, partitions: int) -> list[RangePart]:
    """Divide an offset range into `partitions` parts with about equally many rows.

    Args:
        options: the query's options.
        epoch: fencing epoch of the consumer that holds the offset range.
        offset_range: the offset range to read.
        partitions: the number of parts.
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
    """Yield the rows of a part in merged order, converted by `shape`.

    A gateway or a group that was restarted in the meantime has the same rows under another batch id.

    Args:
        part: the part to read.
        shape: converts the gateway's rows to the query's schema; called on a thread of its own.

    Raises:
        FencedError: another driver of the query took over.
        RolledBack: the offset range is finished.
        RetryableError: no server answered within `retrySeconds`.
    """
    _prepare_worker()
    source, keep = _rows_of(part), _kept_of(part)
    pool = ThreadPoolExecutor(1, thread_name_prefix="piece")

    def shaped(piece: int) -> pa.Table:
        return shape(keep(source.read(piece, part.count)))

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
def _prepare_worker() -> None:
    """Tune a worker process once; it serves many tasks.

    Freed memory stays with the process, and the garbage collector skips what was imported.
    """
    tune_malloc()
    gc.freeze()


def _rows_of(part: RangePart) -> RangeRows:
    options = part.options
    selection: dict[str, Any] = {"format": "envelope"}
    if options.format == "typed":
        before = "updates" if options.preimages else False
        selection = {"format": "typed", "table": options.table, "before": before}
        if options.columns:
            selection["columns"] = [name for name in options.columns if name not in CHANGE.names]
        added = added_columns(options.columns)
        selection["added"] = sorted({*added, *COLUMNS}) if part.limit else added
    where = part.batch_id, part.start, part.end, part.order
    return RangeRows(options.gateway_client(), options.client, part.epoch, *where, selection, options.retry_s)


def _kept_of(part: RangePart) -> Callable[[pa.Table], pa.Table]:
    """Return a function that keeps the rows of a part up to its limit."""
    if not part.limit:
        return lambda rows: rows
    servers = {name: position.server for name, position in GroupPosition.from_json(part.end).shards.items()}
    return partial(within, limit=GroupPosition.from_json(part.limit), servers=servers)
