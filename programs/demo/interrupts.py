"""Interrupts: Ctrl-C and SIGTERM end the work once, and do not disturb the stopping of what was started."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR: Final = 2
_SAID: Final = b"Interrupted: stopping what was started; this takes some seconds.\n"


class Interrupts:
    """While inside, the first signal says so on stderr and raises KeyboardInterrupt in the main thread.

    A context manager.

    Outside of the main thread it does nothing: signals are not this thread's.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._ignored = False
        self._deferring = False
        self._deferred = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Let a signal wait until the work inside is done, well or not; then it is raised."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
            if self._deferred and not self._ignored:
                self._ignored = True
                raise KeyboardInterrupt

    def ignore(self) -> None:
        """From now on let signals pass: whoever works is stopping."""
        self._ignored = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._ignored or self._deferred:
            return
        # Not by a stream, which the main thread may be in the middle of writing to. On a terminal the line of
        # progress has no end.
        os.write(_STDERR, b"\n" + _SAID if os.isatty(_STDERR) else _SAID)
        if self._deferring:
            self._deferred = True
        else:
            self._ignored = True
            raise KeyboardInterrupt
