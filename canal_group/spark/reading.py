"""The executors' end of a query: reads one part of a span straight from the gateway, piece by piece.

A span is cut into pieces of about `PIECE_ROWS` rows, between transactions, and a part is a run of them. While
Spark takes the rows of one piece the next one is on its way: the gateway assembles, this process reshapes and
the JVM makes its rows at the same time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from canal_group.client import Batch
from canal_group.pages import keep_pages
from canal_group.spark.options import Options
from canal_group.spark.shapes import CHANGE, added_columns
from merge.errors import RetryableError, RolledBack, ServerUnavailable, UnknownBatch
from merge.position import GroupPosition

#: rows of a piece: what is in memory of an executor is twice that, and a transaction's rows at least
PIECE_ROWS = 65_536
#: how long one look for a span that has to be read again lasts, seconds
LOOK_S = 3.0


@dataclass(frozen=True)
class SpanPart(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """A contiguous run of a span; carries what any executor needs to read it."""

    options: Options = field(repr=False)
    #: fencing epoch of the driver's consumer
    epoch: int
    batch_id: int
    #: the span as JSON texts of its positions
    start: str
    end: str
    #: which pieces of how many
    pieces: range
    count: int


def parts(options: Options, epoch: int, span: Batch, partitions: int) -> list[SpanPart]:
    """Return a span as so many parts, of about as many rows each.

    Args:
        options: of the query.
        epoch: fencing epoch of the consumer that the span is outstanding for.
        span: what is read.
        partitions: how many.
    """
    each = max(1, -(-span.rows // (partitions * PIECE_ROWS)))
    count = each * partitions
    positions = span.start.to_json(), span.end.to_json()
    return [
        SpanPart(options, epoch, span.batch_id, *positions, range(first, first + each), count)
        for first in range(0, count, each)
    ]


def read_part(part: SpanPart, shape: Callable[[pa.Table], pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of a part in merged order, in the shape that is wanted.

    A gateway or a group that was restarted meanwhile has the same rows under another batch id.

    Args:
        part: what to read.
        shape: makes of what the gateway has what the query wants; called on a thread of its own.

    Raises:
        FencedError: the query has another driver by now.
        RolledBack: the span is done with.
        RetryableError: no server answered for `retrySeconds`.
    """
    _settle()
    source = _Pieces(part)
    pool = ThreadPoolExecutor(1, thread_name_prefix="piece")
    try:
        coming = pool.submit(source.shaped, part.pieces[0], shape)
        for following in part.pieces[1:]:
            rows = coming.result()
            coming = pool.submit(source.shaped, following, shape)
            yield rows
        yield coming.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        source.close()


@cache
def _settle() -> None:
    """Make a worker process one that rows pass through: once, it serves many tasks.

    Freed memory stays with it, and what it has imported is not looked through for garbage after every task.
    """
    keep_pages()
    gc.freeze()


class _Pieces:
    """Reads pieces of a span, under whatever batch id it has by now."""

    def __init__(self, part: SpanPart) -> None:
        self._part = part
        self._options = part.options
        self._batch_id = part.batch_id
        self._door = part.options.door()

    def close(self) -> None:
        self._door.close()

    def shaped(self, piece: int, shape: Callable[[pa.Table], pa.Table]) -> pa.Table:
        return shape(self._read(piece))

    def _read(self, piece: int) -> pa.Table:
        deadline_s = time.monotonic() + self._options.retry_s
        while True:
            try:
                return self._rows(piece)
            except (RolledBack, UnknownBatch):
                self._batch_id = self._planned_again(deadline_s)
            except RetryableError as error:
                _pause(error, deadline_s)

    def _rows(self, piece: int) -> pa.Table:
        options = self._options
        named = {
            "client_id": options.client,
            "epoch": self._part.epoch,
            "batch_id": self._batch_id,
            "part": [piece, self._part.count],
        }
        if options.format == "typed":
            columns = [name for name in options.columns if name not in CHANGE.names]
            added = added_columns(options.columns)
            return self._door.rows(
                **named,
                format="typed",
                table=options.table,
                before=options.preimages,
                columns=columns if options.columns else None,
                added=added,
            )
        return self._door.rows(**named, format="envelope")

    def _planned_again(self, deadline_s: float) -> int:
        """Return the batch id that the span has by now."""
        part = self._part
        while True:
            try:
                value = self._door.ask(
                    "span",
                    wait_s=LOOK_S,
                    client_id=self._options.client,
                    epoch=part.epoch,
                    start=part.start,
                    until=part.end,
                    rows_max=1,
                    bytes_max=1,
                    timeout_s=LOOK_S,
                )
            except RetryableError as error:
                _pause(error, deadline_s)
                continue
            if value is not None:
                return int(value["batch_id"])
            late = ServerUnavailable(
                f"What ends at row {GroupPosition.from_json(part.end).sequence} was not there again within"
                f" {self._options.retry_s:g} seconds.",
                hint="Look at `canal-group status`: it names the shard that the group waits for.",
                retry_after_s=0.0,
            )
            _pause(late, deadline_s)


def _pause(error: RetryableError, deadline_s: float) -> None:
    if time.monotonic() + error.retry_after_s > deadline_s:
        raise error
    time.sleep(error.retry_after_s)
