"""Calls of one listener that are being answered, by caller: limit the number of each, and of all together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from canal_group.merge.errors import ServerUnavailable

#: questions to sources and shards that are answered at once, such as where a transaction is: of one caller,
#: and of all together
QUESTIONS_MAX = 4
ALL_QUESTIONS_MAX = 16


class Calls:
    """Counts calls by their callers' names. Safe to use from several threads.

    Args:
        each_max: calls of one caller at once.
        all_max: calls of all together; None: as many as the callers may have.
    """

    def __init__(self, each_max: int, all_max: int | None = None) -> None:
        self._each_max, self._all_max = each_max, all_max
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def begin(self, name: str) -> bool:
        """Return whether one more may be answered; it is counted then, until it ends."""
        with self._lock:
            if self._counts[name] >= self._each_max or self._counts.total() == self._all_max:
                return False
            self._counts[name] += 1
            return True

    def end(self, name: str) -> None:
        """Count one answered call less."""
        with self._lock:
            self._counts[name] -= 1

    @contextmanager
    def one_of(self, name: str) -> Iterator[None]:
        """Count a question while the context is entered.

        Raises:
            ServerUnavailable: too many are being answered.
        """
        if not self.begin(name):
            raise ServerUnavailable(
                f"Too many questions are in progress: {name} may have {self._each_max}, and all callers"
                f" {self._all_max}.",
                hint="Ask again when they are answered.",
            )
        try:
            yield
        finally:
            self.end(name)
