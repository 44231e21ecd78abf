"""The phases of a subscriber, and what leads from one to the next.

    WAITING ── place ──▶ READING
       ▲                    │
       └── rewind ── SEEKING ◀── seek

A subscriber of these three phases is *kept*: the rings hold what it has not acknowledged. One of the others
holds nothing. `resume` makes it kept again; LEAVING is the last phase.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """What a subscriber is to the stream."""

    #: it has no place in the merged log: merging has not begun
    WAITING = "waiting"
    #: it has its place in the merged log
    READING = "reading"
    #: it was positioned before the log's start: the shards have to be opened again
    SEEKING = "seeking"
    #: it was away for too long: its consumer has to say where to go on
    DROPPED = "dropped"
    #: a source has purged what follows its cursor: its consumer has to say where to go on
    PURGED = "purged"
    #: unsubscribed; the cursor store has not confirmed it yet
    LEAVING = "leaving"


class Step(StrEnum):
    """What happens to a subscriber."""

    #: merging began: it gets its place in the log
    PLACE = "place"
    #: the log is gone
    REWIND = "rewind"
    #: its consumer reads from a position that the log does not hold
    SEEK = "seek"
    #: it was away for too long
    DROP = "drop"
    #: a source has purged what follows its cursor
    PURGE = "purge"
    #: its consumer said where to go on
    RESUME = "resume"
    #: it was unsubscribed
    LEAVE = "leave"


KEPT = frozenset({Phase.WAITING, Phase.READING, Phase.SEEKING})

#: what is not here cannot happen
_NEXT: dict[tuple[Phase, Step], Phase] = {
    (Phase.WAITING, Step.PLACE): Phase.READING,
    (Phase.READING, Step.PLACE): Phase.READING,
    (Phase.SEEKING, Step.PLACE): Phase.READING,
    (Phase.WAITING, Step.REWIND): Phase.WAITING,
    (Phase.READING, Step.REWIND): Phase.WAITING,
    (Phase.SEEKING, Step.REWIND): Phase.WAITING,
    (Phase.DROPPED, Step.REWIND): Phase.DROPPED,
    (Phase.PURGED, Step.REWIND): Phase.PURGED,
    (Phase.LEAVING, Step.REWIND): Phase.LEAVING,
    (Phase.WAITING, Step.SEEK): Phase.SEEKING,
    (Phase.READING, Step.SEEK): Phase.SEEKING,
    (Phase.SEEKING, Step.SEEK): Phase.SEEKING,
    (Phase.PURGED, Step.SEEK): Phase.SEEKING,
    (Phase.WAITING, Step.DROP): Phase.DROPPED,
    (Phase.READING, Step.DROP): Phase.DROPPED,
    (Phase.SEEKING, Step.DROP): Phase.DROPPED,
    (Phase.WAITING, Step.PURGE): Phase.PURGED,
    (Phase.READING, Step.PURGE): Phase.PURGED,
    (Phase.SEEKING, Step.PURGE): Phase.PURGED,
    (Phase.PURGED, Step.DROP): Phase.DROPPED,
    (Phase.DROPPED, Step.RESUME): Phase.WAITING,
    (Phase.PURGED, Step.RESUME): Phase.WAITING,
    **{(phase, Step.LEAVE): Phase.LEAVING for phase in Phase if phase is not Phase.LEAVING},
}


def after(phase: Phase, step: Step) -> Phase:
    """Return the phase that a step leads to."""
    assert (phase, step) in _NEXT, f"a subscriber that is {phase} cannot {step}"
    return _NEXT[phase, step]
