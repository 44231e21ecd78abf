"""The driver's end of a query: plans spans, and says which are done with.

Spark keeps the truth: a span that it asks for begins where everything before is in its commit log. So a span
is acknowledged when the one behind it is asked for, and the gateway's cursor only says what rings and binlogs
have to keep. Whatever Spark asks for after a restart is asked of the gateway as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from canal_group.client import Batch, Consumer
from canal_group.spark.options import Options
from merge.errors import (
    NotSubscribed,
    RetryableError,
    RolledBack,
    ServerUnavailable,
    UnknownBatch,
)
from merge.position import GroupPosition
from merge.span import same_places

#: how long one look for new rows lasts, seconds; Spark looks again
LOOK_S = 0.5


class Session:
    """One query's consumer. Lives in the driver, from the first question to the query's end."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._consumer: Consumer | None = None
        #: spans that were planned and are not done with, oldest first; two at most while all goes well
        self._planned: list[Batch] = []
        #: greatest key of a query that ends, microseconds since 1970 UTC; None: it goes on
        self._target_us: int | None = None

    def begin(self) -> GroupPosition:
        """Return where a query without a checkpoint begins.

        Raises:
            ConsumerActive: another consumer holds the client id; the sentence names it.
        """
        return self._options.start(self._connected().cursor)

    def end_here(self) -> None:
        """Plan nothing that is committed later than now, by the sources' clocks."""
        status = self._connected().status()
        skew_us = max((int(shard.get("skew_us", 0)) for shard in status["shards"]), default=0)
        self._target_us = int(status["now_us"]) + max(skew_us, 0)

    def next(self, start: GroupPosition, rows_max: int, bytes_max: int) -> GroupPosition:
        """Plan the next span and return its end; `start` if nothing is there."""
        self.finish(start)
        deadline_s = time.monotonic() + self._options.retry_s
        while True:
            settled = self._target_us is not None and self._passed(self._target_us)
            batch = self._span(
                start, None, rows_max=rows_max, bytes_max=bytes_max, key_us_max=self._target_us
            )
            if batch is not None:
                self._planned.append(batch)
                return batch.end
            if self._target_us is None or settled:
                return start
            self._check_time(deadline_s, "what was committed before the query began")

    def plan(self, start: GroupPosition, end: GroupPosition) -> tuple[int, int]:
        """Return the epoch and batch id under which executors read what stands between two positions."""
        for batch in self._planned:
            if same_places(batch.start, start) and same_places(batch.end, end):
                return self._connected().epoch, batch.batch_id
        deadline_s = time.monotonic() + self._options.retry_s
        while True:
            found = self._span(start, end)
            if found is not None:
                self._planned = [found]
                return self._connected().epoch, found.batch_id
            self._check_time(deadline_s, f"what ends at row {end.sequence}, which was planned before")

    def close(self) -> None:
        """Let go of the client id."""
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
        """Acknowledge what ends at `start` or before, and forget what was planned beyond it."""
        ends = [place for place, batch in enumerate(self._planned) if same_places(batch.end, start)]
        done = self._planned[: ends[-1] + 1] if ends else []
        self._planned = self._planned[len(done) :]
        for batch in done:
            # Where it was restarted, the server is told where we stand with the next question.
            with suppress(RolledBack, UnknownBatch):
                self._patiently(partial(self._acknowledge, batch.batch_id))

    def _acknowledge(self, batch_id: int) -> None:
        self._connected().ack(batch_id)

    def _span(self, start: GroupPosition, until: GroupPosition | None, **bounds: Any) -> Batch | None:
        found: Batch | None = self._patiently(
            lambda: self._connected().span(start, until, timeout=LOOK_S, **bounds), RolledBack
        )
        return found

    def _patiently(self, attempt: Callable[[], Any], *also: type[Exception]) -> Any:
        """Call, and again while the server says that it will do so later; subscribe where it forgot us."""
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

    def _passed(self, key_us: int) -> bool:
        """Return whether nothing with this key or a smaller one can come any more."""
        group = self._connected().status()["group"]
        if not group.get("active") or not group["merging"]:
            return False
        watermark_us = group["watermark_us"]
        return watermark_us is None or int(watermark_us) > key_us

    def _check_time(self, deadline_s: float, what: str) -> None:
        if time.monotonic() < deadline_s:
            return
        group = self._connected().status()["group"]
        raise ServerUnavailable(
            f"{self._options.destination} did not bring {what} within {self._options.retry_s:g} seconds.",
            hint=f"It waits for shard {group['held_by']}."
            if group.get("held_by")
            else "Look at `canal-group status`; rings smaller than when it was planned cannot hold it.",
        )
