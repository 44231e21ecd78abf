"""The writes of one subscription to the cursor store.

Rules:

1. One write at a time is on its way. None follows one that acknowledges until it is known whether that
   arrived: the cursor would move backwards.
2. That shards joined or left, or that the subscription was dropped, is written until a write which says so
   has arrived.
3. Calls that come during a write which nobody asked for wait for it; during any other they are refused.
4. A subscription that ends, or that was refused though its write may have arrived, is forgotten by the store:
   that is asked for again until the store says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from merge.delivery.ledger import Batch
from merge.errors import RetryableError
from merge.events import AckRequested, RollbackRequested, UnsubscribeRequested

#: calls that wait for a write which nobody asked for
Deferrable: TypeAlias = AckRequested | RollbackRequested | UnsubscribeRequested
#: call of a write that nobody asked for: shards joined or left
OWN_CALL = 0


@dataclass(frozen=True, slots=True)
class Saving:
    """A write that is on its way to the cursor store, or may be there."""

    #: whom it answers; `OWN_CALL`: nobody
    call: int
    #: what it acknowledges; None: it stores a subscription
    batch: Batch | None
    #: whether the caller was told that nobody knows whether it was written
    unsure: bool = False
    #: False: it waits to be repeated
    under_way: bool = True
    #: whether no write before it is known to have told the store what rule 2 is about
    unsaved: bool = False


class CursorWrites:
    """What the cursor store knows of one subscription, and what is on its way there; see the module's rules.

    Args:
        client_id: whose subscription it is.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        #: whether the cursor store knows the subscription
        self.durable = False
        #: call of a subscription that is not answered yet
        self.subscribing: int | None = None
        #: what is on its way to the cursor store
        self.saving: Saving | None = None
        #: whether the stored subscription lacks that shards joined or left, or that it was dropped
        self.unsaved = False
        #: calls that came during a write that nobody asked for
        self._deferred: list[Deferrable] = []
        #: call that asked the store to forget the subscription; None: it is not to be forgotten
        self._forgetting: int | None = None
        #: whether the store's answer to that is awaited
        self._forget_under_way = False

    @property
    def lacks_shards(self) -> bool:
        """Whether the store is not known to have what rule 2 is about."""
        return self.unsaved or (self.saving is not None and self.saving.unsaved)

    @property
    def follows_shards(self) -> bool:
        """Whether one is under way because shards joined or left; calls wait for that."""
        return self.saving is not None and self.saving.call == OWN_CALL

    @property
    def answers_somebody(self) -> bool:
        """Whether somebody waits for a write."""
        saving = self.saving is not None and not self.saving.unsure
        return saving or self.subscribing is not None

    @property
    def acknowledging(self) -> Batch | None:
        """The batch whose acknowledgement is on its way, or may be there."""
        return self.saving.batch if self.saving is not None else None

    @property
    def unsure_of(self) -> Batch | None:
        """The batch whose acknowledgement waits to be repeated."""
        return self.saving.batch if self.saving is not None and not self.saving.under_way else None

    @property
    def due(self) -> int | None:
        """The call of a write of the subscription that has to be begun now; None: there is none."""
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
        """Return if the subscription is not to be forgotten.

        Raises:
            RetryableError: it is, and it is not known yet whether the store has done so.
        """
        if self._forgetting is not None:
            raise RetryableError(
                f"The subscription of client {self._client_id} is being removed from the cursor store.",
                hint="It is tried until the store confirms it; call again.",
                retry_after_s=0.2,
            )

    def forget(self, call: int) -> None:
        """Take note that the store is asked to forget the subscription; no write may be under way."""
        assert self.saving is None, "the store is told one thing at a time"
        self._forgetting, self._forget_under_way = call, True

    def forget_later(self) -> None:
        """Let the store be asked to forget the subscription by the next `forget_again`."""
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
            assert self.saving.under_way or self.saving.unsure, "who repeats a write has told its caller"
        assert not self._deferred or self.follows_shards, "calls wait for a write that nobody asked for only"

    def begin(self, saving: Saving) -> None:
        """Take note of a write that begins. What was not stored is in it."""
        self.saving, self.unsaved = replace(saving, unsaved=self.lacks_shards), False

    def end(self, call: int) -> Saving:
        """Take note that a write was answered; return which."""
        saving, self.saving = self.saving, None
        assert saving is not None, "an answer to a write that nobody asked for"
        assert saving.call == call, "an answer to another write than the one under way"
        return saving

    def repeat_later(self, saving: Saving) -> None:
        """Let a write wait to be repeated: nobody knows whether it arrived."""
        self.saving = replace(saving, unsure=True, under_way=False)

    def defer(self, call: Deferrable) -> None:
        """Let a call wait until the write under way is answered."""
        self._deferred.append(call)

    def take_deferred(self) -> list[Deferrable]:
        """Return the calls that waited; they wait no more."""
        deferred, self._deferred = self._deferred, []
        return deferred
