"""Back-off: growing pauses between attempts, half of each random, so that publishers spread."""

from __future__ import annotations

import random


class Backoff:
    """The pauses after failures that follow each other.

    Args:
        first_s: the first pause, seconds.
        max_s: the longest, seconds.
    """

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s, self._max_s = first_s, max_s
        self._next_s = first_s

    def pause_s(self) -> float:
        """Return the next pause."""
        pause_s = self._next_s
        self._next_s = min(self._next_s * 2, self._max_s)
        return pause_s * (0.5 + random.random() / 2)  # noqa: S311  no secret

    def reset(self) -> None:
        """Begin with the first pause again: something has succeeded."""
        self._next_s = self._first_s
