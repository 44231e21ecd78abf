"""The cursor stores of a server's process: real stores, over a channel that may lose requests and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.meta.memory import MemoryCursorStore
from actors.ports import CursorStore, Subscription
from merge.errors import CoordinatorUnavailable
from simulation.channel import Channel, NoAnswerError
from simulation.invariants import Invariants
from simulation.network import Line
from simulation.process import Process


class CursorsBeside:
    """A store that learns epochs only from claims and writes, as a file does.

    Implements `actors.ports.CursorStore`.

    Args:
        medium: what all processes write to.
        channel: to it.
        process: the process that uses it.
        invariants: are told which writes arrive.
    """

    def __init__(
        self, medium: MemoryCursorStore, channel: Channel, process: Process, invariants: Invariants
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

    def load(self) -> list[Subscription]:
        """Return every subscription."""
        subscriptions: list[Subscription] = self._ask(self._medium.load)
        return subscriptions

    def save(self, subscription: Subscription, epoch: int) -> None:
        """Write a subscription."""

        def act() -> None:
            self._medium.save(subscription, epoch)
            self._invariants.written(subscription, epoch)

        self._ask(act)

    def forget(self, client_id: str, epoch: int) -> None:
        """Remove a subscription."""

        def act() -> None:
            self._medium.forget(client_id, epoch)
            self._invariants.forgotten(client_id)

        self._ask(act)

    def flush(self, epoch: int) -> None:
        """Do nothing: every save is written at once."""

    def close(self) -> None:
        """Do nothing."""

    def _ask(self, act: Callable[[], Any]) -> Any:
        answer = self._channel.request(self._process, self._line, act)
        self._process.host.wait_for(answer)
        try:
            return answer.result()
        except NoAnswerError as error:
            raise CoordinatorUnavailable(str(error)) from error


class WatchedCursors:
    """A store that reports the cursors with which its server begins.

    Args:
        store: the real one.
        invariants: are told.
    """

    def __init__(self, store: CursorStore, invariants: Invariants) -> None:
        self._store = store
        self._invariants = invariants
        self._epoch = 0
        self.save, self.forget = store.save, store.forget
        self.flush, self.close = store.flush, store.close

    def claim(self, epoch: int) -> None:
        """Fence writers of older epochs."""
        self._store.claim(epoch)
        self._epoch = epoch

    def load(self) -> list[Subscription]:
        """Return every subscription."""
        subscriptions = self._store.load()
        self._invariants.took_over(self._epoch, subscriptions)
        return subscriptions
