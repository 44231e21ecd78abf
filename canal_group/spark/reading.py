"""The executors' end of a query: reads one part of a span straight from the gateway."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from canal_group.door import GatewayDoor
from canal_group.spark.options import Options
from merge.errors import RetryableError, RolledBack, ServerUnavailable, UnknownBatch
from merge.position import GroupPosition

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
    index: int
    count: int


def read_part(part: SpanPart) -> pa.Table:
    """Return the rows of a part, in merged order, as the gateway has them.

    A gateway or a group that was restarted meanwhile has the same rows under another batch id.

    Raises:
        FencedError: the query has another driver by now.
        RolledBack: the span is done with.
        RetryableError: no server answered for `retrySeconds`.
    """
    options, batch_id = part.options, part.batch_id
    door = options.door()
    deadline_s = time.monotonic() + options.retry_s
    try:
        while True:
            try:
                return _rows(door, part, batch_id)
            except (RolledBack, UnknownBatch):
                batch_id = _planned_again(door, part, deadline_s)
            except RetryableError as error:
                _pause(error, deadline_s)
    finally:
        door.close()


def _rows(door: GatewayDoor, part: SpanPart, batch_id: int) -> pa.Table:
    options = part.options
    named = {"client_id": options.client, "epoch": part.epoch, "batch_id": batch_id}
    run = {"part": [part.index, part.count]}
    if options.format == "typed":
        return door.rows(**named, **run, format="typed", table=options.table, before=options.preimages)
    return door.rows(**named, **run, format="envelope")


def _planned_again(door: GatewayDoor, part: SpanPart, deadline_s: float) -> int:
    """Return the batch id that the span has by now."""
    while True:
        try:
            value = door.ask(
                "span",
                wait_s=LOOK_S,
                client_id=part.options.client,
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
            f" {part.options.retry_s:g} seconds.",
            hint="Look at `canal-group status`: it names the shard that the group waits for.",
            retry_after_s=0.0,
        )
        _pause(late, deadline_s)


def _pause(error: RetryableError, deadline_s: float) -> None:
    if time.monotonic() + error.retry_after_s > deadline_s:
        raise error
    time.sleep(error.retry_after_s)
