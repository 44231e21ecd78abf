"""Threads of simulated processes: real threads, of which one runs at a time, and which can be ended.

A thread runs until it waits on a class of this file; then the loop continues. So what blocks in the product
blocks here too, but takes no real time, and takes the same steps in each run of a seed.
"""

from __future__ import annotations

import _thread
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.process import Process

#: held by the loop; a thread that waits or ends gives it back
_baton = _thread.allocate_lock()
_baton.acquire()
_idle: list[_Worker] = []


class KilledError(BaseException):
    """The process has ended under a thread; nothing of the product catches it."""


class _Worker:
    """A thread of the operating system, which runs one simulated thread after the other."""

    def __init__(self) -> None:
        self.go = _thread.allocate_lock()
        self.go.acquire()
        self.work: Callable[[], None] = lambda: None
        threading.Thread(target=self._run, name="simulated", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            self.work()
            _idle.append(self)
            _baton.release()


class Thread:
    """A thread of a simulated process.

    Args:
        process: the process that it ends with.
        run: the function that it runs.
    """

    #: the running thread; None: the loop runs
    current: Thread | None = None

    def __init__(self, process: Process, run: Callable[[], Any]) -> None:
        self._process = process
        self._incarnation = process.incarnation
        self._run = run
        self._worker: _Worker | None = None
        self._killed = self._waking = self._woken = False
        #: grows with each wait, so that the timeout of an older wait is ignored
        self._waits = 0
        self._joining: dict[Thread, None] = {}
        self.done = False
        process.threads[self] = None
        process.soon(self._resume)

    def join(self, timeout: float | None = None) -> None:
        """Wait up to the timeout until it has ended."""
        if self.done:
            return
        me = running()
        self._joining[me] = None
        me.wait(timeout)
        self._joining.pop(me, None)

    def kill(self) -> None:
        """End it where it waits."""
        self._killed = True
        if self._worker is None:
            self._end()
        else:
            self._resume()

    # ---- for what it waits for -------------------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> bool:
        """Wait up to the timeout to be woken; return whether it was."""
        assert self._worker is not None, "it runs"
        if self._killed:
            raise KilledError
        self._waits += 1
        self._waking = self._woken = False
        if timeout_s is not None:
            # Every wait takes some time: a loop that polls a clock must see it advance.
            timeout_us = max(1, round(timeout_s * 1e6))
            self._process.after(timeout_us, lambda waits=self._waits: self._time_out(waits))
        _baton.release()
        self._worker.go.acquire()
        if self._killed:
            raise KilledError
        return self._woken

    def wake(self) -> None:
        """Wake it."""
        if not self._waking:
            self._waking = self._woken = True
            self._process.soon(self._resume, self._incarnation)

    def _time_out(self, waits: int) -> None:
        if waits == self._waits and not self._waking and not self.done:
            self._waking = True
            self._resume()

    def _resume(self) -> None:
        """Run it until it waits again or ends; called by the loop."""
        if self.done:
            return
        assert Thread.current is None, "one thread runs at a time"
        if self._worker is None:
            self._worker = _idle.pop() if _idle else _Worker()
            self._worker.work = self._work
        Thread.current = self
        self._worker.go.release()
        _baton.acquire()
        Thread.current = None

    def _work(self) -> None:
        try:
            self._run()
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001  the loop raises it
            self._process.loop.defect(error)
        self._end()

    def _end(self) -> None:
        self.done = True
        self._process.threads.pop(self, None)
        for thread in self._joining:
            thread.wake()


def running() -> Thread:
    """Return the thread that runs; the loop must not wait."""
    assert Thread.current is not None, "the loop would be blocked"
    return Thread.current


class Lock:
    """Implements `canal_group.actors.ports.Lock`; waiters get it in the order in which they came."""

    def __init__(self) -> None:
        self.taken = False
        self._queue: deque[Thread] = deque()

    def __enter__(self) -> bool:
        if self.taken:
            self._queue.append(running())
            running().wait(None)
        self.taken = True
        return True

    def __exit__(self, *_: object) -> None:
        if self._queue:
            self._queue.popleft().wake()
        else:
            self.taken = False


class Event:
    """Implements `canal_group.actors.ports.ThreadEvent`."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: dict[Thread, None] = {}

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it and wake every waiter."""
        self._is_set = True
        for thread in self._waiting:
            thread.wake()
        self._waiting.clear()

    def clear(self) -> None:
        """Clear it."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to the timeout until it is set; return whether it is."""
        if not self._is_set and (timeout is None or timeout > 0):
            thread = running()
            self._waiting[thread] = None
            woken = thread.wait(timeout)
            self._waiting.pop(thread, None)
            return woken or self._is_set
        return self._is_set


class Condition:
    """Implements `canal_group.actors.ports.Condition`.

    Args:
        lock: the lock that guards it.
        now_us: the time.
    """

    def __init__(self, lock: Lock, now_us: Callable[[], int]) -> None:
        self._lock = lock
        self._now_us = now_us
        self._waiting: dict[Thread, None] = {}

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to the timeout to be notified; return whether it was."""
        thread = running()
        self._waiting[thread] = None
        self._lock.__exit__()
        woken = thread.wait(timeout)
        self._waiting.pop(thread, None)
        self._lock.__enter__()
        return woken

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait up to the timeout until `predicate` holds; return whether it does."""
        until_us = None if timeout is None else self._now_us() + round(timeout * 1e6)
        while not predicate():
            left_us = None if until_us is None else until_us - self._now_us()
            if left_us is not None and left_us <= 0:
                return False
            self.wait(None if left_us is None else left_us / 1e6)
        return True

    def notify_all(self) -> None:
        """Wake every waiter."""
        for thread in self._waiting:
            thread.wake()
        self._waiting.clear()
