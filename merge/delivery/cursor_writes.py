"""The writes of one subscription to the cursor store.

Rules:

1. At most one write is under way. After a write that acknowledges a batch, the next write waits until it is
   known whether that one arrived. Otherwise the cursor could move backwards.
2. When shards join or leave, or the subscription is dropped, a write that says so is repeated until one has
   arrived.
3. A write of our own follows what happened, or what an operator asked for, who is answered when it has
   arrived. Calls that come during one wait for it; during any other write they are refused.
4. The store is asked to forget a subscription that ends, and one that was refused although its write may have
   arrived. The request is repeated until the store confirms it.
5. The phases are in `write_phase`. A step that is not in that table changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.consumers import Ack, Rollback, Unsubscribe
from canal_group.merge.delivery.write_phase import ACKNOWLEDGING, WRITING, WritePhase, WriteStep, after
from canal_group.merge.errors import RetryableError
from canal_group.merge.events import Asked
from canal_group.merge.instructions import Reply

#: calls that wait for a write of our own
Deferrable: TypeAlias = Asked[Ack] | Asked[Rollback] | Asked[Unsubscribe]
#: call of a write of our own: shards joined or left, or an operator changed the subscription
OWN_CALL = 0


@dataclass(frozen=True, slots=True)
class Write:
    """A write that is under way to the cursor store, or may have arrived there."""

    #: number of the call that the write answers; `OWN_CALL`: the write answers no call
    call: int
    #: the batch that the write acknowledges; None: the write stores a subscription
    batch: Batch | None
    #: the version of the subscription that the write stores
    version: int


class CursorWrites:
    """Tracks the writes of one subscription to the cursor store; see the module's rules.

    Args:
        client_id: whose subscription it is.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self.phase = WritePhase.IDLE
        #: the write of the phase, if it is one of `WRITING`
        self.write: Write | None = None
        #: call of a subscription that is not answered yet
        self.subscribing: int | None = None
        #: answer to the operator who asked for what is being written; None: nobody did
        self.changing: Reply | None = None
        #: grows with each change of rule 2, and each other change that no call asks to store
        self._version = 1
        #: the version that the cursor store is known to have; 0: it does not know the subscription
        self._stored = 0
        #: calls that came during a write of our own
        self._deferred: list[Deferrable] = []

    def _go(self, step: WriteStep) -> None:
        self.phase = after(self.phase, step)

    # ---- what the store has ------------------------------------------------------------------------------

    @property
    def durable(self) -> bool:
        """Whether the cursor store knows the subscription."""
        return self._stored > 0

    @property
    def lacks_changes(self) -> bool:
        """Whether the store is not known to have the latest version of the subscription."""
        return self._stored < self._version

    def restored(self) -> None:
        """Note that the subscription was read from the store."""
        self._stored = self._version

    def changed(self) -> None:
        """Note a change of the subscription, so that a write has to follow."""
        self._version += 1

    # ---- what is under way -------------------------------------------------------------------------------

    @property
    def writing(self) -> bool:
        """Whether a write is under way, or may have arrived."""
        return self.phase in WRITING

    @property
    def follows_shards(self) -> bool:
        """Whether a write of our own is under way; calls wait for it."""
        return self.phase is WritePhase.FOLLOWING

    @property
    def answers_somebody(self) -> bool:
        """Whether a caller waits for a write, or may wait for one of our own."""
        told = (WritePhase.UNSURE, WritePhase.REPEATING)
        return (self.writing and self.phase not in told) or self.subscribing is not None

    @property
    def acknowledging(self) -> Batch | None:
        """The batch whose acknowledgement is under way to the store, or may have arrived there."""
        return self.write.batch if self.write is not None else None

    @property
    def unsure_of(self) -> Batch | None:
        """The batch whose acknowledgement waits to be repeated."""
        return self.acknowledging if self.phase is WritePhase.UNSURE else None

    def check_none(self) -> None:
        """Return if no write is under way.

        Raises:
            RetryableError: one is.
        """
        if self.writing:
            raise RetryableError(
                f"The cursor of client {self._client_id} is being written.",
                hint="Wait for the answer to the last acknowledgement.",
                retry_after_s=0.05,
            )

    def check_stored(self) -> None:
        """Return if the store has the latest version of the subscription.

        Raises:
            RetryableError: it is being written, or was not, and will be.
        """
        self.check_none()
        if self.lacks_changes:
            raise RetryableError(
                f"The last change of client {self._client_id} is not stored yet.", retry_after_s=0.2
            )

    def check_at_rest(self) -> None:
        """Return if no write is under way and no subscription is unanswered; raises as `check_none`."""
        if self.subscribing is not None:
            raise RetryableError(
                f"The subscription of client {self._client_id} is not answered yet.", retry_after_s=0.2
            )
        self.check_none()

    def check_not_forgetting(self) -> None:
        """Return if the subscription is not being removed.

        Raises:
            RetryableError: it is being removed, and the store has not confirmed that yet.
        """
        if self.phase in (WritePhase.FORGETTING, WritePhase.UNFORGOTTEN):
            raise RetryableError(
                f"The subscription of client {self._client_id} is being removed from the cursor store.",
                hint="The removal is repeated until the store confirms it. Call again later.",
                retry_after_s=0.2,
            )

    # ---- writes ------------------------------------------------------------------------------------------

    def store(self) -> Write | None:
        """Begin the write of the subscription that has to begin now; None if none has to."""
        if self.writing:
            return None
        if self.subscribing is not None:
            return self._begin(WriteStep.SUBSCRIBE, self.subscribing, None)
        if self.durable and self.lacks_changes:
            return self._begin(WriteStep.FOLLOW, OWN_CALL, None)
        return None

    def acknowledge(self, call: int, batch: Batch) -> Write:
        """Begin the write that acknowledges a batch."""
        return self._begin(WriteStep.ACK, call, batch)

    def repeat(self) -> Write | None:
        """Begin the acknowledgement again that waits to be repeated; None if none does."""
        if self.phase is not WritePhase.UNSURE:
            return None
        assert self.write is not None, "what is repeated was written before"
        return self._begin(WriteStep.REPEAT, self.write.call, self.write.batch)

    def _begin(self, step: WriteStep, call: int, batch: Batch | None) -> Write:
        self._go(step)
        self.write = Write(call, batch, self._version)
        return self.write

    def saved(self, call: int) -> Write:
        """Note that the store has what was written; return the write."""
        write = self._answered(call, WriteStep.SAVED)
        self._stored = write.version
        return write

    def not_saved(self, call: int, *, retryable: bool) -> Write:
        """Note that the store refused the write, or may have (`retryable`); return the write."""
        return self._answered(call, WriteStep.LOST if retryable else WriteStep.REFUSED)

    def _answered(self, call: int, step: WriteStep) -> Write:
        write = self.write
        assert write is not None, "an answer to a write that was not requested"
        assert write.call == call, "an answer to another write than the one under way"
        self._go(step)
        self.write = write if self.phase is WritePhase.UNSURE else None
        return write

    def take_changing(self) -> Reply | None:
        """Return the answer to the operator who waits for the write that has ended, and forget it."""
        reply, self.changing = self.changing, None
        return reply

    # ---- removals ----------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Note that the store is asked to forget the subscription; no write may be under way."""
        self._go(WriteStep.FORGET)

    def abandon(self) -> None:
        """Make `forget_again` ask the store to forget a subscription that it may have got."""
        self._go(WriteStep.ABANDON)

    def not_forgotten(self) -> None:
        """Note that the store may not have forgotten the subscription; `forget_again` repeats it."""
        self._go(WriteStep.LOST)

    def forget_again(self) -> bool:
        """Return whether the store has to be asked again to forget the subscription; note that it is."""
        again = self.phase is WritePhase.UNFORGOTTEN
        if again:
            self._go(WriteStep.REPEAT)
        return again

    # ---- calls that wait ---------------------------------------------------------------------------------

    def defer(self, asked: Deferrable) -> None:
        """Let a call wait until the write under way is answered."""
        self._deferred.append(asked)

    def take_deferred(self) -> list[Deferrable]:
        """Return the deferred calls and forget them."""
        deferred, self._deferred = self._deferred, []
        return deferred

    def validate(self) -> None:
        """Assert what holds between two events."""
        assert (self.write is not None) == self.writing, "a phase of writing has its write"
        assert (self.acknowledging is not None) == (self.phase in ACKNOWLEDGING), "batches are acknowledged"
        if self.write is not None:
            own = self.write.call == OWN_CALL
            assert own == self.follows_shards, "a write of our own answers no call"
            assert self._stored <= self.write.version <= self._version, "the store gets later versions"
        assert self.changing is None or self.writing, "an operator waits for a write"
        assert not self._deferred or self.follows_shards, "calls wait only for a write of our own"
