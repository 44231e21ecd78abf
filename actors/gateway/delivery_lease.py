"""The right to let a batch's rows out: the group's word, for a short time.

Rows are fetched from the rings without the group, and a gateway may be paused between two messages of a
stream. Without the group's word, what was fetched under an epoch could leave when another server is active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

import pyarrow as pa

from actors.process.clock import clock_s
from merge.errors import ServerUnavailable

#: how long the group's word is taken for, seconds; an orderly hand-over may come sooner than the epoch's end
DELIVERY_LEASE_S = 1.0


class DeliveryLease:
    """Lets rows out only within `DELIVERY_LEASE_S`, and within the server's tenure, of the group's last word.

    Args:
        ask: asks the group for how many seconds the batch's rows may leave. Asked at once, so that the answer
            comes while the rows are fetched.
        wait: waits for the answer, and raises what the group refuses with.
    """

    def __init__(self, ask: Callable[[], Future[float]], wait: Callable[[Future[float]], float]) -> None:
        self._ask, self._wait = ask, wait
        self._until_s = 0.0
        self._asked_at_s, self._answer = clock_s(), ask()
        self._heard = False

    def check(self) -> None:
        """Return if rows may leave now; asks the group again when its last word is too old.

        Raises:
            CanalGroupError: the batch was taken back, another consumer took over, or the server is not the
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
        """Yield the batches as long as they may leave."""
        for batch in batches:
            self.check()
            yield batch
