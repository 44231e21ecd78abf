"""The lease of one client id: which consumer has it, and since when it is silent.

Rules:

1. A call with another epoch than the current one is refused and changes nothing.
2. A lease ends by itself only when its holder was silent for longer than it lasts; the caller looks.
"""

from __future__ import annotations

from merge.errors import ConsumerActive, FencedError, NotSubscribed


class Lease:
    """Who consumes under one client id; see the module's rules.

    Args:
        client_id: the client id.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        #: who consumes; empty: nobody
        self.holder = ""
        #: fencing epoch of the consumer, the last one if there is none
        self.epoch = 0
        #: when the holder was last heard of, microseconds of the shell's clock
        self.seen_us = 0

    def give(self, holder: str, epoch: int, at_us: int) -> None:
        """Make `holder` the consumer, whom the coordinator gave this epoch."""
        self.holder, self.epoch, self.seen_us = holder, epoch, at_us

    def check_holder(self, epoch: int, at_us: int) -> None:
        """Return if a call with this epoch comes from the current consumer; note that it is alive.

        Raises:
            NotSubscribed: nobody holds this client id.
            FencedError: somebody newer holds it, or did.
        """
        self.check_last(epoch)
        if not self.holder:
            raise NotSubscribed(
                f"The lease of client {self._client_id} has run out.",
                hint="Subscribe again.",
                our_epoch=epoch,
            )
        self.seen_us = at_us

    def check_last(self, epoch: int) -> None:
        """Return if a call with this epoch comes from the last consumer, whose lease may have run out.

        Raises:
            FencedError: somebody newer holds the client id, or did.
        """
        if epoch != self.epoch:
            raise FencedError(
                f"Epoch {epoch} of client {self._client_id} is over; the current one is {self.epoch}.",
                hint="Another consumer took over. Stop this one.",
                our_epoch=epoch,
                current_epoch=self.epoch,
            )

    def check_free(self, holder: str, lasts_us: int, at_us: int) -> None:
        """Return if `holder` may take this client id.

        Raises:
            ConsumerActive: somebody else holds it and was heard of within the lease.
        """
        left_us = self.seen_us + lasts_us - at_us
        if self.holder and self.holder != holder and left_us > 0:
            raise ConsumerActive(
                f"Client {self._client_id} is held by {self.holder}.",
                hint="Wait until it unsubscribes or its lease runs out, or use another client id.",
                holder=self.holder,
                retry_after_s=min(1.0, left_us / 1e6),
            )
