"""Unsent rows: bounds the memory of rows that a gateway has fetched and not yet lent or sent.

The rules are those of `unsent_bytes`, for threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from canal_group.actors.admission.unsent_bytes import Answer, UnsentBytes
from canal_group.actors.process.loop_thread import LoopThread
from canal_group.merge.errors import ServerUnavailable

#: how often a batch is in memory while its rows are put together: as fetched, by tables, and in merged order
COPIES: Final = 3
#: how long a batch waits, seconds; its consumer gives up after a minute
WAIT_S: Final = 30.0


class HeldRows:
    """The bytes that are held for the rows of one batch, from `take` until they are given back.

    They are given back at the latest when nothing refers to this.

    Args:
        unsent: holds them.
        owner: whose the rows are.
    """

    def __init__(self, unsent: UnsentRows, owner: str) -> None:
        self._unsent, self._owner = unsent, owner
        self._answer: Answer | None = None
        self._finalizer: weakref.finalize[[Answer], HeldRows] | None = None

    def await_turn(self) -> None:
        """Wait while rows that were fetched wait for room, before more are fetched."""
        self._unsent.await_turn()

    def take(self, batch_bytes: int) -> None:
        """Hold bytes for rows that were fetched, as soon as there is room; call it once.

        A shard that does not answer keeps nobody waiting: nothing is held while rows are fetched.

        Args:
            batch_bytes: what they have as fetched.

        Raises:
            ServerUnavailable: there was no room in time.
        """
        self._answer = self._unsent.taken(batch_bytes * COPIES, self._owner)
        self._finalizer = weakref.finalize(self, self._unsent.give_back, self._answer)
        self._finalizer.atexit = False

    def sending(self, size: int, abort: Callable[[], None]) -> None:
        """Start the time of rows that are put together; `abort` ends their connection, from any thread."""
        if self._answer is not None:
            self._answer.size = size
            self._unsent.sending(self._answer, abort)

    def read(self, count: int) -> None:
        """Count bytes that the client has read."""
        if self._answer is not None:
            self._answer.read_bytes += count

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, of which the client has read one when it asks for the next; then give back."""
        try:
            for batch in batches:
                yield batch
                self.read(batch.nbytes)
        finally:
            # An error of the group keeps what it has passed until garbage is collected.
            self.give_back()

    def give_back(self) -> None:
        """Hold the bytes no more; may be called more than once."""
        if self._finalizer is not None:
            self._finalizer()


class UnsentRows:
    """Holds bytes for rows. Safe to use from several threads.

    Args:
        bytes_max: of all of them together; one batch alone may have more.
        wait_s: how long a batch waits.
    """

    def __init__(self, bytes_max: int, wait_s: float = WAIT_S) -> None:
        self._unsent = UnsentBytes(bytes_max)
        self._wait_s = wait_s
        self._loop = LoopThread("unsent rows")

    def await_turn(self) -> None:
        """Wait while rows wait for room, but not longer than they do."""
        if self._unsent.crowded:
            turn = self._loop.run(self._unsent.until_nobody_waits())
            try:
                turn.result(self._wait_s)
            except TimeoutError:
                turn.cancel()

    def taken(self, size: int, owner: str) -> Answer:
        """Hold bytes; see `HeldRows.take`."""
        return self._loop.run(self._take(size, owner)).result()

    async def _take(self, size: int, owner: str) -> Answer:
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._unsent.take(size, owner)
        except TimeoutError as error:
            raise ServerUnavailable(
                f"Rows of other consumers have taken all of the gateway's memory for {self._wait_s:g} s.",
                hint="Raise gateway.unsent_bytes_max, or ask for smaller batches.",
                retry_after_s=0.5,
            ) from error

    def sending(self, answer: Answer, abort: Callable[[], None]) -> None:
        """Start the time of an answer; see `HeldRows.sending`."""
        self._loop.call(self._unsent.sending, answer, abort)

    def give_back(self, answer: Answer) -> None:
        """Hold the bytes of an answer no more."""
        with contextlib.suppress(RuntimeError):  # the gateway has been closed
            self._loop.call(self._unsent.give_back, answer)

    def close(self) -> None:
        """End its thread; nothing can be held any more."""
        self._loop.end(0.0)
