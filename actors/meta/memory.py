"""Cursors in memory: lost when the process ends."""

from __future__ import annotations

import threading

from actors.ports import Subscription
from merge.values.epoch import refuse_older


class MemoryCursorStore:
    """Keeps subscriptions as long as the process lives; a restart begins with none.

    Implements `actors.ports.CursorStore`. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = 0
        self._subscriptions: dict[str, Subscription] = {}

    def claim(self, epoch: int) -> None:
        """Refuse every epoch older than `epoch` from now on.

        Raises:
            FencedError: a newer epoch has been seen.
        """
        with self._lock:
            self._advance(epoch, "the subscriptions")

    def load(self) -> list[Subscription]:
        """Return every subscription, in the order of client ids."""
        with self._lock:
            return [subscription for _, subscription in sorted(self._subscriptions.items())]

    def save(self, subscription: Subscription, epoch: int) -> None:
        """Keep a subscription; it replaces the client id's last one.

        Raises:
            FencedError: a newer epoch has been seen; nothing was changed.
        """
        with self._lock:
            self._advance(epoch, f"the cursor of {subscription.client_id}")
            self._subscriptions[subscription.client_id] = subscription

    def forget(self, client_id: str, epoch: int) -> None:
        """Remove a subscription and its cursor, if there is one.

        Raises:
            FencedError: a newer epoch has been seen; nothing was changed.
        """
        with self._lock:
            self._advance(epoch, f"the subscription of {client_id}")
            self._subscriptions.pop(client_id, None)

    def flush(self, epoch: int) -> None:
        """Do nothing: memory is all that this store writes to."""

    def close(self) -> None:
        """Do nothing: whatever was saved is kept."""

    def _advance(self, epoch: int, what: str) -> None:
        refuse_older(epoch, self._epoch, what)
        self._epoch = epoch
