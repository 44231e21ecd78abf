"""Counters: what a publisher has done since its process began, for metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pyarrow.compute as pc

from canal_group.merge.values.position import GroupPosition
from canal_group.programs.output.messages import Messages

_US = 1_000_000


class Counters:
    """Counts. The publisher's thread writes; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_publishing = False
        self._messages = self._bytes = self._batches = self._rollbacks = 0
        self._errors: Counter[str] = Counter()
        self._confirmed_us: int | None = None
        self._position_us: int | None = None

    @property
    def messages(self) -> int:
        """Messages that were confirmed."""
        return self._messages

    def opened(self, position: GroupPosition) -> None:
        """Record that publishing goes on after a position."""
        with self._lock:
            self._is_publishing = True
            self._position_us = _commit_us(position)

    def confirmed(self, messages: Messages, position: GroupPosition) -> None:
        """Count a batch that the output has confirmed, with the position after it."""
        sizes = [_bytes(column) for column in (messages.value, messages.key) if column is not None]
        with self._lock:
            self._messages += len(messages)
            self._bytes += sum(sizes)
            self._batches += 1
            self._confirmed_us = time.time_ns() // 1_000
            self._position_us = _commit_us(position)

    def rolled_back(self) -> None:
        """Count that batches are read again because the server took them back."""
        with self._lock:
            self._rollbacks += 1

    def failed(self, error: str) -> None:
        """Count a failure, by the name of its error; publishing pauses."""
        with self._lock:
            self._errors[error] += 1
            self._is_publishing = False

    def stopped(self) -> None:
        """Record that nothing is published until the next `opened`."""
        with self._lock:
            self._is_publishing = False

    def describe(self) -> dict[str, Any]:
        """Return all counts; times are microseconds since 1970 UTC, None if there is none yet."""
        with self._lock:
            lag_us = (
                None
                if self._confirmed_us is None or self._position_us is None
                else max(0, self._confirmed_us - self._position_us)
            )
            return {
                "publishing": self._is_publishing,
                "messages": self._messages,
                "bytes": self._bytes,
                "batches": self._batches,
                "rollbacks": self._rollbacks,
                "errors": dict(self._errors),
                "confirmed_us": self._confirmed_us,
                "position_us": self._position_us,
                "lag_s": None if lag_us is None else lag_us / _US,
            }


def _commit_us(position: GroupPosition) -> int | None:
    """Return the commit time of the last transaction before a position."""
    return max((each.commit_us for each in position.shards.values() if each.commit_us), default=None)


def _bytes(column: Any) -> int:
    return int(pc.sum(pc.binary_length(column)).as_py() or 0)
