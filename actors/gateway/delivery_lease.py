"""Delivery lease: the group's permission to send a batch's rows, for a short time.

Rows are fetched from the rings without the group, and a gateway may be paused between two messages of a
stream. Without the lease, rows that were fetched under one epoch could be sent after another server became
active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

import pyarrow as pa

from canal_group.actors.process.clock import clock_s
from canal_group.merge.errors import ServerUnavailable

#: longest duration of a lease, seconds; an orderly hand-over may come before the epoch's end
DELIVERY_LEASE_S = 1.0


class DeliveryLease:
    """Lets rows be sent within `DELIVERY_LEASE_S` of the group's last answer, and the server's tenure.

    Args:
        ask: asks the group for how many seconds the batch's rows may be sent. It is called at once, so that
            the answer arrives while the rows are fetched; not if the answer is known.
        wait: waits for the answer, and raises the group's error.
        answered: when the group was asked, by `clock_s`, and its answer; None: it was not asked.
    """

    def __init__(
        self,
        ask: Callable[[], Future[float]],
        wait: Callable[[Future[float]], float],
        answered: tuple[float, float] | None = None,
    ) -> None:
        self._ask, self._wait = ask, wait
        self._until_s = 0.0 if answered is None else _until_s(*answered)
        #: when the group was asked, and its answer, which was not heard yet
        self._asked: tuple[float, Future[float]] | None = (clock_s(), ask()) if answered is None else None

    @property
    def holds(self) -> bool:
        """Whether rows may be sent now, as far as it is known without asking."""
        return clock_s() < self._until_s

    def check(self) -> None:
        """Check that rows may be sent now; ask the group again if the lease has expired.

        Raises:
            CanalGroupError: the batch was rolled back, another consumer took over, or the server is not the
                active one.
        """
        if self._asked is not None:
            self._hear(*self._asked)
        if self.holds:
            return
        self._hear(clock_s(), self._ask())
        if not self.holds:
            raise ServerUnavailable(
                "The group's delivery lease expired before it arrived.", retry_after_s=0.5
            )

    def _hear(self, asked_at_s: float, answer: Future[float]) -> None:
        self._until_s = _until_s(asked_at_s, self._wait(answer))
        self._asked = None

    def guarded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches while they may be sent."""
        for batch in batches:
            self.check()
            yield batch


def _until_s(asked_at_s: float, answer_s: float) -> float:
    return asked_at_s + min(answer_s, DELIVERY_LEASE_S)
