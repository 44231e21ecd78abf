"""Rows of a span for workers elsewhere, which read its parts straight from the gateway."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from canal_group.client import Batch, Consumer
from canal_group.door import GatewayDoor
from merge.errors import RetryableError, RolledBack, ServerUnavailable, UnknownBatch

#: how long one look for a span that has to be read again lasts, seconds
LOOK_S = 3.0


@dataclass(frozen=True)
class SpanRows:
    """A span that is outstanding for a consumer, which keeps it so; travels to workers."""

    door: GatewayDoor = field(repr=False)
    client_id: str
    #: fencing epoch of the consumer
    epoch: int
    batch_id: int
    #: the span, as JSON texts of its positions
    start: str
    end: str
    #: "schema.table", after routes; None: all tables, as the envelope
    table: str | None
    #: whether a table's rows have what they replaced, in `_before`
    before: bool
    #: how long a gateway or a shard may be away, seconds
    retry_s: float

    @classmethod
    def of(cls, consumer: Consumer, span: Batch, table: str | None, *, before: bool) -> SpanRows:
        """Return what workers need to read a span of a consumer."""
        return cls(
            consumer.door,
            consumer.client_id,
            consumer.epoch,
            span.batch_id,
            span.start.to_json(),
            span.end.to_json(),
            table,
            before,
            consumer.retry_s,
        )

    def read(self, index: int, count: int) -> pa.Table:
        """Return the rows of one of `count` contiguous parts, in merged order.

        A gateway or a group that was restarted meanwhile has the same rows under another batch id.

        Raises:
            FencedError: the client id has another consumer by now.
            RolledBack: the span is done with.
            RetryableError: no server answered for `retry_s`.
        """
        deadline_s = time.monotonic() + self.retry_s
        span = self
        while True:
            try:
                return span._rows(index, count)
            except (RolledBack, UnknownBatch):
                span = replace(self, batch_id=self._planned_again(deadline_s))
            except RetryableError as error:
                _pause(error, deadline_s)

    def _rows(self, index: int, count: int) -> pa.Table:
        named: dict[str, Any] = {
            "client_id": self.client_id,
            "epoch": self.epoch,
            "batch_id": self.batch_id,
            "part": [index, count],
        }
        if self.table is None:
            return self.door.rows(**named, format="envelope")
        return self.door.rows(**named, format="typed", table=self.table, before=self.before)

    def _planned_again(self, deadline_s: float) -> int:
        """Return the batch id that the span has by now."""
        named = {"client_id": self.client_id, "epoch": self.epoch, "start": self.start, "until": self.end}
        while True:
            try:
                value = self.door.ask(
                    "span", wait_s=LOOK_S, timeout_s=LOOK_S, rows_max=1, bytes_max=1, **named
                )
            except RetryableError as error:
                _pause(error, deadline_s)
                continue
            if value is not None:
                return int(value["batch_id"])
            late = ServerUnavailable(
                f"The span behind {self.start} was not there again within {self.retry_s:g} seconds.",
                hint="Look at `canal-group status`: it names the shard that the group waits for.",
                retry_after_s=0.0,
            )
            _pause(late, deadline_s)


def _pause(error: RetryableError, deadline_s: float) -> None:
    if time.monotonic() + error.retry_after_s > deadline_s:
        raise error
    time.sleep(error.retry_after_s)
