"""How long and how often a consumer tries while a server is away or fails over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from merge.errors import RetryableError

#: the longest pause between two attempts, seconds
PAUSE_MAX_S = 2.0
#: pauses grow by this much, and differ by up to this part, so that consumers do not come all at once
_GROWTH, _SPREAD = 1.5, 0.25

T = TypeVar("T")


def keep_trying(
    attempt: Callable[[], T],
    retried: tuple[type[RetryableError], ...],
    deadline_s: float | None,
    wait: Callable[[float], object],
) -> T:
    """Call until it succeeds, with growing pauses.

    Args:
        attempt: what is called; it must be harmless to repeat.
        retried: the errors after which it is.
        deadline_s: on the monotonic clock; None: for ever.
        wait: waits so many seconds; returns something true if nobody is interested any more.

    Raises:
        RetryableError: the last error, when the deadline would pass before the next attempt.
    """
    growth = 1.0
    while True:
        try:
            return attempt()
        except retried as error:
            pause_s = min(error.retry_after_s * growth, PAUSE_MAX_S)
            pause_s *= 1 + random.uniform(0, _SPREAD)  # noqa: S311  no secret
            if (deadline_s is not None and time.monotonic() + pause_s > deadline_s) or wait(pause_s):
                raise
            growth *= _GROWTH
