"""Reading ahead: the rows of the next batches are on their way while one batch is worked on.

Rules:

1. Batches come in order, each with its rows, and are acknowledged in order by whoever takes them.
2. What was read ahead is outstanding. A rollback, whoever asked for it, takes it back with what it came
   behind: it is forgotten here, and comes again.
3. Whoever stops taking leaves nothing behind: what was read ahead and not taken is given back.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from merge.errors import CanalGroupError, NotSubscribed, RetryableError, RolledBack

T = TypeVar("T")


class Numbered(Protocol):
    """A batch, as far as reading ahead looks at it."""

    batch_id: int


B = TypeVar("B", bound=Numbered)
B_co = TypeVar("B_co", bound=Numbered, covariant=True)


class Source(Protocol[B_co]):
    """Where batches come from: a consumer."""

    #: grows whenever outstanding batches are known to be taken back
    rollback_generation: int

    def get_without_ack(self, batch_size: int, timeout: float | None) -> B_co | None:
        """Return the next batch; None: there is none yet."""

    def rollback(self, batch_id: int | None = None) -> int:
        """Give back a batch and every later one."""

    def resubscribe(self) -> bool:
        """Become the active consumer again; False: this one is closed."""

    def pause(self, seconds: float) -> bool:
        """Wait before another attempt; False: this one is closed."""


class Prefetch(Generic[B, T]):
    """An iterator of batches with their rows; see the module's rules.

    Goes on by itself after a rollback, and when the server is away for a while, as iterating a consumer does.

    Args:
        source: the consumer.
        read: reads the rows of a batch; called on threads of its own.
        batch_size: bound on the rows of a batch.
        depth: batches that are on their way or read and not yet taken, at most.
        timeout: how long to wait for a batch before the iteration ends, seconds; None: for ever.
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
        """Yield batches and their rows until none comes in time, or the consumer is closed."""
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
        """Ask for batches until so many are on their way, waiting only for the first."""
        if self._rollback_generation != self._source.rollback_generation:
            self._give_back()
            self._rollback_generation = self._source.rollback_generation
        while len(self._waiting) < self._depth:
            try:
                batch = self._source.get_without_ack(
                    self._batch_size, 0.0 if self._waiting else self._timeout
                )
            except RetryableError:
                if self._waiting:  # These can be taken meanwhile; so many may be outstanding already.
                    return
                raise
            if batch is None:
                return
            self._waiting.append((batch, pool.submit(self._read, batch)))

    def _read_again(self, pool: ThreadPoolExecutor) -> None:
        """Read once more what could not be read: it is outstanding still, or reading it will say so."""
        for place, (batch, rows) in enumerate(self._waiting):
            if rows.done() and rows.exception() is not None:
                self._waiting[place] = batch, pool.submit(self._read, batch)

    def _give_back(self) -> None:
        """Forget what is waiting, and let it come again, as far as that is not known already."""
        while self._waiting:
            batch, _ = self._waiting.popleft()
            # Whoever cannot be told knows by itself: our lease ends, or somebody else's has begun.
            with contextlib.suppress(CanalGroupError):
                self._source.rollback(batch.batch_id)
                self._waiting.clear()
