"""The tenure that a coordinator holds, shared by the threads of its campaign, its keeper and its callers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from canal_group.merge.errors import CoordinatorUnavailable
from canal_group.merge.values.epoch import Tenure

_log = logging.getLogger(__name__)


class HeldTenure:
    """The last election that was won. Safe to use from several threads.

    Args:
        destination: name of the destination, for messages.
        clock: seconds on a clock that never steps back.
    """

    def __init__(self, destination: str, clock: Callable[[], float]) -> None:
        self._destination = destination
        self._clock = clock
        self._lock = threading.Lock()
        #: the tenure of the last election won; None before the first
        self.last: Tenure | None = None
        #: id of the session that won the election and owns the `running` node
        self.session_id = 0

    def won(self, tenure: Tenure, session_id: int) -> None:
        """Hold the tenure of an election that was won just now."""
        with self._lock:
            self.session_id = session_id
            self.last = tenure

    def require(self) -> Tenure:
        """Return the tenure, if it is still valid.

        Raises:
            CoordinatorUnavailable: not elected yet, or not confirmed for so long that another server may be
                active.
            FencedError: it is over.
        """
        tenure = self.last
        if tenure is None:
            raise CoordinatorUnavailable(
                f"This server stands by for {self._destination}; another one is active."
            )
        tenure.check(self._clock())
        return tenure

    def update(self, seen: Tenure) -> None:
        """Store what was learnt about the tenure, unless it ended or another was won meanwhile."""
        with self._lock:
            current = self.last
            # While ZooKeeper was queried, a campaign may have won again, or the session may have ended.
            if current is None or current.epoch != seen.epoch or current.over:
                return
            self.last = seen
        if seen.over:
            self._log_end(seen)

    def end(self, why: str) -> None:
        """End the tenure, unless it is over already."""
        with self._lock:
            if self.last is None or self.last.over:
                return
            ended = self.last = self.last.ended(why)
        self._log_end(ended)

    def _log_end(self, tenure: Tenure) -> None:
        _log.info(
            "no longer active: %s",
            tenure.over,
            extra={"destination": self._destination, "epoch": tenure.epoch},
        )
