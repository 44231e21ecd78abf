"""The loop: simulated time, what is due when, the one source of chance, and the story of what happened.

What is due when is decided here and nowhere else: processes have asyncio loops (`simulation.event_loop`) and
threads (`simulation.threads`), one of which runs at a time, so that two runs of a seed take the same steps.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

#: microseconds since 1970 UTC at which every simulation begins
BEGIN_US = 1_760_000_000_000_000
MS, S = 1_000, 1_000_000
#: steps after which a simulation is taken for one that goes round in circles
STEPS_MAX = 400_000


class Future:
    """What passes from one process to another: a value that comes later, or an error; the first one stays."""

    __slots__ = ("_error", "_then", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._then: list[Callable[[], None]] = []

    def set(self, value: Any = None) -> None:
        """Give the value, if nothing was given."""
        self._end(value, None)

    def fail(self, error: BaseException) -> None:
        """Give an error, if nothing was given."""
        self._end(None, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        if self.done:
            return
        self.done, self._value, self._error = True, value, error
        then, self._then = self._then, []
        for action in then:
            action()

    def then(self, action: Callable[[], None]) -> None:
        """Call `action` when it is there."""
        if self.done:
            action()
        else:
            self._then.append(action)

    def pass_on(self, other: Future) -> None:
        """Give what this one was given to another."""
        other._end(self._value, self._error)

    def give(self, answer: asyncio.Future[Any]) -> None:
        """Give what this one was given to a future of asyncio."""
        if self._error is not None:
            answer.set_exception(self._error)
        else:
            answer.set_result(self._value)

    def result(self) -> Any:
        """Return what it was given, or raise it."""
        assert self.done, "it is there"
        if self._error is not None:
            raise self._error
        return self._value


class Loop:
    """Simulated time; see the module's rules.

    Args:
        seed: of all chance.
        telling: whether the story is kept.
    """

    def __init__(self, seed: int, *, telling: bool = False) -> None:
        self.now_us = 0
        self.chance = Random(seed)
        self.steps = 0
        #: (time, who, what), as far as it is kept
        self.story: list[tuple[int, str, str]] = []
        #: whether the story goes on
        self.telling = telling
        self._ready: deque[Callable[[], None]] = deque()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        #: what broke that nobody waits for
        self._broken: BaseException | None = None

    def defect(self, error: BaseException) -> None:
        """End the simulation: something broke that the product would only log, or be ended by."""
        self._broken = self._broken or error

    def note(self, who: str, what: str, *details: Any) -> None:
        """Tell what happened; `details` are formatted into `what` only if the story is kept."""
        if self.telling:
            self.story.append((self.now_us, who, what.format(*details)))

    def soon(self, action: Callable[[], None]) -> None:
        """Do something next."""
        self._ready.append(action)

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Do something later."""
        self._count += 1
        heapq.heappush(self._due, (self.now_us + delay_us, self._count, action))

    def run(self, until_us: int, enough: Callable[[], bool] = lambda: False) -> None:
        """Let time go on until then, or until there is enough (looked at whenever time moves on)."""
        while True:
            while self._ready:
                self.steps += 1
                self._ready.popleft()()
                self._check()
            assert self.steps < STEPS_MAX, "the simulation goes round in circles"
            if enough():
                return
            if not self._due or self._due[0][0] > until_us:
                self.now_us = until_us
                return
            self.now_us, _, action = heapq.heappop(self._due)
            self.steps += 1
            action()
            self._check()

    def _check(self) -> None:
        if self._broken is not None:
            broken, self._broken = self._broken, None
            if isinstance(broken, AssertionError):
                raise broken
            raise AssertionError(f"broke: {type(broken).__name__}: {broken}") from broken
