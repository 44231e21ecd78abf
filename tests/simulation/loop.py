"""The loop: simulated time, the schedule of due actions, the one source of randomness, and the story.

Only this module decides what is due when. Processes have asyncio loops (`simulation.event_loop`) and threads
(`simulation.threads`), one of which runs at a time, so that two runs of a seed take the same steps.
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
#: steps after which a simulation is considered an endless loop
STEPS_MAX = 400_000


class Future:
    """A value or an error that one process passes to another later; the first one given stays."""

    __slots__ = ("_error", "_then", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._then: list[Callable[[], None]] = []

    def set(self, value: Any = None) -> None:
        """Set the value, unless a value or error is set."""
        self._end(value, None)

    def fail(self, error: BaseException) -> None:
        """Set an error, unless a value or error is set."""
        self._end(None, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        if self.done:
            return
        self.done, self._value, self._error = True, value, error
        then, self._then = self._then, []
        for action in then:
            action()

    def then(self, action: Callable[[], None]) -> None:
        """Call `action` when the future is done."""
        if self.done:
            action()
        else:
            self._then.append(action)

    def pass_on(self, other: Future) -> None:
        """Copy this result to another future."""
        other._end(self._value, self._error)

    def give(self, answer: asyncio.Future[Any]) -> None:
        """Copy this result to an asyncio future."""
        if self._error is not None:
            answer.set_exception(self._error)
        else:
            answer.set_result(self._value)

    def result(self) -> Any:
        """Return the value, or raise the error."""
        assert self.done, "it is there"
        if self._error is not None:
            raise self._error
        return self._value


class Loop:
    """Simulated time; see the module's rules.

    Args:
        seed: of all randomness.
        telling: whether the story is kept.
    """

    def __init__(self, seed: int, *, telling: bool = False) -> None:
        self.now_us = 0
        self.chance = Random(seed)
        self.steps = 0
        #: (time, who, what), as far as it is kept
        self.story: list[tuple[int, str, str]] = []
        #: whether the story is still recorded
        self.telling = telling
        self._ready: deque[Callable[[], None]] = deque()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        #: an error that no task waits for
        self._broken: BaseException | None = None

    def defect(self, error: BaseException) -> None:
        """End the simulation: the product would only log this error, or its process would end."""
        self._broken = self._broken or error

    def note(self, who: str, what: str, *details: Any) -> None:
        """Add to the story; `details` are formatted into `what` only if the story is kept."""
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
        """Advance time to `until_us`, or until `enough` (asked whenever time advances)."""
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
