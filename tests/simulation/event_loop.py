"""The event loop of a simulated process: asyncio's tasks, futures and timers in simulated time.

Each process has a loop of its own, so that each can be paused and killed and can have its own clock. All
loops run on one thread, and `simulation.loop` decides what is due when. Within a process, callbacks run in
the order in which they were scheduled, as asyncio guarantees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.process import Process


class EventLoop(asyncio.AbstractEventLoop):
    """The loop of one incarnation of a process.

    Args:
        process: the process that it belongs to.
        incarnation: of the process; the loop runs nothing for another incarnation.
    """

    def __init__(self, process: Process, incarnation: int) -> None:
        self._process = process
        self._incarnation = incarnation

    @property
    def dead(self) -> bool:
        """Whether its process has ended."""
        return not self._process.alive or self._process.incarnation != self._incarnation

    def time(self) -> float:
        """Return seconds of the process's monotonic clock."""
        return self._process.now_us / 1e6

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call it next."""
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self._process.soon(lambda: self._run(handle))
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call it in so many seconds."""
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)
        if not self.dead:
            self._process.after(max(0, round(delay * 1e6)), lambda: self._run(handle))
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call it at a time of its clock."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _run(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when it is due."""

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """Run a coroutine."""
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run a function on a thread of its process."""
        return self.create_task(self._process.host.blocking(func, *args))

    def get_debug(self) -> bool:
        """Return False: nothing here depends on real time."""
        return False

    def is_running(self) -> bool:
        """Return whether its process is alive."""
        return not self.dead

    def is_closed(self) -> bool:
        """Return False: a dead process's loop runs nothing, but refuses no call."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """End the simulation: the product would only log the error."""
        told = str(context.get("message", ""))
        if not self.dead and not told.startswith(("Future exception", "Task was destroyed")):
            self._process.loop.defect(context.get("exception") or RuntimeError(told))

    def kill(self) -> None:
        """End every task at its current await."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            if not coroutine.cr_running:  # type: ignore[union-attr]
                try:
                    coroutine.close()  # type: ignore[union-attr]
                except RuntimeError:
                    continue  # it awaited once more; the result is not needed
