"""The phases of a subscription's conversation with the cursor store, and the steps between them.

    IDLE ── follow ────▶ FOLLOWING ────▶ IDLE
    IDLE ── subscribe ─▶ SUBSCRIBING ──▶ IDLE
    IDLE ── ack ───────▶ ACKING ───────▶ IDLE
                           └── lost ──▶ UNSURE ◀── lost ── REPEATING ──▶ IDLE
                                          └───── repeat ─────▲
    IDLE ── forget ────▶ FORGETTING ◀── repeat ── UNFORGOTTEN ◀── abandon ── IDLE
                           └────────── lost ───────▲

A write that was saved or refused leads back to IDLE. When the store has forgotten the subscription, nothing
is left of it here.
"""

from __future__ import annotations

from enum import StrEnum


class WritePhase(StrEnum):
    """What the cursor store is asked, and whether its answer is awaited."""

    #: nothing
    IDLE = "idle"
    #: a write of our own, which answers no call
    FOLLOWING = "following"
    #: a write that answers a subscription
    SUBSCRIBING = "subscribing"
    #: a write that acknowledges a batch; the caller waits for the answer
    ACKING = "acking"
    #: it is unknown whether an acknowledgement arrived, and the caller was told; it waits to be repeated
    UNSURE = "unsure"
    #: such an acknowledgement is under way again
    REPEATING = "repeating"
    #: to forget the subscription
    FORGETTING = "forgetting"
    #: it may have the subscription, which has ended; it waits to be asked again to forget it
    UNFORGOTTEN = "unforgotten"


class WriteStep(StrEnum):
    """An event of the conversation with the cursor store."""

    #: a write of our own begins
    FOLLOW = "follow"
    #: a write that answers a subscription begins
    SUBSCRIBE = "subscribe"
    #: a write that acknowledges a batch begins
    ACK = "ack"
    #: what the store has not confirmed begins again
    REPEAT = "repeat"
    #: the store has what was written
    SAVED = "saved"
    #: the store has refused the write
    REFUSED = "refused"
    #: the store gave no answer, so the write may or may not have arrived
    LOST = "lost"
    #: the consumer has unsubscribed: the store is asked to forget the subscription
    FORGET = "forget"
    #: the first write of a subscription failed, and may have arrived
    ABANDON = "abandon"


#: phases in which a write is under way, or may have arrived
WRITING = frozenset(
    {
        WritePhase.FOLLOWING,
        WritePhase.SUBSCRIBING,
        WritePhase.ACKING,
        WritePhase.UNSURE,
        WritePhase.REPEATING,
    }
)
#: the phases of a write that acknowledges a batch
ACKNOWLEDGING = frozenset({WritePhase.ACKING, WritePhase.UNSURE, WritePhase.REPEATING})

#: a pair that is missing here cannot happen
_NEXT: dict[tuple[WritePhase, WriteStep], WritePhase] = {
    (WritePhase.IDLE, WriteStep.FOLLOW): WritePhase.FOLLOWING,
    (WritePhase.IDLE, WriteStep.SUBSCRIBE): WritePhase.SUBSCRIBING,
    (WritePhase.IDLE, WriteStep.ACK): WritePhase.ACKING,
    (WritePhase.UNSURE, WriteStep.ACK): WritePhase.ACKING,
    (WritePhase.UNSURE, WriteStep.REPEAT): WritePhase.REPEATING,
    (WritePhase.FOLLOWING, WriteStep.SAVED): WritePhase.IDLE,
    (WritePhase.SUBSCRIBING, WriteStep.SAVED): WritePhase.IDLE,
    (WritePhase.ACKING, WriteStep.SAVED): WritePhase.IDLE,
    (WritePhase.REPEATING, WriteStep.SAVED): WritePhase.IDLE,
    (WritePhase.FOLLOWING, WriteStep.REFUSED): WritePhase.IDLE,
    (WritePhase.SUBSCRIBING, WriteStep.REFUSED): WritePhase.IDLE,
    (WritePhase.ACKING, WriteStep.REFUSED): WritePhase.IDLE,
    (WritePhase.REPEATING, WriteStep.REFUSED): WritePhase.IDLE,
    # Only acknowledgements are repeated as they were: another write of a subscription begins anew.
    (WritePhase.FOLLOWING, WriteStep.LOST): WritePhase.IDLE,
    (WritePhase.SUBSCRIBING, WriteStep.LOST): WritePhase.IDLE,
    (WritePhase.ACKING, WriteStep.LOST): WritePhase.UNSURE,
    (WritePhase.REPEATING, WriteStep.LOST): WritePhase.UNSURE,
    (WritePhase.IDLE, WriteStep.FORGET): WritePhase.FORGETTING,
    (WritePhase.IDLE, WriteStep.ABANDON): WritePhase.UNFORGOTTEN,
    (WritePhase.FORGETTING, WriteStep.LOST): WritePhase.UNFORGOTTEN,
    (WritePhase.UNFORGOTTEN, WriteStep.REPEAT): WritePhase.FORGETTING,
}


def after(phase: WritePhase, step: WriteStep) -> WritePhase:
    """Return the phase that a step leads to."""
    assert (phase, step) in _NEXT, f"a conversation with the cursor store that is {phase} has no {step}"
    return _NEXT[phase, step]
