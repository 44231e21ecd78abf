"""A log of what callers can cause who have not shown who they are: bounded in lines and in characters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from canal_group.actors.process.clock import clock_s

#: lines of one logger in a period, seconds; the first line after them says how many were left out
LINES_MAX: Final = 10
PERIOD_S: Final = 10.0
#: characters of a message
CHARS_MAX: Final = 500


def stranger_log(name: str, clock: Callable[[], float] = clock_s) -> logging.Logger:
    """Return the logger of this name, whose lines are bounded from now on."""
    logger = logging.getLogger(name)
    if not any(isinstance(each, _Bound) for each in logger.filters):
        logger.addFilter(_Bound(clock))
    return logger


class _Bound(logging.Filter):
    """Leaves out what is too much, and shortens what is too long."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._began_s = -PERIOD_S
        self._lines = self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        with self._lock:
            now_s = self._clock()
            if now_s >= self._began_s + PERIOD_S:
                self._began_s, self._lines = now_s, 0
            if self._lines == LINES_MAX:
                self._left_out += 1
                return False
            self._lines += 1
            left_out, self._left_out = self._left_out, 0
        message = record.getMessage()
        if len(message) > CHARS_MAX:
            message = f"{message[:CHARS_MAX]}... ({len(message) - CHARS_MAX} characters more)"
        if left_out:
            message += f" ({left_out} lines like this were left out before it)"
        record.msg, record.args = message, None
        return True
