"""A process of the simulated world: it can be killed, restarted, paused (SIGSTOP) and resumed.

It has an asyncio loop and threads, which end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from canal_group.merge.errors import CanalGroupError, ServerUnavailable
from simulation.event_loop import EventLoop
from simulation.host import EndedError, Host
from simulation.loop import Future, Loop
from simulation.threads import Thread


class Process:
    """A process; a subclass defines in `begin` what it does from its start on.

    Args:
        loop: the world's time.
        name: its name.
        offset_us: its monotonic clock minus the world's.
    """

    def __init__(self, loop: Loop, name: str, offset_us: int = 0) -> None:
        self.loop = loop
        self.name = name
        self.alive = False
        self.paused = False
        #: grows with each start
        self.incarnation = 0
        #: threads that have not ended
        self.threads: dict[Thread, None] = {}
        self.host = Host(self)
        self._offset_us = offset_us
        self._running = EventLoop(self, 0)
        #: actions to run when it is resumed, and whether each was a timer
        self._backlog: list[tuple[bool, Callable[[], None]]] = []
        #: calls that it has not answered; they fail when it dies
        self._unanswered: dict[Future, None] = {}

    def begin(self) -> None:
        """Do what it does from its start on."""

    def note(self, what: str, *details: Any) -> None:
        """Tell what happened here."""
        self.loop.note(self.name, what, *details)

    @property
    def now_us(self) -> int:
        """Its monotonic clock."""
        return self.loop.now_us + self._offset_us

    # ---- life ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it, if it is not alive."""
        if not self.alive:
            self.alive, self.incarnation = True, self.incarnation + 1
            self._running = EventLoop(self, self.incarnation)
            self.note("starts")
            self._do(self.begin)

    def kill(self) -> None:
        """End it at once; its state is lost."""
        if not self.alive:
            return
        self.note("is gone")
        self.alive = self.paused = False
        self._backlog.clear()
        for thread in list(self.threads):
            thread.kill()
        self._running.kill()
        unanswered, self._unanswered = list(self._unanswered), {}
        for call in unanswered:
            call.fail(ServerUnavailable(f"{self.name} died", retry_after_s=0.5))

    def end(self) -> None:
        """End it; called by itself."""
        self.kill()

    def restart(self, after_us: int) -> None:
        """Kill it, and restart it after a while."""
        self.kill()
        self.loop.after(after_us, self.start)

    def pause(self) -> None:
        """Pause it at any point."""
        if self.alive and not self.paused:
            self.note("is paused")
            self.paused = True

    def wake(self) -> None:
        """Resume it. After a pause, sockets and timers may become ready in any order."""
        if not self.paused:
            return
        self.note("wakes with {} things to do", len(self._backlog))
        self.paused = False
        backlog, self._backlog = self._backlog, []
        timers_first = self.loop.chance.random() < 0.5
        for _, action in sorted(backlog, key=lambda waiting: waiting[0] != timers_first):
            self.loop.soon(action)

    # ---- running ---------------------------------------------------------------------------------------

    def soon(self, action: Callable[[], Any], incarnation: int | None = None) -> None:
        """Run an action next: not while paused, and never once the process is dead.

        Args:
            action: what to run.
            incarnation: the incarnation that it belongs to; None: the current one.
        """
        mine = self.incarnation if incarnation is None else incarnation

        def act() -> None:
            if self.alive and self.incarnation == mine:
                if self.paused:
                    self._backlog.append((False, act))
                else:
                    self._do(action)

        self.loop.soon(act)

    def after(self, delay_us: int, action: Callable[[], Any]) -> None:
        """Run an action later, under the same rules."""
        incarnation = self.incarnation

        def act() -> None:
            if self.alive and self.incarnation == incarnation:
                if self.paused:
                    self._backlog.append((True, act))
                else:
                    self._do(action)

        self.loop.after(delay_us, act)

    def _do(self, action: Callable[[], Any]) -> None:
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self._running)
        try:
            action()
        except EndedError:
            assert not self.alive, "it has ended"
        finally:
            asyncio._set_running_loop(before)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine until it or this process ends; it may raise one of the project's errors."""
        task = self._running.create_task(coroutine)
        task.add_done_callback(self._spawned_ended)
        return task

    def _spawned_ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, CanalGroupError | EndedError):
            self.loop.defect(error)

    async def sleep(self, delay_us: int) -> None:
        """Return after a while."""
        await asyncio.sleep(delay_us / 1e6)

    def awaiting(self, future: Future) -> asyncio.Future[Any]:
        """Await `future` in a task of this process, and return its value."""
        answer, incarnation = self._running.create_future(), self.incarnation

        def give() -> None:
            if not answer.done():
                future.give(answer)

        if self.alive:
            future.then(lambda: self.soon(give, incarnation))
        return answer

    async def within(
        self, answer: asyncio.Future[Any], timeout_us: int, error: CanalGroupError | None = None
    ) -> Any:
        """Return the value of `answer`; after the timeout raise `error`, or return None without one."""
        await asyncio.wait([answer], timeout=timeout_us / 1e6)
        if answer.done():
            return answer.result()
        if error is not None:
            raise error
        return None

    # ---- being called ----------------------------------------------------------------------------------

    def answer(self, call: Future, method: str, arguments: tuple[Any, ...]) -> None:
        """Run a called method, and answer with what it returns or raises."""
        self._unanswered[call] = None
        self.soon(lambda: self.run_call(call, method, arguments))

    def run_call(self, call: Future, method: str, arguments: tuple[Any, ...]) -> None:
        """Run a coroutine for a call."""
        self.spawn(self._answer(call, getattr(self, method)(*arguments)))

    async def _answer(self, call: Future, work: Coroutine[Any, Any, Any]) -> None:
        try:
            value = await work
        except CanalGroupError as error:
            self.answered(call, error=error)
        else:
            self.answered(call, value)

    def answered(self, call: Future, value: Any = None, error: CanalGroupError | None = None) -> None:
        """Answer a call, unless it was answered."""
        if self._unanswered.pop(call, 0) is None:
            if error is not None:
                call.fail(error)
            else:
                call.set(value)
