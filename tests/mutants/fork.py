"""Forks of this process; each writes an answer, or ends without one."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Name = TypeVar("Name")

#: how long a fork may wait for something that does not come
STUCK_S = 120.0


@dataclass(frozen=True)
class _Fork(Generic[Name]):
    name: Name
    pid: int
    until_s: float


class Forks(Generic[Name]):
    """Concurrent forks.

    Args:
        count_max: how many, at most.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        #: by the pipe of the answer
        self._running: dict[int, _Fork[Name]] = {}

    def __len__(self) -> int:
        return len(self._running)

    @property
    def full(self) -> bool:
        """Whether another one has to wait."""
        return len(self._running) >= self._count_max

    def start(self, name: Name, act: Callable[[], bytes], until_s: float = STUCK_S) -> None:
        """Call a function in a fork; its return value is the answer. It prints nothing.

        Args:
            name: identifies the answer.
            act: the function.
            until_s: how long it may take.
        """
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            self._running[reading] = _Fork(name, pid, time.monotonic() + until_s)
            return
        status = 1
        try:
            os.close(reading)
            silent = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(silent, number)
            with os.fdopen(writing, "wb") as answer:
                answer.write(act())
            status = 0
        finally:
            os._exit(status)

    def ended(self) -> Iterator[tuple[Name, bytes | None]]:
        """Wait a while, and yield the name and answer of each fork that ended; None: a signal ended it.

        Raises:
            RuntimeError: one failed.
        """
        if not self._running:
            return
        found, _, _ = select.select(list(self._running), [], [], 1.0)
        for pipe in found:
            fork = self._running.pop(pipe)
            with os.fdopen(pipe, "rb") as reading:
                answer = reading.read()
            _, status = os.waitpid(fork.pid, 0)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                raise RuntimeError(f"{fork.name} failed outside of a test.")
            yield fork.name, None if os.WIFSIGNALED(status) else answer
        for fork in self._running.values():
            if time.monotonic() > fork.until_s:
                os.kill(fork.pid, signal.SIGKILL)
