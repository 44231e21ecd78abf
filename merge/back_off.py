"""Back-off: the pauses between attempts that fail, which grow, and are random in part."""

from __future__ import annotations

#: after so many failures in a row the pauses grow no more, whatever their limit is
_DOUBLINGS_MAX = 30


class BackOff:
    """The pauses after failures in a row; used by one thread.

    Args:
        max_s: the longest pause, seconds.
    """

    def __init__(self, max_s: float) -> None:
        self._max_s = max_s
        self._failures = 0

    def failed(self, first_s: float, chance: float) -> float:
        """Count a failure; return how long to wait, seconds: up to a limit that doubles with each failure.

        Args:
            first_s: the limit after a first failure.
            chance: a random number from 0 to 1, which decides half of the pause, so that many who failed
                together do not try again together. 1: the whole limit.
        """
        limit_s = min(first_s * 2.0 ** min(self._failures, _DOUBLINGS_MAX), self._max_s)
        self._failures += 1
        return limit_s * (1 + chance) / 2

    def reset(self) -> None:
        """Note a success: the next failure is the first one again."""
        self._failures = 0
