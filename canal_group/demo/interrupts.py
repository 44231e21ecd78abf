"""Interrupts: Ctrl-C and SIGTERM end the work once, and do not disturb the stopping of what was started."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While inside, the first signal raises KeyboardInterrupt in the main thread; a context manager.

    Outside of the main thread it does nothing: signals are not this thread's.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._ignored = False

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
        if not self._ignored:
            self._ignored = True
            raise KeyboardInterrupt
