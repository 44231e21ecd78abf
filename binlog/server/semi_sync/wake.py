"""Wake: lets any thread end the wait of the thread that reads a source."""

from __future__ import annotations

import os
import threading


class Wake:
    """A descriptor that becomes readable when another thread calls `set`; it can be polled with a socket."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a closed descriptor's number may be another file's
        self._descriptor: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor; -1 after `close`."""
        return -1 if self._descriptor is None else self._descriptor

    def set(self) -> None:
        """Make the descriptor readable; does nothing after `close`."""
        with self._lock:
            if self._descriptor is not None:
                os.eventfd_write(self._descriptor, 1)

    def clear(self) -> None:
        """Make the descriptor unreadable again; call it from the thread that closes."""
        if self._descriptor is not None:
            os.eventfd_read(self._descriptor)

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)
