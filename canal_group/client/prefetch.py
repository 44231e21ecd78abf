"""Prefetch: fetch the rows of the next batches while the consumer processes one batch.

Rules:

1. Batches are yielded in order, each with its rows. The caller acknowledges them in that order.
2. A prefetched batch is outstanding. Any rollback of an earlier batch also rolls back the prefetched ones:
   they are dropped here and delivered again.
3. When the caller stops iterating, batches that were prefetched and not taken are rolled back.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from canal_group.merge.errors import CanalGroupError, NotSubscribed, RetryableError, RolledBack

T = TypeVar("T")


class Numbered(Protocol):
    """The part of a batch that prefetching uses."""

    batch_id: int


B = TypeVar("B", bound=Numbered)
B_co = TypeVar("B_co", bound=Numbered, covariant=True)


class Source(Protocol[B_co]):
    """The source of batches: a consumer."""

    #: grows whenever outstanding batches are known to be rolled back
    rollback_generation: int

    def get_without_ack(self, batch_size: int, timeout: float | None) -> B_co | None:
        """Return the next batch, or None if no batch has arrived."""

    def rollback(self, batch_id: int | None = None) -> int:
        """Roll back a batch and every later one."""

    def resubscribe(self) -> bool:
        """Become the active consumer again; return False if this one is closed."""

    def pause(self, seconds: float) -> bool:
        """Wait before another attempt; return False if this consumer is closed."""


class Prefetch(Generic[B, T]):
    """An iterator of batches with their rows, by the rules above.

    Continues by itself after a rollback, and after the server was unavailable, as iterating a consumer does.

    Args:
        source: the consumer.
        read: reads the rows of a batch; called on threads of its own.
        batch_size: limit on the rows of a batch.
        depth: limit on the batches that are being fetched, or fetched and not yet taken.
        timeout: seconds to wait for a batch before the iteration ends; None: without limit.
    """

    def __init__(
        self, source: Source[B], read: Callable[[B], T], batch_size: int, depth: int, timeout: float | None
    ) -> None:
        self._source = source
        self._read = read
        self._batch_size = batch_size
        self._depth = depth
        self._timeout = timeout
        self._waiting: deque[tuple[B, Future[T]]] = deque()
        self._rollback_generation = source.rollback_generation

    def __iter__(self) -> Iterator[tuple[B, T]]:
        """Yield batches and their rows until the timeout, or until the consumer is closed."""
        pool = ThreadPoolExecutor(self._depth, thread_name_prefix="prefetch")
        try:
            going_on = True
            while going_on and self._source.pause(0.0):
                try:
                    self._fill(pool)
                    if not self._waiting:
                        return
                    batch, coming = self._waiting[0]
                    rows = coming.result()
                    self._waiting.popleft()
                    yield batch, rows
                except RolledBack:
                    self._give_back()
                except NotSubscribed:
                    self._waiting.clear()
                    going_on = self._source.resubscribe()
                except RetryableError as error:
                    going_on = self._source.pause(error.retry_after_s)
                    self._read_again(pool)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self._give_back()

    def _fill(self, pool: ThreadPoolExecutor) -> None:
        """Request batches until `depth` of them are prefetched; wait only for the first."""
        if self._rollback_generation != self._source.rollback_generation:
            self._give_back()
            self._rollback_generation = self._source.rollback_generation
        while len(self._waiting) < self._depth:
            try:
                batch = self._source.get_without_ack(
                    self._batch_size, 0.0 if self._waiting else self._timeout
                )
            except RetryableError:
                if self._waiting:  # These can be taken in the meantime; the outstanding limit may be reached.
                    return
                raise
            if batch is None:
                return
            self._waiting.append((batch, pool.submit(self._read, batch)))

    def _read_again(self, pool: ThreadPoolExecutor) -> None:
        """Read again the rows that could not be read: their batches are outstanding, or reading raises."""
        for index, (batch, rows) in enumerate(self._waiting):
            if rows.done() and rows.exception() is not None:
                self._waiting[index] = batch, pool.submit(self._read, batch)

    def _give_back(self) -> None:
        """Drop the prefetched batches, and roll them back unless the server has already done so."""
        while self._waiting:
            batch, _ = self._waiting.popleft()
            # If no answer comes, the next get takes them back; if it is refused, they may be over already.
            with contextlib.suppress(CanalGroupError):
                with contextlib.suppress(RetryableError):
                    self._source.rollback(batch.batch_id)
                self._waiting.clear()
