"""A process of the simulated world: it can be killed, started again, stopped (SIGSTOP) and woken."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from merge.errors import CanalGroupError, ServerUnavailable
from simulation.loop import Future, Loop


class Task:
    """A coroutine that runs in a process, as long as its incarnation lives."""

    __slots__ = ("_coroutine", "_process", "broke", "ended")

    def __init__(self, process: Process, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._process = process
        self._coroutine = coroutine
        #: what it returned or raised
        self.ended = Future()
        #: whether it raised
        self.broke = False
        process.soon(self._step)

    def cancel(self) -> None:
        """End it where it stands."""
        if not self.ended.done:
            if not self._coroutine.cr_running:
                self._coroutine.close()
            self.ended.fail(ServerUnavailable("cancelled"))

    def _step(self) -> None:
        if self.ended.done:
            return
        try:
            waits_for: Future = self._coroutine.send(None)
        except StopIteration as stop:
            self.ended.set(stop.value)
        except CanalGroupError as error:
            self.broke = True
            self.ended.fail(error)
        else:
            waits_for.then(lambda: self._process.soon(self._step))


class Process:
    """Something that runs, with tasks in it; a subclass says in `begin` what it does from its start on."""

    def __init__(self, loop: Loop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.alive = False
        self.paused = False
        #: grows with each start
        self.incarnation = 0
        self._tasks: dict[Task, None] = {}
        #: what has to be done when it is woken
        self._backlog: list[Callable[[], None]] = []
        #: calls that it has not answered: they fail when it dies
        self._unanswered: dict[Future, None] = {}

    def begin(self) -> None:
        """Do what it does from its start on."""

    def note(self, what: str, *details: Any) -> None:
        """Tell what happened here."""
        self.loop.note(self.name, what, *details)

    # ---- life ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it, if it does not live."""
        if not self.alive:
            self.alive, self.incarnation = True, self.incarnation + 1
            self.note("starts")
            self.begin()

    def kill(self) -> None:
        """End it at once, with everything that it knew."""
        if not self.alive:
            return
        self.note("is gone")
        self.alive = self.paused = False
        self._backlog.clear()
        tasks, self._tasks = list(self._tasks), {}
        for task in tasks:
            task.cancel()
        unanswered, self._unanswered = list(self._unanswered), {}
        for call in unanswered:
            call.fail(ServerUnavailable(f"{self.name} died", retry_after_s=0.5))

    def restart(self, after_us: int) -> None:
        """Kill it, and start it again after a while."""
        self.kill()
        self.loop.after(after_us, self.start)

    def pause(self) -> None:
        """Stop it in the middle of what it does."""
        if self.alive and not self.paused:
            self.note("is paused")
            self.paused = True

    def wake(self) -> None:
        """Let it go on. What came meanwhile comes in any order: sockets and timers do not agree on one."""
        if not self.paused:
            return
        self.note("wakes with {} things to do", len(self._backlog))
        self.paused = False
        backlog, self._backlog = self._backlog, []
        self.loop.chance.shuffle(backlog)
        for action in backlog:
            self.loop.soon(action)

    # ---- running ---------------------------------------------------------------------------------------

    def soon(self, action: Callable[[], None]) -> None:
        """Do something next, in this incarnation: not while paused, and never once it is dead."""
        incarnation = self.incarnation

        def act() -> None:
            if self.alive and self.incarnation == incarnation:
                if self.paused:
                    self._backlog.append(act)
                else:
                    action()

        self.loop.soon(act)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Task:
        """Run a coroutine until its end, or this process's."""
        task = Task(self, coroutine)
        self._tasks[task] = None
        task.ended.then(lambda: self._tasks.pop(task, None))
        return task

    def sleep(self, delay_us: int) -> Future:
        """Return what is there after a while."""
        future = Future()
        self.loop.after(delay_us, future.set)
        return future

    def within(self, future: Future, timeout_us: int, error: CanalGroupError | None = None) -> Future:
        """Return what `future` becomes, or after a while the error, or None if there is none."""
        result = Future()
        future.then(lambda: future.pass_on(result))
        if not result.done:
            self.loop.after(timeout_us, result.set if error is None else lambda: result.fail(error))
        return result

    def answer(self, call: Future, method: str, arguments: tuple[Any, ...]) -> None:
        """Run a method that somebody called, and answer with what it returns or raises."""
        self._unanswered[call] = None
        self.soon(lambda: self._run(call, method, arguments))

    def _run(self, call: Future, method: str, arguments: tuple[Any, ...]) -> None:
        task = self.spawn(getattr(self, method)(*arguments))

        def ended() -> None:
            if self._unanswered.pop(call, 0) is None:
                task.ended.pass_on(call)

        task.ended.then(ended)
