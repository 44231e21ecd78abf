"""The stores of a server's process: real stores, over a channel that may lose requests and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from canal_group.actors.group.stored.cursors import CURSORS, subscription_of
from canal_group.actors.meta.memory import MemoryStore
from canal_group.actors.ports import EpochStore, Key, Kind, Subscription
from canal_group.merge.errors import CoordinatorUnavailable
from simulation.channel import Channel, NoAnswerError
from simulation.invariants import Invariants
from simulation.network import Line
from simulation.process import Process


class StoreBeside:
    """A store that learns epochs from the calls that reach it, as a file does.

    Implements `canal_group.actors.ports.EpochStore`.

    Args:
        medium: what all processes write to.
        channel: to it.
        process: the process that uses it.
        invariants: are told which writes of cursors arrive.
    """

    def __init__(
        self, medium: MemoryStore, channel: Channel, process: Process, invariants: Invariants
    ) -> None:
        self._medium = medium
        self._channel = channel
        self._process = process
        self._line = Line()
        self._invariants = invariants

    def claim(self, epoch: int) -> None:
        """Fence writers of older epochs."""

        def act() -> None:
            self._medium.claim(epoch)
            self._invariants.claimed(epoch)

        self._ask(act)

    def names(self, kind: Kind, epoch: int) -> list[str]:
        """Return the names of a kind's keys."""
        names: list[str] = self._ask(lambda: self._medium.names(kind, epoch))
        return names

    def get(self, key: Key, epoch: int) -> str | None:
        """Return a value."""
        text: str | None = self._ask(lambda: self._medium.get(key, epoch))
        return text

    def put(self, key: Key, text: str, epoch: int, *, may_wait: bool = False) -> None:  # noqa: ARG002  the port's signature
        """Write a value."""

        def act() -> None:
            self._medium.put(key, text, epoch)
            if key.kind == CURSORS:
                self._invariants.written(subscription_of(key.name, text), epoch)

        self._ask(act)

    def append(self, key: Key, text: str, epoch: int) -> None:
        """Continue a value."""
        self._ask(lambda: self._medium.append(key, text, epoch))

    def delete(self, key: Key, epoch: int) -> None:
        """Remove a value."""

        def act() -> None:
            self._medium.delete(key, epoch)
            if key.kind == CURSORS:
                self._invariants.forgotten(key.name)

        self._ask(act)

    def where(self, key: Key) -> str:
        """Return the key."""
        return self._medium.where(key)

    def flush(self, epoch: int) -> None:
        """Do nothing: every value is written at once."""

    def close(self) -> None:
        """Do nothing."""

    def _ask(self, act: Callable[[], Any]) -> Any:
        answer = self._channel.request(self._process, self._line, act)
        self._process.host.wait_for(answer)
        try:
            return answer.result()
        except NoAnswerError as error:
            raise CoordinatorUnavailable(str(error)) from error


class WatchedStore:
    """A store that reports the cursors with which its server begins: those that it reads after their names.

    Args:
        store: the real one.
        invariants: are told.
    """

    def __init__(self, store: EpochStore, invariants: Invariants) -> None:
        self._store = store
        self._invariants = invariants
        #: names of cursors that the server has not read yet, and what it has read
        self._unread: set[str] = set()
        self._read: list[Subscription] = []
        self.claim, self.put, self.append, self.delete = store.claim, store.put, store.append, store.delete
        self.where, self.flush, self.close = store.where, store.flush, store.close

    def names(self, kind: Kind, epoch: int) -> list[str]:
        """Return the names of a kind's keys."""
        names = self._store.names(kind, epoch)
        if kind == CURSORS:
            self._unread, self._read = set(names), []
        return names

    def get(self, key: Key, epoch: int) -> str | None:
        """Return a value."""
        text = self._store.get(key, epoch)
        if key.kind == CURSORS:
            assert text is not None
            self._read.append(subscription_of(key.name, text))
            self._unread.remove(key.name)
            if not self._unread:
                self._invariants.took_over(epoch, self._read)
        return text
