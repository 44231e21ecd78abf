"""The machine of a simulated process; implements `canal_group.actors.ports.Host`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from simulation.loop import Future
from simulation.threads import Condition, Event, KilledError, Lock, Thread, running

if TYPE_CHECKING:
    from simulation.process import Process

_T = TypeVar("_T")
#: how long a thread of a pool takes to begin, at most
BEGIN_MAX_US = 500


class EndedError(BaseException):
    """The process has ended itself; nothing of the product catches it."""


class Host:
    """See the module.

    Args:
        process: the process that runs on it.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_us(self) -> int:
        """Return microseconds of its monotonic clock."""
        return self._process.now_us

    def clock_s(self) -> float:
        """Return seconds of the same clock."""
        return self._process.now_us / 1e6

    def lock(self) -> Lock:
        """Return a lock that is free."""
        return Lock()

    def condition(self, lock: Any) -> Condition:
        """Return a condition under a lock."""
        return Condition(lock, self.now_us)

    def event(self) -> Event:
        """Return an event that is not set."""
        return Event()

    def start(self, run: Callable[[], Any], name: str) -> Thread:  # noqa: ARG002  the port's signature
        """Run `run` on a thread."""
        return Thread(self._process, run)

    async def blocking(self, run: Callable[..., _T], *arguments: object) -> _T:
        """Run `run`, which may block, on a thread; return its value."""
        await asyncio.sleep(self._process.loop.chance.randrange(BEGIN_MAX_US) / 1e6)
        ended = Future()

        def work() -> None:
            try:
                ended.set(run(*arguments))
            except KilledError:
                raise
            except Exception as error:  # noqa: BLE001  passed on to the waiting task
                ended.fail(error)

        Thread(self._process, work)
        value: _T = await self._process.awaiting(ended)
        return value

    def end(self) -> NoReturn:
        """End the process at once."""
        self._process.end()
        raise EndedError

    def wait_for(self, future: Future, timeout_s: float | None = None) -> bool:
        """Block the running thread until a future is done or the timeout ends; return whether it is done."""
        if not future.done:
            thread = running()
            waiting = True
            future.then(lambda: thread.wake() if waiting else None)
            thread.wait(timeout_s)
            waiting = False
        return future.done
