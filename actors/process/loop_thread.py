"""An asyncio loop on a thread of its own, for processes whose other work runs on blocking threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, until it is ended or the process ends.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work on the loop; return a future of its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function on the loop."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def end(self, after_s: float) -> None:
        """End the thread; nothing may be started from now on.

        Args:
            after_s: how long what runs may take to come to its end, seconds.
        """
        self._loop.call_soon_threadsafe(self._loop.call_later, after_s, self._loop.stop)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()
