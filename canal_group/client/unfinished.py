"""What a consumer has been given and has not finished, and which acknowledgements are in doubt."""

from __future__ import annotations

import threading

from merge.delivery.ledger import epoch_of
from merge.values.position import GroupPosition


class Unfinished:
    """Batches by id, with what the cursor becomes when each is acknowledged. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[int, GroupPosition] = {}
        self._doubtful: set[int] = set()

    def deliver(self, batch_id: int, end: GroupPosition) -> None:
        """Note a batch."""
        with self._lock:
            self._ends[batch_id] = end

    def finish(self, batch_id: int) -> None:
        """Strike out an acknowledged batch."""
        with self._lock:
            self._ends.pop(batch_id, None)
            self._doubtful.discard(batch_id)

    def forget(self, begin: int | None = None) -> None:
        """Forget a batch and every later one, or all: they come again, or are somebody else's."""
        with self._lock:
            kept = {} if begin is None else {key: end for key, end in self._ends.items() if key < begin}
            self._ends = kept
            self._doubtful.intersection_update(kept)

    def of_other_servers(self, batch_id: int) -> list[int]:
        """Return the batches that another server has delivered than the one of `batch_id`."""
        with self._lock:
            return [known for known in self._ends if epoch_of(known) != epoch_of(batch_id)]

    def doubt(self, batch_id: int) -> None:
        """Note that an acknowledgement is sent: until it is answered, nobody knows what became of it."""
        with self._lock:
            self._doubtful.add(batch_id)

    def refuse(self, batch_id: int) -> None:
        """Note that the acknowledgement was refused: nothing was changed."""
        with self._lock:
            self._doubtful.discard(batch_id)

    def in_doubt(self, batch_id: int) -> bool:
        """Return whether an acknowledgement was sent and not answered."""
        return batch_id in self._doubtful

    def moved(self, batch_id: int, before: GroupPosition, now: GroupPosition) -> bool:
        """Return whether the cursor stands where this batch brings it, and did not before.

        Only its consumer moves a cursor, under its epoch, batch by batch. A batch that ends inside a
        transaction may leave the cursor where it was: then nothing tells, and its rows come again from any
        other server.
        """
        end = self._ends.get(batch_id)
        return end is not None and _agree(now, end) and not _agree(before, end)


def _agree(one: GroupPosition, other: GroupPosition) -> bool:
    """Return whether two cursors stand at one place; shards that only one of them knows do not count."""
    common = one.shards.keys() & other.shards.keys()
    return one.sequence == other.sequence and all(
        one.shards[shard] == other.shards[shard] for shard in common
    )
