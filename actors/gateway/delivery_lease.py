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
            the answer arrives while the rows are fetched.
        wait: waits for the answer, and raises the group's error.
    """

    def __init__(self, ask: Callable[[], Future[float]], wait: Callable[[Future[float]], float]) -> None:
        self._ask, self._wait = ask, wait
        self._until_s = 0.0
        self._asked_at_s, self._answer = clock_s(), ask()
        self._heard = False

    @property
    def holds(self) -> bool:
        """Whether rows may be sent now, as far as it is known without asking."""
        return self._heard and clock_s() < self._until_s

    def check(self) -> None:
        """Check that rows may be sent now; ask the group again if the lease has expired.

        Raises:
            CanalGroupError: the batch was rolled back, another consumer took over, or the server is not the
                active one.
        """
        if not self._heard:
            self._hear()
        if clock_s() < self._until_s:
            return
        self._asked_at_s, self._answer = clock_s(), self._ask()
        self._hear()
        if clock_s() >= self._until_s:
            raise ServerUnavailable(
                "The group's delivery lease expired before it arrived.", retry_after_s=0.5
            )

    def _hear(self) -> None:
        self._until_s = self._asked_at_s + min(self._wait(self._answer), DELIVERY_LEASE_S)
        self._heard = True

    def guarded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches while they may be sent."""
        for batch in batches:
            self.check()
            yield batch
