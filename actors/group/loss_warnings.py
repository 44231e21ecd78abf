"""Loss warnings: logs what a client id lost, once, when the cursor store has it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from canal_group.actors.ports import Subscription
from canal_group.merge.values.loss import Loss

_log = logging.getLogger(__name__)


class LossWarnings:
    """Logs losses that were not stored before.

    Args:
        destination: the instance's name.
        subscriptions: those that were stored when this server took over.
    """

    def __init__(self, destination: str, subscriptions: Sequence[Subscription]) -> None:
        self._destination = destination
        self._stored = {each.client_id: each.losses for each in subscriptions}

    def stored(self, subscription: Subscription) -> list[Loss]:
        """Log the losses that a write has stored for the first time, and return them."""
        before = self._stored.get(subscription.client_id, ())
        self._stored[subscription.client_id] = subscription.losses
        new = [loss for loss in subscription.losses if loss not in before]
        for loss in new:
            _log.warning(
                "lost what the source had purged, or what its shard left with: %s (loss %d of this shard)",
                loss,
                loss.number,
                extra={"destination": self._destination, "client": subscription.client_id},
            )
        return new
