"""Visibility: what proves which of a server's transactions a page sees, also where GTIDs do not."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from canal_group.binlog.server.semi_sync.source_side import waits_ms
from canal_group.binlog.server.source import ServerFacts
from canal_group.merge.snapshot.point import LogOffset

#: ends of a log that are remembered until the first one counts
_ENDS: Final = 16


def proof_found(facts: ServerFacts, visible_after_s: float | None, *, exact: bool) -> tuple[bool, str, str]:
    """Return whether something proves what pages of a server see, what that is, and what mends it.

    Args:
        facts: what the server reports about itself.
        visible_after_s: how long after it was written a transaction can be read at the latest, by the
            settings; None: they do not say.
        exact: whether a snapshot says where it is.
    """
    if exact:
        return True, "exact: a snapshot says where in the binlog it is", ""
    if facts.gtids:
        return True, "by GTIDs: what was executed before a page, and what is written after it", ""
    proves = "Set gtid_mode = ON, which proves it"
    if visible_after_s is None:
        says = "not proven: the server has no GTIDs"
        return False, says, f"{proves}, or snapshot.visible_after_s to when a commit can be read."
    waits_s = waits_ms(facts.variables) / 1000
    if waits_s >= visible_after_s:
        says = f"not proven: a COMMIT waits up to {waits_s:g} s for a replica, and can be read only then"
        return False, says, f"{proves}, or snapshot.visible_after_s above {waits_s:g}."
    return True, f"by time: a commit can be read after {visible_after_s:g} s, the settings say", f"{proves}."


class SettledLog:
    """Where a server's binlog ended, and when: all before an end that is old enough can be read.

    Safe to use from several threads.

    Args:
        after_s: how long after it was written a transaction can be read at the latest.
        clock_s: returns a time that only grows, seconds.
    """

    def __init__(self, after_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.after_s, self._clock_s = after_s, clock_s
        self._lock = Lock()
        self._server = ""
        #: when it was seen, and the end; each after the one before
        self._ends: deque[tuple[float, LogOffset]] = deque()

    def written(self, server: str, end: LogOffset) -> None:
        """Note where the binlog of a server ends now."""
        with self._lock:
            now_s, ends = self._clock_s(), self._ends
            if server != self._server:
                self._server = server
                ends.clear()
            is_new = not ends or end.is_after(ends[-1][1])
            if is_new and (not ends or now_s - ends[-1][0] >= self.after_s / _ENDS):
                ends.append((now_s, end))
            while len(ends) > 1 and ends[1][0] + self.after_s <= now_s:
                ends.popleft()

    def settled(self, server: str) -> LogOffset | None:
        """Return up to where all of a server's binlog can be read; None: that is not known yet."""
        with self._lock:
            before_s = self._clock_s() - self.after_s
            old = [end for at_s, end in self._ends if at_s <= before_s and server == self._server]
            return old[-1] if old else None
