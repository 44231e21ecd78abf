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
class _Delivered:
    """A batch; its positions are not read before they are needed."""

    #: the cursor after it is acknowledged
    end: GroupPosition
    #: where the batch begins, which the cursor may be past; None: it is not
    start: GroupPosition | None

    @property
    def moves(self) -> bool:
        """Whether acknowledging it moves the cursor; not if it ends inside a transaction."""
        return self.start is None or not reaches_back(self.end.shards, self.start.shards)


@dataclass(frozen=True, slots=True)
class _Doubt:
    """An acknowledgement that has no answer."""

    #: the cursor before it
    before: GroupPosition
    #: None: its batch is not known
    batch: _Delivered | None


class Unfinished:
    """Batches by id, each with the cursor after its acknowledgement. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[int, _Delivered] = {}
        self._doubts: dict[int, _Doubt] = {}

    def deliver(self, batch_id: int, end: GroupPosition, start: GroupPosition | None = None) -> None:
        """Add a delivered batch.

        Args:
            batch_id: its id.
            end: the cursor after its acknowledgement.
            start: where it begins: the cursor may have passed what nothing is kept of, up to there. None: no
                cursor has.
        """
        with self._lock:
            self._batches[batch_id] = _Delivered(end, start)

    def has(self, batch_id: int) -> bool:
        """Return whether a batch is outstanding, or acknowledged without an answer."""
        return batch_id in self._batches or batch_id in self._doubts

    def finish(self, batch_id: int) -> None:
        """Remove an acknowledged batch; acknowledgements of older ones are decided, too."""
        with self._lock:
            self._batches.pop(batch_id, None)
            self._doubts = {key: doubt for key, doubt in self._doubts.items() if key > batch_id}

    def forget(self, begin: int | None = None) -> None:
        """Remove a batch and every later one, or all: they are delivered again, here or elsewhere."""
        with self._lock:
            kept = () if begin is None else [key for key in self._batches if key < begin]
            self._batches = {key: self._batches[key] for key in kept}

    def of_other_servers(self, batch_id: int) -> list[int]:
        """Return the batches that were delivered by another server than `batch_id` was."""
        with self._lock:
            return [begin for begin in self._batches if epoch_of(begin) != epoch_of(batch_id)]

    def doubt(self, batch_id: int, cursor: GroupPosition) -> None:
        """Record that an acknowledgement is sent: its outcome is unknown until it is answered.

        Args:
            batch_id: the batch.
            cursor: the cursor before it.
        """
        with self._lock:
            self._doubts.setdefault(batch_id, _Doubt(cursor, self._batches.get(batch_id)))

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
        if doubt is None or doubt.batch is None or not doubt.batch.moves:
            return False
        end = doubt.batch.end
        reached = _is_past(cursor, end) and not _is_past(doubt.before, end)
        return reached or cursor.sequence > end.sequence


def _is_past(cursor: GroupPosition, end: GroupPosition) -> bool:
    """Return whether a cursor is at or after a position; ignore shards that only one of them has."""
    return cursor.sequence >= end.sequence and reaches_back(end.shards, cursor.shards)
