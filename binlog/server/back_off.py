"""Back-off: how long a reader waits before it connects to its source again."""

from __future__ import annotations

import random

#: limits of the first pause and of the longest ones, seconds
FIRST_S = 0.1
LONGEST_S = 10.0
_DOUBLINGS_MAX = 10


class BackOff:
    """The pauses between attempts of one reader; used by one thread."""

    def __init__(self) -> None:
        self._failures = 0
        self._random = random.Random()  # noqa: S311 - jitter

    def failed(self) -> float:
        """Count a failure; return how long to wait, seconds: a limit that doubles with each failure in a row.

        Half of it is random jitter, so that readers do not reconnect together.
        """
        limit_s = min(LONGEST_S, FIRST_S * 2.0 ** min(self._failures, _DOUBLINGS_MAX))
        self._failures += 1
        return limit_s * (0.5 + self._random.random() / 2)

    def reached(self) -> None:
        """Note that the source has sent something: the next failure is the first one again."""
        self._failures = 0
