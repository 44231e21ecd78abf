"""Gateway counters: calls, errors and sent rows since the gateway's process started, for metrics."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: upper bounds of the classes of call durations, seconds; a last class has no bound
DURATIONS_S = (0.0025, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0)
#: what calls count as whose name is not known
UNKNOWN = "unknown"


@dataclass(slots=True)
class _Calls:
    seconds: float = 0.0
    #: calls by class of duration
    durations: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(len(DURATIONS_S) + 1, dtype=np.int64)
    )
    #: errors by name
    errors: Counter[str] = field(default_factory=Counter)


class GatewayCounters:
    """Counts calls. Safe to use from several threads.

    Args:
        requests: names that are counted; others count together as `UNKNOWN`.
    """

    def __init__(self, requests: Collection[str]) -> None:
        self._requests = frozenset(requests)
        self._calls: defaultdict[str, _Calls] = defaultdict(_Calls)
        self._sent_rows = self._sent_bytes = self._empty_gets = 0
        self._lock = threading.Lock()

    def called(self, request: str, seconds: float, error: str = "") -> None:
        """Count a call that was answered.

        Args:
            request: its name.
            seconds: how long the answer took; that of a `get` includes its wait for rows.
            error: the error's name; empty: none.
        """
        with self._lock:
            calls = self._calls[request if request in self._requests else UNKNOWN]
            calls.seconds += seconds
            calls.durations[np.searchsorted(DURATIONS_S, seconds)] += 1
            if error:
                calls.errors[error] += 1

    def no_batch(self) -> None:
        """Count a `get` whose answer had no batch."""
        with self._lock:
            self._empty_gets += 1

    def sent(self, rows: int, size: int) -> None:
        """Count rows that are sent or lent, and their bytes in memory."""
        with self._lock:
            self._sent_rows += rows
            self._sent_bytes += size

    @property
    def calls(self) -> int:
        """How many calls were answered."""
        with self._lock:
            return sum(int(calls.durations.sum()) for calls in self._calls.values())

    def describe(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        with self._lock:
            return {
                "sent_rows": self._sent_rows,
                "sent_bytes": self._sent_bytes,
                "empty_gets": self._empty_gets,
                "calls": {
                    request: {
                        "seconds": calls.seconds,
                        "durations": calls.durations.tolist(),
                        "errors": dict(calls.errors),
                    }
                    for request, calls in self._calls.items()
                },
            }
