"""The batches that a consumer has not finished, and the acknowledgements whose outcome is unknown."""

from __future__ import annotations

import threading

from merge.delivery.ledger import epoch_of
from merge.values.position import GroupPosition


class Unfinished:
    """Batches by id, each with the cursor after its acknowledgement. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[int, GroupPosition] = {}
        self._doubtful: set[int] = set()

    def deliver(self, batch_id: int, end: GroupPosition) -> None:
        """Add a delivered batch."""
        with self._lock:
            self._ends[batch_id] = end

    def finish(self, batch_id: int) -> None:
        """Remove an acknowledged batch."""
        with self._lock:
            self._ends.pop(batch_id, None)
            self._doubtful.discard(batch_id)

    def forget(self, begin: int | None = None) -> None:
        """Remove a batch and every later one, or all: they are delivered again, here or elsewhere."""
        with self._lock:
            kept = {} if begin is None else {key: end for key, end in self._ends.items() if key < begin}
            self._ends = kept
            self._doubtful.intersection_update(kept)

    def of_other_servers(self, batch_id: int) -> list[int]:
        """Return the batches that were delivered by another server than `batch_id` was."""
        with self._lock:
            return [known for known in self._ends if epoch_of(known) != epoch_of(batch_id)]

    def doubt(self, batch_id: int) -> None:
        """Note that an acknowledgement is sent: its outcome is unknown until it is answered."""
        with self._lock:
            self._doubtful.add(batch_id)

    def refuse(self, batch_id: int) -> None:
        """Note that the acknowledgement was refused: nothing was changed."""
        with self._lock:
            self._doubtful.discard(batch_id)

    def in_doubt(self, batch_id: int) -> bool:
        """Return whether an acknowledgement was sent and has no answer."""
        return batch_id in self._doubtful

    def moved(self, batch_id: int, before: GroupPosition, now: GroupPosition) -> bool:
        """Return whether the cursor is at the position after this batch, and was not there before.

        Only its consumer moves a cursor, under its epoch, batch by batch. A batch that ends inside a
        transaction may leave the cursor unchanged: then the outcome stays unknown, and any other server
        delivers its rows again.
        """
        end = self._ends.get(batch_id)
        return end is not None and _agree(now, end) and not _agree(before, end)


def _agree(one: GroupPosition, other: GroupPosition) -> bool:
    """Return whether two cursors are at the same position; ignore shards that only one of them has."""
    common = one.shards.keys() & other.shards.keys()
    return one.sequence == other.sequence and all(
        one.shards[shard] == other.shards[shard] for shard in common
    )
