"""Attempts: when a reader that reads by itself asks a dump server again.

A dump server that does not cover the reader's position is asked again after an interval. One that does not
answer, or that was lost right after the reader attached, is asked after a pause that doubles: one that always
fails must not always interrupt its readers.
"""

from __future__ import annotations

from canal_group.merge.back_off import BackOff

#: between two questions of a reader that reads by itself, seconds
INTERVAL_S = 1.0
#: the longest pause after a loss, seconds
PAUSE_MAX_S = 60.0
#: a dump server that served a reader for so long, seconds, is asked at once after it was lost
STABLE_S = 10.0


class Attempts:
    """The attempts of one reader to attach. Times are seconds of any clock that never steps back."""

    def __init__(self) -> None:
        self._next_s = 0.0
        #: whether it only waits for an interval to pass
        self._waits = False
        self._back_off = BackOff(PAUSE_MAX_S)
        self._attached_s: float | None = None

    def due(self, now_s: float) -> bool:
        """Return whether the reader may ask."""
        return self._attached_s is None and now_s >= self._next_s

    def hurry(self) -> None:
        """Let the reader ask at once: what it read meanwhile has ended. A pause after a loss stays."""
        if self._waits:
            self._next_s = 0.0

    def refused(self, now_s: float, *, answered: bool) -> None:
        """Note that the reader did not attach.

        Args:
            now_s: the time.
            answered: whether the dump server said that it does not cover the position.
        """
        if answered:
            self._back_off.reset()
            self._next_s, self._waits = now_s + INTERVAL_S, True
        else:
            self._pause(now_s)

    def attached(self, now_s: float) -> None:
        """Note that the dump server serves the reader."""
        self._attached_s = now_s

    def lost(self, now_s: float) -> None:
        """Note that the dump server no longer serves the reader."""
        served_s = 0.0 if self._attached_s is None else now_s - self._attached_s
        self._attached_s = None
        if served_s >= STABLE_S:
            self._back_off.reset()
            self._next_s = now_s
        else:
            self._pause(now_s)

    def _pause(self, now_s: float) -> None:
        self._waits = False
        self._next_s = now_s + self._back_off.failed(INTERVAL_S, chance=1.0)

    def left(self) -> None:
        """Note that the reader no longer needs the dump server."""
        self._attached_s = None
