"""Rows of an offset range for workers in other processes, which read its parts from the gateway."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from canal_group.client.batch import Batch
from canal_group.client.consumer import Consumer
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import GetRange
from canal_group.merge.errors import RetryableError, RolledBack, ServerUnavailable, UnknownBatch
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import whole

#: how long one request for an offset range that has to be planned again waits, seconds
LOOK_S = 3.0


@dataclass
class RangeRows:
    """An outstanding offset range of a consumer, for workers; picklable. The consumer must not close."""

    gateway_client: GatewayClient = field(repr=False)
    client_id: str
    #: fencing epoch of the consumer
    epoch: int
    #: the id that the offset range had last at the gateway
    batch_id: int
    #: the offset range, as JSON texts of its positions
    start: str
    end: str
    #: digest of its transactions and their order, see `Batch.order`
    order: str
    #: what to read of the rows: `format`, and for "typed" `table`, `before`, `columns`, `added`
    selection: Mapping[str, Any]
    #: how long a gateway or a shard may be unavailable, seconds
    retry_s: float | None

    @classmethod
    def of(cls, consumer: Consumer, offset_range: Batch, selection: Mapping[str, Any]) -> RangeRows:
        """Return a reader of an offset range of a consumer, which can be sent to workers."""
        return cls(
            consumer.gateway_client,
            consumer.client_id,
            consumer.epoch,
            offset_range.batch_id,
            offset_range.start.to_json(),
            offset_range.end.to_json(),
            offset_range.order,
            selection,
            consumer.retry_s,
        )

    def read(self, index: int, count: int) -> pa.Table:
        """Return the rows of one of `count` contiguous parts, in merged order.

        A gateway or a group that was restarted in the meantime has the same rows under another batch id.

        Raises:
            FencedError: another consumer took over the client id.
            RolledBack: the offset range is finished; or the order of its rows has changed, and parts that
                were read before do not match this one.
            RetryableError: no server answered within `retry_s`.
        """
        deadline_s = math.inf if self.retry_s is None else time.monotonic() + self.retry_s
        while True:
            batch_key = {"client_id": self.client_id, "epoch": self.epoch, "batch_id": self.batch_id}
            try:
                return self.gateway_client.rows(**batch_key, part=[index, count], **self.selection)
            except (RolledBack, UnknownBatch):
                self.batch_id = self._planned_again(deadline_s)
            except RetryableError as error:
                _pause(error, deadline_s)

    def _planned_again(self, deadline_s: float) -> int:
        """Return the batch id that the offset range has now."""
        start, end = GroupPosition.from_json(self.start), GroupPosition.from_json(self.end)
        again = GetRange(self.client_id, self.epoch, OffsetRange(start, end), LOOK_S)
        while True:
            try:
                planned = self.gateway_client.ask_for(again, _planned)
            except RetryableError as error:
                _pause(error, deadline_s)
                continue
            if planned is not None:
                order, batch_id = planned
                self._check_order(order)
                return batch_id
            late = ServerUnavailable(
                f"The offset range that ends at row {GroupPosition.from_json(self.end).sequence} was not"
                " available again in time.",
                hint="Run `canal-group status`: it names the shard that the group waits for.",
                retry_after_s=0.0,
            )
            _pause(late, deadline_s)

    def _check_order(self, order: str) -> None:
        if order != self.order:
            row = GroupPosition.from_json(self.end).sequence
            raise RolledBack(
                f"The order of the offset range that ends at row {row} has changed: another server of a"
                " source took over, whose commit times differ.",
                hint="Read all parts of the offset range again; a query does so when it is restarted.",
            )


def _planned(value: Mapping[str, Any] | None) -> tuple[str, int] | None:
    """Return the order and the batch id of an offset range from the gateway's answer; None if it has none."""
    return None if value is None else (value["order"], whole(value["batch_id"]))


def _pause(error: RetryableError, deadline_s: float) -> None:
    if time.monotonic() + error.retry_after_s > deadline_s:
        raise error
    time.sleep(error.retry_after_s)
