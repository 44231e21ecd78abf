"""The ledger of one subscriber: the batches that are delivered and not yet acknowledged.

Rules:

1. Batches are acknowledged in the order of delivery; only the oldest outstanding one can be.
2. A refused call raises and changes nothing.
3. Ids always grow, also across restarts: the high bits are the epoch, the low 32 bits a counter. A server
   that has used up its counter (four thousand million batches) stops, and continues under a new epoch.
4. The id of a rolled back batch is never delivered again. The ledger remembers the last `TAKEN_BACK_MAX` such
   ids, so that a consumer that still holds one is told.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from canal_group.merge.calls.batch import COUNTER_BITS, Batch, epoch_of
from canal_group.merge.errors import AckOutOfOrder, RetryableError, RolledBack, UnknownBatch

#: rolled back batches whose ids are remembered
TAKEN_BACK_MAX = 1_024


@dataclass(slots=True)
class Totals:
    """What happened to the batches of one subscriber since its server was elected."""

    delivered_batches: int = 0
    delivered_rows: int = 0
    acked_batches: int = 0
    acked_rows: int = 0
    #: batches that were rolled back, whether the consumer or a rewind did it
    rolled_back_batches: int = 0


class Ledger:
    """Outstanding batches of one subscriber; see the module's rules.

    Args:
        epoch: fencing epoch of the server; 1 <= epoch < 2**31.
        outstanding_max: bound on batches delivered and not acknowledged.
        after_id: ids up to this one were given before; 0: none was.
    """

    def __init__(self, epoch: int, outstanding_max: int, after_id: int = 0) -> None:
        assert 0 < epoch < 1 << (63 - COUNTER_BITS), "ids are signed 64-bit numbers"
        self._outstanding: dict[int, Batch] = {}
        self._outstanding_max = outstanding_max
        self._next_id = max(epoch << COUNTER_BITS, after_id) + 1
        self._first_id = self._next_id
        self._taken_back: deque[int] = deque(maxlen=TAKEN_BACK_MAX)
        #: id -> when it was first seen outstanding, microseconds of the shell's clock; the newest may lack it
        self._seen_us: dict[int, int] = {}
        #: what happened so far
        self.totals = Totals()

    @property
    def next_id(self) -> int:
        """The id of the next batch to deliver."""
        return self._next_id

    @property
    def outstanding(self) -> list[Batch]:
        """Delivered and not acknowledged, oldest first."""
        return list(self._outstanding.values())

    def holds(self, batch: Batch) -> bool:
        """Return whether the batch is outstanding."""
        return batch.batch_id in self._outstanding

    def check_room(self, seen_id: int | None = None) -> None:
        """Return if one more batch may be outstanding.

        Args:
            seen_id: batches that were delivered after this one do not count; None: all do.

        Raises:
            RetryableError: the bound is reached.
        """
        count = sum(seen_id is None or batch_id <= seen_id for batch_id in self._outstanding)
        if count >= self._outstanding_max:
            raise RetryableError(
                f"{count} batches are outstanding, which is the limit.",
                hint="Acknowledge the oldest batch, or raise batch.outstanding_max.",
                outstanding_max=self._outstanding_max,
            )

    def deliver(self, batch: Batch) -> None:
        """Enter a batch that was given `next_id`."""
        assert batch.batch_id == self._next_id, "ids are given in order"
        assert epoch_of(batch.batch_id) == epoch_of(self._first_id), "the epoch's batch ids are used up"
        self._next_id += 1
        self._outstanding[batch.batch_id] = batch
        self.totals.delivered_batches += 1
        self.totals.delivered_rows += batch.rows

    def find(self, batch_id: int) -> Batch:
        """Return an outstanding batch.

        Raises:
            RolledBack: it was rolled back.
            UnknownBatch: it was never delivered, or is acknowledged, or was rolled back so long ago that the
                ledger has forgotten it.
        """
        batch = self._outstanding.get(batch_id)
        if batch is not None:
            return batch
        if batch_id < self._first_id:
            raise RolledBack(
                f"Batch {batch_id} is unknown: it was delivered under epoch {epoch_of(batch_id)}, before"
                " another server was elected. Unacknowledged rows are delivered again under a new id.",
                hint="Discard the rows that you have not acknowledged, then get again.",
                batch_id=batch_id,
            )
        if batch_id in self._taken_back:
            raise RolledBack(
                f"Batch {batch_id} was rolled back; its rows are delivered again under a new id.",
                hint="Discard the rows that you have not acknowledged, then get again.",
                batch_id=batch_id,
            )
        known = "is acknowledged already" if batch_id < self._next_id else "was never delivered"
        raise UnknownBatch(f"Batch {batch_id} {known}.", hint="Get the next batch.", batch_id=batch_id)

    def check_ack(self, batch_id: int) -> Batch:
        """Return the batch if it is the one that can be acknowledged now.

        Raises:
            AckOutOfOrder: an older batch is outstanding.
            RolledBack, UnknownBatch: as `find`.
        """
        batch = self.find(batch_id)
        oldest = next(iter(self._outstanding))
        if batch_id != oldest:
            raise AckOutOfOrder(
                f"Batch {batch_id} cannot be acknowledged: the older batch {oldest} is outstanding.",
                hint=f"Acknowledge {oldest} first.",
                batch_id=batch_id,
                oldest=oldest,
            )
        return batch

    def ack(self, batch_id: int) -> Batch:
        """Remove the oldest outstanding batch and return it; raises as `check_ack`."""
        batch = self.check_ack(batch_id)
        self._remove(batch)
        self.totals.acked_batches += 1
        self.totals.acked_rows += batch.rows
        return batch

    def _remove(self, batch: Batch) -> None:
        del self._outstanding[batch.batch_id]
        self._seen_us.pop(batch.batch_id, None)

    def saw(self, at_us: int) -> None:
        """Note the time, so that batches delivered since the last call have an age.

        Args:
            at_us: now, microseconds of the shell's clock.
        """
        for batch_id in self._outstanding:
            self._seen_us.setdefault(batch_id, at_us)

    def describe(self, at_us: int) -> list[dict[str, Any]]:
        """Return the outstanding batches as JSON objects, the oldest first; `at_us` as for `saw`."""
        return [
            {
                "batch_id": batch.batch_id,
                "rows": batch.rows,
                "age_s": (at_us - self._seen_us.get(batch.batch_id, at_us)) / 1e6,
            }
            for batch in self.outstanding
        ]

    def validate(self) -> None:
        """Assert what holds between two calls."""
        ids = list(self._outstanding)
        assert ids == sorted(ids), "batches are delivered in the order of their ids"
        assert all(self._first_id <= batch_id < self._next_id for batch_id in ids)
        assert len(ids) <= self._outstanding_max, "the bound on outstanding batches holds"
        assert self._seen_us.keys() <= set(ids), "only outstanding batches have an age"
        assert not set(ids) & set(self._taken_back), "what was taken back is not outstanding"

    def rollback(self, batch_id: int | None = None) -> list[Batch]:
        """Roll back a batch and every later one, or all; return them, oldest first.

        Raises:
            RolledBack, UnknownBatch: as `find`; nothing was changed.
        """
        if batch_id is not None:
            self.find(batch_id)
        taken = [batch for known, batch in self._outstanding.items() if batch_id is None or known >= batch_id]
        for batch in taken:
            self._remove(batch)
            self._taken_back.append(batch.batch_id)
        self.totals.rolled_back_batches += len(taken)
        return taken
