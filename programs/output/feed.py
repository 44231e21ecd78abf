"""The feed: batches of a destination as messages; while one is published, the next one is made.

For a sink that keeps the position it reads offset ranges, each from the end of the one before it, whatever
the cursor says: the same position has the same changes after it, with the same numbers, whatever failed
(docs/adr/0015-offset-ranges.md#offset-ranges). For another sink it gets batches from
the cursor on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from canal_group.client.batch import Batch
from canal_group.client.consumer import Consumer
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.messages import Messages
from canal_group.shapes.maps import tidied

#: how long one request for changes waits, seconds: a publisher that is told to stop does so within this time
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch that is read and made into messages."""

    batch: Batch
    messages: Messages


class Feed:
    """Reads a destination ahead by one batch.

    Args:
        consumer: subscribed; the feed alone gets and acknowledges its batches.
        read: reads the changes of a batch; it and `make` are called on a thread of their own.
        make: makes messages of changes.
        rows_max: limit on the changes of a batch.
        bytes_max: limit on their bytes.
        by_position: whether to read offset ranges.
        quiet_s: of offset ranges: seconds without a change after which a batch may have none, so that the
            position passes what nothing is kept of.
    """

    def __init__(
        self,
        consumer: Consumer,
        read: Callable[[Batch], pa.Table],
        make: Callable[[pa.Table], Messages],
        *,
        rows_max: int,
        bytes_max: int,
        by_position: bool,
        quiet_s: float,
    ) -> None:
        self._consumer, self._rows_of, self._make = consumer, read, make
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self._by_position, self._quiet_s = by_position, quiet_s
        #: when the position moved last, seconds of the monotonic clock
        self._moved_s = time.monotonic()
        self._position = GroupPosition()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._ahead: Future[Piece | None] | None = None

    def begin(self, position: GroupPosition) -> None:
        """Go on after a position, or at the cursor; what was read ahead is given back.

        Raises:
            CanalGroupError: as `Consumer.rollback`.
        """
        self._drop()
        self._consumer.rollback()
        self._position = position

    def next(self) -> Piece | None:
        """Return the next batch; None if there are no changes yet.

        Raises:
            CanalGroupError: as `Consumer.get_without_ack` and `Consumer.offset_range`; call `begin`.
        """
        ahead, self._ahead = self._ahead or self._pool.submit(self._read), None
        piece = ahead.result()
        if piece is not None:
            self._ahead = self._pool.submit(self._read)
        return piece

    def acknowledge(self, piece: Piece) -> None:
        """Move the cursor past a batch; raises as `Consumer.ack`."""
        self._consumer.ack(piece.batch.batch_id)

    def close(self) -> None:
        """Give back what was read ahead. The consumer stays open."""
        self._drop()
        self._pool.shutdown()
        # If the call fails, our lease ends: that gives them back as well.
        with suppress(CanalGroupError):
            self._consumer.rollback()

    def _drop(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            with suppress(CanalGroupError):
                ahead.result()

    def _read(self) -> Piece | None:
        batch = self._next_batch()
        if batch is None:
            return None
        return Piece(batch, self._make(tidied(self._rows_of(batch))))

    def _next_batch(self) -> Batch | None:
        if not self._by_position:
            return self._consumer.get_without_ack(self._rows_max, timeout=LOOK_S)
        batch = self._consumer.offset_range(
            self._position,
            rows_max=self._rows_max,
            bytes_max=self._bytes_max,
            may_be_empty=time.monotonic() >= self._moved_s + self._quiet_s,
            timeout=LOOK_S,
        )
        if batch is not None:
            self._position, self._moved_s = batch.end, time.monotonic()
        return batch
