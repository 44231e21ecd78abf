"""Retry policy of a consumer while a server is unavailable or fails over."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import RetryableError

_log = logging.getLogger(__name__)

#: the longest pause between two attempts, seconds
PAUSE_MAX_S = 1.0
#: after how long a call that is repeated is logged, seconds; and again whenever that has doubled
TOLD_AFTER_S = 5.0

T = TypeVar("T")


def keep_trying(
    attempt: Callable[[], T],
    retried: tuple[type[RetryableError], ...],
    deadline_s: float | None,
    wait: Callable[[float], object],
) -> T:
    """Call until the call succeeds, with growing pauses; log why if that takes long.

    Args:
        attempt: the call; it must be safe to repeat.
        retried: the errors after which it is repeated.
        deadline_s: on the monotonic clock; None: no deadline.
        wait: waits this many seconds; returns a true value to stop retrying.

    Raises:
        RetryableError: the last error, when the deadline would pass before the next attempt.
    """
    back_off = BackOff(PAUSE_MAX_S)
    begun_s, told_at_s = time.monotonic(), TOLD_AFTER_S
    while True:
        try:
            return attempt()
        except retried as error:
            pause_s = back_off.failed(2 * error.retry_after_s, random.random())  # noqa: S311  no secret
            # Half of a pause is random, and none is shorter than the error asks for.
            pause_s = max(pause_s, min(error.retry_after_s, PAUSE_MAX_S))
            waited_s = time.monotonic() - begun_s
            if waited_s >= told_at_s:
                told_at_s = 2 * waited_s
                _log.warning("has waited for %.0f s, and waits on: %s", waited_s, error)
            if (deadline_s is not None and time.monotonic() + pause_s > deadline_s) or wait(pause_s):
                raise
