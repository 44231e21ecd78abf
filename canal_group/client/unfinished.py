"""The batches that a consumer has not finished, and the acknowledgements whose outcome is unknown.

The outcome of an acknowledgement that was sent stays unknown until the server says it, whatever is rolled
back or subscribed in between: it may have been applied before.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from canal_group.merge.calls.batch import epoch_of
from canal_group.merge.values.offset_range import reaches_back
from canal_group.merge.values.position import GroupPosition


@dataclass(frozen=True, slots=True)
class _Doubt:
    """An acknowledgement that has no answer."""

    #: the cursor before it, and after it; None: it is not known
    before: GroupPosition
    end: GroupPosition | None


class Unfinished:
    """Batches by id, each with the cursor after its acknowledgement. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: None: the batch ends inside a transaction, and moves no cursor
        self._ends: dict[int, GroupPosition | None] = {}
        self._doubts: dict[int, _Doubt] = {}

    def deliver(self, batch_id: int, end: GroupPosition | None) -> None:
        """Add a delivered batch, with the cursor after its acknowledgement; None: it moves none."""
        with self._lock:
            self._ends[batch_id] = end

    def has(self, batch_id: int) -> bool:
        """Return whether a batch is outstanding, or acknowledged without an answer."""
        return batch_id in self._ends or batch_id in self._doubts

    def finish(self, batch_id: int) -> None:
        """Remove an acknowledged batch; acknowledgements of older ones are decided, too."""
        with self._lock:
            self._ends.pop(batch_id, None)
            self._doubts = {key: doubt for key, doubt in self._doubts.items() if key > batch_id}

    def forget(self, begin: int | None = None) -> None:
        """Remove a batch and every later one, or all: they are delivered again, here or elsewhere."""
        with self._lock:
            earlier = {} if begin is None else {key: end for key, end in self._ends.items() if key < begin}
            self._ends = earlier

    def of_other_servers(self, batch_id: int) -> list[int]:
        """Return the batches that were delivered by another server than `batch_id` was."""
        with self._lock:
            return [begin for begin in self._ends if epoch_of(begin) != epoch_of(batch_id)]

    def doubt(self, batch_id: int, cursor: GroupPosition) -> None:
        """Record that an acknowledgement is sent: its outcome is unknown until it is answered.

        Args:
            batch_id: the batch.
            cursor: the cursor before it.
        """
        with self._lock:
            self._doubts.setdefault(batch_id, _Doubt(cursor, self._ends.get(batch_id)))

    def refuse(self, batch_id: int) -> None:
        """Forget an acknowledgement that was refused: nothing was changed."""
        with self._lock:
            self._doubts.pop(batch_id, None)

    def in_doubt(self, batch_id: int) -> bool:
        """Return whether an acknowledgement was sent and has no answer."""
        return batch_id in self._doubts

    def moved(self, batch_id: int, cursor: GroupPosition) -> bool:
        """Return whether the cursor has passed a batch whose acknowledgement is in doubt.

        A batch that ends inside a transaction may leave the cursor unchanged: then the outcome stays
        unknown, and any other server delivers its rows again. The cursor passes what nothing is kept of
        without an acknowledgement.
        """
        doubt = self._doubts.get(batch_id)
        if doubt is None or doubt.end is None:
            return False
        reached = _is_past(cursor, doubt.end) and not _is_past(doubt.before, doubt.end)
        return reached or cursor.sequence > doubt.end.sequence


def _is_past(cursor: GroupPosition, end: GroupPosition) -> bool:
    """Return whether a cursor is at or after a position; ignore shards that only one of them has."""
    return cursor.sequence >= end.sequence and reaches_back(end.shards, cursor.shards)
