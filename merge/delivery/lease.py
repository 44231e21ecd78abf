"""The lease of one client id: which consumer holds it, and since when that consumer is silent.

Rules:

1. A call whose epoch is not the current one is refused and changes nothing.
2. A lease expires only when its holder was silent for longer than the lease lasts; the caller checks that.
"""

from __future__ import annotations

from canal_group.merge.errors import ConsumerActive, FencedError, NotSubscribed


class Lease:
    """Holds which consumer reads under one client id; see the module's rules.

    Args:
        client_id: the client id.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        #: the consumer that holds the lease; empty: the lease is free
        self.holder = ""
        #: fencing epoch of the consumer; of the last one if there is none now
        self.epoch = 0
        #: when the holder was last heard of, microseconds of the shell's clock
        self.seen_us = 0

    def give(self, holder: str, epoch: int, at_us: int) -> None:
        """Make `holder` the consumer, under the epoch that the coordinator gave it."""
        self.holder, self.epoch, self.seen_us = holder, epoch, at_us

    def check_holder(self, epoch: int, at_us: int) -> None:
        """Return if a call with this epoch comes from the current consumer; note that it is alive.

        Raises:
            NotSubscribed: no consumer holds this client id.
            FencedError: a consumer with a newer epoch holds it, or did.
        """
        self.check_last(epoch)
        if not self.holder:
            raise NotSubscribed(
                f"The lease of client {self._client_id} has expired.",
                hint="Subscribe again.",
                our_epoch=epoch,
            )
        self.seen_us = at_us

    def check_last(self, epoch: int) -> None:
        """Return if a call with this epoch comes from the last consumer, whose lease may have expired.

        Raises:
            FencedError: a consumer with a newer epoch holds the client id, or did.
        """
        if epoch != self.epoch:
            raise FencedError(
                f"Epoch {epoch} of client {self._client_id} has ended; the current epoch is {self.epoch}.",
                hint="Another consumer took over. Stop this one.",
                our_epoch=epoch,
                current_epoch=self.epoch,
            )

    def check_free(self, holder: str, lasts_us: int, at_us: int) -> None:
        """Return if `holder` may take this client id.

        Raises:
            ConsumerActive: another consumer holds it and gave a sign of life within the lease.
        """
        left_us = self.seen_us + lasts_us - at_us
        if self.holder and self.holder != holder and left_us > 0:
            raise ConsumerActive(
                f"Client {self._client_id} is held by {self.holder}.",
                hint="Wait until it unsubscribes or its lease expires, or use another client id.",
                holder=self.holder,
                retry_after_s=min(1.0, left_us / 1e6),
            )
