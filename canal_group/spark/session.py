"""The driver's side of a query: plan offset ranges, and acknowledge those that are finished.

Spark's checkpoint is authoritative: when Spark requests an offset range, everything before it is in Spark's
commit log. So an offset range is acknowledged when the next one is requested. The gateway's cursor only
determines what rings and binlogs have to keep. After a restart, the ranges that Spark requests are requested
from the gateway unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from canal_group.client.batch import Batch
from canal_group.client.consumer import Consumer
from canal_group.client.range_rows import RangeRows
from canal_group.merge.errors import (
    AckOutOfOrder,
    CanalGroupError,
    NotSubscribed,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    UnknownBatch,
)
from canal_group.merge.values.offset_range import same_positions
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import whole
from canal_group.spark.options import CURSOR, LATEST, Options

#: how long one request for new rows waits, seconds; Spark asks again
LOOK_S = 0.5
#: interval at which the sources are asked where their binlogs end, for a query's progress, seconds
LATEST_EVERY_S = 5.0
#: stands for a limit
UNBOUNDED = 1 << 62


class Session:
    """The consumer of one query. It lives in the driver from the first request to the query's end.

    Args:
        options: the query's options.
        beside: client ids that read the same rows; this one waits while their cursors hold the rings.
    """

    def __init__(self, options: Options, beside: frozenset[str] = frozenset()) -> None:
        self._options = options
        self._beside = beside
        self._consumer: Consumer | None = None
        #: offset ranges that are planned and not finished, oldest first; at most two without failures
        self._planned: list[Batch] = []
        #: greatest key of a query that ends, microseconds since 1970 UTC; None if it does not end
        self._target_us: int | None = None
        #: whether the query is one of several runs, each beginning at the end of the run before
        self._is_run = False
        #: when the last offset range was planned, seconds
        self._planned_at_s = time.monotonic()
        #: where the sources' binlogs ended, and when they were asked, seconds
        self._latest: GroupPosition | None = None
        self._asked_at_s = float("-inf")

    def begin(self) -> GroupPosition:
        """Return where a query without a checkpoint begins.

        Raises:
            ConsumerActive: another consumer holds the client id; the message names it.
            ConfigError, PositionPurged, UsageError: as `locate`.
        """
        text = self._options.starting_position
        if text in ("", CURSOR):
            return self._connected().cursor
        if text.startswith("{"):
            return GroupPosition.from_json(text)
        return self.locate(text)

    def locate(self, where: str) -> GroupPosition:
        """Return where a start is in the sources' binlogs now; see `Consumer.locate`.

        Raises:
            ConfigError: it is in the future.
            PositionPurged: a source no longer has changes from that time.
            UsageError: a shard reads files, which have no such position.
        """
        return self._connected().locate(where)

    def end_here(self) -> None:
        """Plan nothing that is committed after now, by the sources' clocks."""
        self.end_at(self.now_us())
        self._is_run = True

    def end_at(self, moment_us: int) -> None:
        """Plan nothing after a time in the merged order."""
        self._target_us = moment_us

    def now_us(self) -> int:
        """Return a time after everything that is committed already, by the sources' clocks."""
        status = self._connected().status()
        skew_us = max((int(shard.get("skew_us", 0)) for shard in status["shards"]), default=0)
        return whole(status["now_us"]) + max(skew_us, 0)

    def latest(self) -> GroupPosition | None:
        """Return where the sources' binlogs ended recently, for display; None if unknown.

        Its sequence is that of the last planned offset range: rows after it are not counted.
        """
        if time.monotonic() > self._asked_at_s + LATEST_EVERY_S:
            self._asked_at_s = time.monotonic()
            with suppress(CanalGroupError):
                self._latest = self.locate(LATEST)
        if self._latest is None:
            return None
        return replace(self._latest, sequence=self._planned[-1].end.sequence if self._planned else 0)

    def next(self, start: GroupPosition, rows_max: int, bytes_max: int) -> GroupPosition:
        """Plan the next offset range and return its end; `start` if there are no rows."""
        batch = self.next_batch(start, rows_max, bytes_max)
        return start if batch is None else batch.end

    def next_batch(self, start: GroupPosition, rows_max: int, bytes_max: int) -> Batch | None:
        """Plan the next offset range; None if there are no rows (for a query that ends: no more at all)."""
        self.finish(start)
        deadline_s = time.monotonic() + self._options.retry_s
        while True:
            passed = self._passed()
            batch = self._offset_range(
                start,
                None,
                rows_max=rows_max,
                bytes_max=bytes_max,
                rows_min=self._rows_min(),
                key_us_max=self._target_us,
                may_be_empty=self._may_be_empty(passed=passed is not None),
                # If the watermark passed the query's end, all rows are available.
                timeout=LOOK_S if passed is None else 0.0,
            )
            if batch is not None:
                self._planned.append(batch)
                self._planned_at_s = time.monotonic()
                return batch
            # Shards that were opened again in the meantime, perhaps by this request, have reported nothing
            # yet.
            if self._target_us is None or (passed is not None and passed == self._passed()):
                return None
            self._check_time(deadline_s, "the rows that were committed before the query's end", start)

    def _may_be_empty(self, *, passed: bool) -> bool:
        """Return whether the next offset range may have no row: the offset passes what nothing is kept of."""
        if self._target_us is not None:
            return self._is_run and passed
        return time.monotonic() >= self._planned_at_s + self._options.quiet_s

    def _rows_min(self) -> int:
        """Return how many rows the next offset range waits for; a query that ends waits for none."""
        waited = time.monotonic() >= self._planned_at_s + self._options.max_delay_s
        least = self._options.min_rows_per_batch
        return 0 if least == 1 or waited or self._target_us is not None else least

    def plan(self, start: GroupPosition, end: GroupPosition) -> tuple[int, Batch]:
        """Return the epoch and the batch with which executors read the rows between two positions."""
        for batch in self._planned:
            if same_positions(batch.start, start) and same_positions(batch.end, end):
                return self._connected().epoch, batch
        deadline_s = time.monotonic() + self._options.retry_s
        while True:
            planned = self._offset_range(start, end)
            if planned is not None:
                self._planned = [planned]
                return self._connected().epoch, planned
            self._check_time(deadline_s, f"the planned offset range that ends at row {end.sequence}", start)

    def columns(self, start: GroupPosition, end: GroupPosition, table: str) -> pa.Schema:
        """Return the columns of a table's rows between two planned positions; their rows are not read.

        Args:
            start: the start of an offset range.
            end: its end.
            table: "schema.table", after routes.

        Raises:
            SchemaMismatch: the rows' versions of the table cannot be merged into one schema.
            RolledBack: the order of the offset range has changed.
        """
        _, offset_range = self.plan(start, end)
        selection = {"format": "typed", "table": table, "before": False, "added": [], "schema_only": True}
        return RangeRows.of(self._connected(), offset_range, selection).read(0, 1).schema

    def give_up(self) -> None:
        """Unsubscribe the client id and remove its cursor."""
        if self._consumer is not None:
            self._consumer.unsubscribe()

    def close(self) -> None:
        """Release the client id."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _connected(self) -> Consumer:
        if self._consumer is None:
            consumer = self._options.consumer()
            try:
                consumer.subscribe()
            except BaseException:
                consumer.close()
                raise
            self._consumer = consumer
        return self._consumer

    def finish(self, start: GroupPosition) -> None:
        """Acknowledge the planned offset ranges up to the one that ends at `start`."""
        ends = [index for index, batch in enumerate(self._planned) if same_positions(batch.end, start)]
        for batch in self._planned[: ends[-1] + 1] if ends else []:
            # A server that was restarted learns our position from the next request.
            with suppress(RolledBack, UnknownBatch):
                try:
                    self._patiently(partial(self._acknowledge, batch.batch_id))
                except AckOutOfOrder:
                    # An older batch is outstanding under an id that is unknown here: an executor planned an
                    # offset range again for itself after it was rolled back. A reader that is still running
                    # plans its range again, the same way.
                    self._planned = []
                    self._patiently(lambda: self._connected().rollback())
                    return
            # Not before: one whose acknowledgement failed is acknowledged with the next request.
            self._planned.remove(batch)

    def _acknowledge(self, batch_id: int) -> None:
        self._connected().ack(batch_id)

    def _offset_range(self, start: GroupPosition, until: GroupPosition | None, **bounds: Any) -> Batch | None:
        batch: Batch | None = self._patiently(
            lambda: self._connected().offset_range(start, until, **{"timeout": LOOK_S, **bounds}), RolledBack
        )
        return batch

    def _patiently(self, attempt: Callable[[], Any], *also: type[Exception]) -> Any:
        """Call, and retry on retryable errors until `retry_s`; subscribe again if the server forgot us."""
        deadline_s = time.monotonic() + self._options.retry_s
        while True:
            try:
                return attempt()
            except NotSubscribed:
                self._connected().subscribe()
            except RetryableError as error:
                if time.monotonic() > deadline_s or not self._connected().pause(error.retry_after_s):
                    raise
            except also:
                if time.monotonic() > deadline_s:
                    raise

    def _passed(self) -> tuple[int, int] | None:
        """Return (pid, generation) of the group if its watermark is past the query's end; else None."""
        if self._target_us is None:
            return None
        group = self._connected().status()["group"]
        if not group.get("active") or not group["merging"]:
            return None
        watermark_us = group["watermark_us"]
        if watermark_us is not None and int(watermark_us) <= self._target_us:
            return None
        return whole(group["pid"]), whole(group["generation"])

    def _held_up(self, start: GroupPosition) -> bool:
        """Return whether a consumer of the same rows, which holds the rings, is further back."""
        if not self._beside:
            return False
        clients = self._connected().status()["group"].get("clients", [])
        return any(
            GroupPosition.from_json(client["cursor"]).sequence < start.sequence
            for client in clients
            if client["client_id"] in self._beside and client["holder"] and client["cursor"]
        )

    def _check_time(self, deadline_s: float, what: str, start: GroupPosition) -> None:
        if time.monotonic() < deadline_s or self._held_up(start):
            return
        group = self._connected().status()["group"]
        raise ServerUnavailable(
            f"{self._options.destination} did not deliver {what} within {self._options.retry_s:g} seconds.",
            hint=f"It waits for shard {group['held_by']}."
            if group.get("held_by")
            else "Run `canal-group status`. Rings that were made smaller after the planning cannot hold it.",
        )
