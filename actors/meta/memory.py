"""A group's store in memory: lost when the process ends."""

from __future__ import annotations

import threading

from canal_group.actors.ports import Key, Kind, damaged
from canal_group.merge.values.epoch import refuse_older


class MemoryStore:
    """Keeps values as long as the process lives; a restart begins with none.

    Implements `canal_group.actors.ports.EpochStore`. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = 0
        self._values: dict[Key, str] = {}

    def claim(self, epoch: int) -> None:
        """Refuse every epoch older than `epoch` from now on."""
        with self._lock:
            self._enter(epoch, "what is stored")

    def names(self, kind: Kind, epoch: int) -> list[str]:
        """Return the names of a kind's keys, in order."""
        with self._lock:
            self._enter(epoch, kind.name)
            return sorted(key.name for key in self._values if key.kind == kind)

    def get(self, key: Key, epoch: int) -> str | None:
        """Return the stored value, or None."""
        with self._lock:
            self._enter(epoch, key)
            return self._values.get(key)

    def put(self, key: Key, text: str, epoch: int, *, may_wait: bool = False) -> None:  # noqa: ARG002
        """Write a value."""
        with self._lock:
            self._enter(epoch, key)
            self._values[key] = text

    def append(self, key: Key, text: str, epoch: int) -> None:
        """Continue a value."""
        with self._lock:
            self._enter(epoch, key)
            if key not in self._values:
                raise damaged(self.where(key), key.kind, "it is missing, and was to be continued")
            self._values[key] += text

    def delete(self, key: Key, epoch: int) -> None:
        """Remove the stored value, if any."""
        with self._lock:
            self._enter(epoch, key)
            self._values.pop(key, None)

    def where(self, key: Key) -> str:
        """Return the key: a value has no other address."""
        return str(key)

    def flush(self, epoch: int) -> None:
        """Do nothing: memory is all that this store writes to."""

    def close(self) -> None:
        """Do nothing: whatever was written is kept."""

    def _enter(self, epoch: int, what: object) -> None:
        refuse_older(epoch, self._epoch, str(what))
        self._epoch = epoch
