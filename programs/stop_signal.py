"""Stop signals: an event that a handler of a signal sets.

A handler runs in the main thread, between any two of its steps. An `Event` has a lock, which that thread may
hold while it begins or ends to wait: its `set` would wait for ever.
"""

from __future__ import annotations

import contextlib
import threading
from queue import Empty, SimpleQueue


class StopSignal(threading.Event):
    """An event that a signal handler may set inside any method of the waiting thread."""

    def __init__(self) -> None:
        super().__init__()
        #: its `put` takes no lock that an interrupted `get` could hold
        self._news: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it, from a signal's handler too."""
        self._is_set = True
        self._news.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, `timeout` seconds at most; return whether it is."""
        if not self._is_set:
            with contextlib.suppress(Empty):
                self._news.get(timeout=timeout)
        return self._is_set
