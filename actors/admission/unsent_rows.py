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
    """The bytes that are held for the rows of one batch, until they are given back, or nothing refers to it.

    Args:
        loop: of `unsent`.
        unsent: what holds them.
        answer: the bytes.
    """

    def __init__(self, loop: LoopThread, unsent: UnsentBytes, answer: Answer) -> None:
        self._loop, self._unsent, self._answer = loop, unsent, answer
        #: may be called more than once
        self.give_back = weakref.finalize(self, _given_back, loop, unsent, answer)
        self.give_back.atexit = False

    def sending(self, size: int, abort: Callable[[], None]) -> None:
        """Start the time of rows that are put together; `abort` ends their connection, from any thread."""
        self._answer.size = size
        self._loop.call(self._unsent.sending, self._answer, abort)

    def read(self, count: int) -> None:
        """Count bytes that their client has read."""
        self._answer.read_bytes += count

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, of which the client has read one when it asks for the next; then give back."""
        for batch in batches:
            yield batch
            self.read(batch.nbytes)
        self.give_back()


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

    def hold(self, batch_bytes: int, owner: str) -> HeldRows:
        """Hold bytes for a batch that is about to be fetched, as soon as there is room.

        Args:
            batch_bytes: what its rows have in the rings.
            owner: whose it is.

        Raises:
            ServerUnavailable: there was none in time.
        """
        answer = self._loop.run(self._taken(batch_bytes * COPIES, owner)).result()
        return HeldRows(self._loop, self._unsent, answer)

    async def _taken(self, size: int, owner: str) -> Answer:
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._unsent.take(size, owner)
        except TimeoutError as error:
            raise ServerUnavailable(
                f"Rows of other consumers have taken all of the gateway's memory for {self._wait_s:g} s.",
                hint="Raise gateway.unsent_bytes_max, or ask for smaller batches.",
                retry_after_s=0.5,
            ) from error

    def close(self) -> None:
        """End its thread; nothing can be held any more."""
        self._loop.end(0.0)


def _given_back(loop: LoopThread, unsent: UnsentBytes, answer: Answer) -> None:
    with contextlib.suppress(RuntimeError):  # the gateway has been closed
        loop.call(unsent.give_back, answer)
