"""The host of a process: clocks, threads, and ending the process.

The production adapter of `canal_group.actors.ports.Host`. `tests/simulation` has another one, with simulated
time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from canal_group.actors.ports import Condition, Lock, ThreadEvent
from canal_group.actors.process.clock import clock_s

_T = TypeVar("_T")


class OsHost:
    """The operating system. Safe to use from several threads."""

    def now_us(self) -> int:
        """Return microseconds on the clock that the group's events carry; it never steps back."""
        return time.monotonic_ns() // 1000

    def clock_s(self) -> float:
        """Return seconds on the clock for deadlines, see `canal_group.actors.process.clock`."""
        return clock_s()

    def lock(self) -> Lock:
        """Return a lock of `threading`."""
        return threading.Lock()

    def condition(self, lock: Lock) -> Condition:
        """Return a condition of `threading` under a lock that `lock` made."""
        assert isinstance(lock, type(threading.Lock())), "it is one of ours"
        return threading.Condition(lock)

    def event(self) -> ThreadEvent:
        """Return an event of `threading`."""
        return threading.Event()

    def start(self, run: Callable[[], None], name: str) -> threading.Thread:
        """Run `run` on a daemon thread."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    async def blocking(self, run: Callable[..., _T], *arguments: object) -> _T:
        """Return the result of `run`, which blocks a thread and not the loop."""
        return await asyncio.to_thread(run, *arguments)

    def end(self) -> NoReturn:
        """End the process at once."""
        logging.shutdown()
        os._exit(1)


#: the host of this process
OS_HOST = OsHost()
