"""Load limits: when a page may be read, so that its server has time for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from canal_group.actors.ports import Host, ThreadEvent

#: how often a server that does much is asked again, seconds
_ASK_FIRST_S, _ASK_MAX_S = 0.1, 2.0
#: how long an answer counts, seconds
_COUNTS_S: Final = 0.25
#: longest part of a wait after which a stop is noticed
_PART_S: Final = 1.0


class LoadLimit:
    """How fast one shard's pages are read. Safe to use from several threads.

    Args:
        rows_per_s: most rows a second; None: any number.
        limits: of what the server does beside, see `canal_group.binlog.snapshot.server_load`.
        host: its clock.
    """

    def __init__(self, rows_per_s: int | None, limits: Mapping[str, float], host: Host) -> None:
        self._rows_per_s, self._limits = rows_per_s, limits
        self._clock_s, self._lock = host.clock_s, host.lock()
        #: when the rows that were read are paid for, seconds
        self._paid_at_s = host.clock_s()
        #: until when the server counts as idle enough, seconds
        self._idle_until_s = float("-inf")

    def was_read(self, rows: int) -> None:
        """Note rows that were read."""
        if self._rows_per_s is not None:
            with self._lock:
                self._paid_at_s = max(self._paid_at_s, self._clock_s()) + rows / self._rows_per_s

    def wait(
        self,
        excess: Callable[[Mapping[str, float]], str | None],
        stopped: ThreadEvent,
        say: Callable[[str | None], None],
    ) -> None:
        """Wait until a page may be read, or for a stop.

        Args:
            excess: returns the limit that the server exceeds, None: none; raises as it.
            stopped: set for a stop.
            say: is told what is waited for; None: nothing.
        """
        while (left_s := self._paid_at_s - self._clock_s()) > 0 and not stopped.is_set():
            stopped.wait(min(left_s, _PART_S))
        pause_s = _ASK_FIRST_S
        while self._limits and self._clock_s() >= self._idle_until_s and not stopped.is_set():
            found = excess(self._limits)
            if found is None:
                self._idle_until_s = self._clock_s() + _COUNTS_S
                break
            say(found)
            stopped.wait(pause_s)
            pause_s = min(2 * pause_s, _ASK_MAX_S)
        say(None)
