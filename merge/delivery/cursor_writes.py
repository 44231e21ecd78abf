"""The writes of one subscription to the cursor store.

Rules:

1. At most one write is under way. After a write that acknowledges a batch, the next write waits until it is
   known whether that one arrived. Otherwise the cursor could move backwards.
2. When shards join or leave, or the subscription is dropped, a write that says so is repeated until one has
   arrived.
3. A write of our own answers no call. Calls that come during one wait for it; during any other write they are
   refused.
4. The store is asked to forget a subscription that ends, and one that was refused although its write may have
   arrived. The request is repeated until the store confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from merge.calls.batch import Batch
from merge.calls.consumers import Ack, Rollback, Unsubscribe
from merge.errors import RetryableError
from merge.events import Asked

#: calls that wait for a write of our own
Deferrable: TypeAlias = Asked[Ack] | Asked[Rollback] | Asked[Unsubscribe]
#: call of a write of our own, which answers no call: shards joined or left
OWN_CALL = 0


@dataclass(frozen=True, slots=True)
class Saving:
    """A write that is under way to the cursor store, or may have arrived there."""

    #: the call that it answers; `OWN_CALL`: none
    call: int
    #: the batch that it acknowledges; None: it stores a subscription
    batch: Batch | None
    #: whether the caller was told that it is unknown whether the write arrived
    unsure: bool = False
    #: False: it waits to be repeated
    under_way: bool = True
    #: whether no earlier write is known to have stored a change of rule 2
    unsaved: bool = False


class CursorWrites:
    """Tracks the writes of one subscription to the cursor store; see the module's rules.

    Args:
        client_id: whose subscription it is.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        #: whether the cursor store knows the subscription
        self.durable = False
        #: call of a subscription that is not answered yet
        self.subscribing: int | None = None
        #: the write that is under way to the cursor store, or waits to be repeated
        self.saving: Saving | None = None
        #: whether the stored subscription does not show yet that shards joined or left, or the drop
        self.unsaved = False
        #: calls that came during a write of our own
        self._deferred: list[Deferrable] = []
        #: call for which the store is asked to forget the subscription; None: the subscription stays
        self._forgetting: int | None = None
        #: whether the store's answer to that is awaited
        self._forget_under_way = False

    @property
    def lacks_shards(self) -> bool:
        """Whether the store is not known to have the changes of rule 2."""
        return self.unsaved or (self.saving is not None and self.saving.unsaved)

    @property
    def follows_shards(self) -> bool:
        """Whether a write of our own is under way; calls wait for it."""
        return self.saving is not None and self.saving.call == OWN_CALL

    @property
    def answers_somebody(self) -> bool:
        """Whether a caller waits for a write."""
        saving = self.saving is not None and not self.saving.unsure
        return saving or self.subscribing is not None

    @property
    def acknowledging(self) -> Batch | None:
        """The batch whose acknowledgement is under way to the store, or may have arrived there."""
        return self.saving.batch if self.saving is not None else None

    @property
    def unsure_of(self) -> Batch | None:
        """The batch whose acknowledgement waits to be repeated."""
        return self.saving.batch if self.saving is not None and not self.saving.under_way else None

    @property
    def due(self) -> int | None:
        """The call of the write of the subscription that has to begin now; None if none has to."""
        if self.saving is not None:
            return None
        if self.subscribing is None and self.unsaved and self.durable:
            return OWN_CALL
        return self.subscribing

    def check_none(self) -> None:
        """Return if no write is under way.

        Raises:
            RetryableError: one is.
        """
        if self.saving is not None:
            raise RetryableError(
                f"The cursor of client {self._client_id} is being written.",
                hint="Wait for the answer to the last acknowledgement.",
                retry_after_s=0.05,
            )

    def check_not_forgetting(self) -> None:
        """Return if the subscription is not being removed.

        Raises:
            RetryableError: it is being removed, and the store has not confirmed that yet.
        """
        if self._forgetting is not None:
            raise RetryableError(
                f"The subscription of client {self._client_id} is being removed from the cursor store.",
                hint="The removal is repeated until the store confirms it. Call again later.",
                retry_after_s=0.2,
            )

    def forget(self, call: int) -> None:
        """Note that the store is asked to forget the subscription; no write may be under way."""
        assert self.saving is None, "the store is told one thing at a time"
        self._forgetting, self._forget_under_way = call, True

    def forget_later(self) -> None:
        """Make the next `forget_again` ask the store to forget the subscription."""
        self._forgetting, self._forget_under_way = OWN_CALL, False

    def forget_again(self) -> bool:
        """Return whether the store has to be asked again to forget the subscription; note that it is."""
        again = self._forgetting is not None and not self._forget_under_way
        self._forget_under_way |= again
        return again

    def validate(self) -> None:
        """Assert what holds between two events."""
        assert not (self._forgetting is not None and self.saving is not None), "one thing at a time"
        assert self._forgetting is not None or not self._forget_under_way
        if self.saving is not None:
            assert self.saving.under_way or self.saving.batch is not None, (
                "only acknowledgements are repeated"
            )
            assert self.saving.under_way or self.saving.unsure, "the caller of a repeated write was told"
        assert not self._deferred or self.follows_shards, "calls wait only for a write of our own"

    def begin(self, saving: Saving) -> None:
        """Note that a write begins; it contains what was not stored before."""
        self.saving, self.unsaved = replace(saving, unsaved=self.lacks_shards), False

    def end(self, call: int) -> Saving:
        """Note that the write under way was answered; return it."""
        saving, self.saving = self.saving, None
        assert saving is not None, "an answer to a write that was not requested"
        assert saving.call == call, "an answer to another write than the one under way"
        return saving

    def repeat_later(self, saving: Saving) -> None:
        """Let a write wait to be repeated: it is unknown whether it arrived."""
        self.saving = replace(saving, unsure=True, under_way=False)

    def defer(self, asked: Deferrable) -> None:
        """Let a call wait until the write under way is answered."""
        self._deferred.append(asked)

    def take_deferred(self) -> list[Deferrable]:
        """Return the deferred calls and forget them."""
        deferred, self._deferred = self._deferred, []
        return deferred
