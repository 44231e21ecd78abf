"""An asyncio loop on a thread of its own, for processes whose other work runs on blocking threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, until the process ends.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name=name, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work on the loop; return a future of its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)
