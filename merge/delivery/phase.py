"""The phases of a subscriber, and the steps between them.

    WAITING ── place ──▶ READING
       ▲                    │
       └── rewind ── SEEKING ◀── seek

A subscriber in one of these three phases is *kept*: the rings hold what it has not acknowledged. In the other
phases the rings hold nothing for it. `resume` makes it kept again; LEAVING is the last phase.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """State of a subscriber."""

    #: it has no read position in the merged log: merging has not begun
    WAITING = "waiting"
    #: it has a read position in the merged log
    READING = "reading"
    #: it was positioned before the log's start: the shards have to be opened again
    SEEKING = "seeking"
    #: it was inactive for too long: its consumer has to say where to continue
    DROPPED = "dropped"
    #: a source has purged the binlog that follows its cursor: its consumer has to say where to continue
    PURGED = "purged"
    #: unsubscribed; the cursor store has not confirmed it yet
    LEAVING = "leaving"


class Step(StrEnum):
    """An event of a subscriber that changes its phase."""

    #: merging began: it gets its read position in the log
    PLACE = "place"
    #: the log is gone
    REWIND = "rewind"
    #: its consumer reads from a position that the log does not hold
    SEEK = "seek"
    #: it was inactive for too long
    DROP = "drop"
    #: a source has purged the binlog that follows its cursor
    PURGE = "purge"
    #: its consumer said where to continue
    RESUME = "resume"
    #: it was unsubscribed
    LEAVE = "leave"


KEPT = frozenset({Phase.WAITING, Phase.READING, Phase.SEEKING})

#: a pair that is missing here cannot happen
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
