"""The network: messages between processes, which are delayed and may be lost, duplicated or held up.

Calls to shards behave like Ray's: they arrive once or fail, and a cut holds them up. A consumer's request or
its answer may be lost, and a request may arrive twice, or long after its caller gave it up.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from canal_group.merge.errors import ServerUnavailable
from simulation.loop import MS, Future, Loop
from simulation.process import Process

#: usual transit time of a message
DELAY_MAX_US = 20 * MS
#: transit time of a message that is held up
STRAY_MAX_US = 6_000 * MS
#: how long a slow process takes to begin with a request; consumers wait for less
SLOW_US = 1_000 * MS, 4_000 * MS


@dataclass
class Line:
    """One client's connection to a process: its messages arrive in order."""

    #: when its last message arrives
    arrives_us: int = 0

    def arrival_us(self, at_us: int) -> int:
        """Return the arrival of a message; the argument is its arrival if no other message preceded it."""
        self.arrives_us = max(self.arrives_us, at_us)
        return self.arrives_us


class Network:
    """Carries calls and their answers."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        #: probabilities that a consumer's message is lost, duplicated, held up
        self.lost = self.twice = self.stray = 0.0
        #: probabilities that an answer to a consumer arrives later than it waits for, and that it is lost
        self.late = self.mute = 0.0
        #: process -> until when it is slow
        self._slow: dict[str, int] = {}
        #: (caller, callee) -> until when nothing comes through
        self._cut: dict[tuple[str, str], int] = {}

    def cut(self, one: str, other: str, for_us: int) -> None:
        """Cut two processes off from each other for a while."""
        self._cut[one, other] = self._cut[other, one] = self._loop.now_us + for_us

    def slow(self, callee: str, for_us: int) -> None:
        """Let a process be slow for a while: it begins late with what consumers ask."""
        self._slow[callee] = self._loop.now_us + for_us

    def heal(self) -> None:
        """End all cuts and disturbances."""
        self.lost = self.twice = self.stray = self.late = self.mute = 0.0
        self._cut.clear()
        self._slow.clear()

    def is_cut(self, one: str, other: str) -> bool:
        """Return whether nothing comes through between two."""
        return self._cut.get((one, other), 0) > self._loop.now_us

    def delay_us(self) -> int:
        """Return how long a message takes."""
        return self._loop.chance.randrange(MS, DELAY_MAX_US)

    def call(
        self, caller: Process, callee: Process, method: str, *arguments: Any, line: Line | None = None
    ) -> asyncio.Future[Any]:
        """Call a method as actors do: it runs once, or the caller is told that it may not have run.

        Args:
            caller: the calling process.
            callee: the called process.
            method: of the callee.
            arguments: of the call.
            line: the connection to use; None: a new one.
        """
        answer, reply = Future(), Future()
        if caller.alive:
            held_us = max(0, self._cut.get((caller.name, callee.name), 0) - self._loop.now_us)
            reply.then(lambda: self._loop.after(self.delay_us(), lambda: reply.pass_on(answer)))
            at_us = (line or Line()).arrival_us(self._loop.now_us + held_us + self.delay_us())
            self._loop.after(
                at_us - self._loop.now_us, lambda: self._arrive(callee, method, arguments, reply)
            )
        return caller.awaiting(answer)

    def ask(self, caller: Process, callee: Process, method: str, *arguments: Any) -> asyncio.Future[Any]:
        """Call a method as a consumer does: the answer may never come, whether the method ran or not."""
        answer = Future()
        chance = self._loop.chance
        copies = 2 if chance.random() < self.twice else 1
        for _ in range(copies):
            if self.is_cut(caller.name, callee.name) or chance.random() < self.lost:
                self._loop.note(caller.name, "request {} gets lost", method)
                continue
            delay_us = chance.randrange(STRAY_MAX_US) if chance.random() < self.stray else self.delay_us()
            if self._slow.get(callee.name, 0) > self._loop.now_us:
                delay_us += chance.randrange(*SLOW_US)
            reply = Future()
            reply.then(lambda reply=reply: self._return(caller, callee, reply, answer))
            self._loop.after(delay_us, lambda reply=reply: self._arrive(callee, method, arguments, reply))
        return caller.awaiting(answer)

    def _return(self, caller: Process, callee: Process, reply: Future, answer: Future) -> None:
        if self.is_cut(caller.name, callee.name) or self._loop.chance.random() < max(self.lost, self.mute):
            self._loop.note(callee.name, "an answer to {} gets lost", caller.name)
            return
        delay_us = self.delay_us()
        if self._loop.chance.random() < self.late:
            self._loop.note(callee.name, "an answer to {} is late", caller.name)
            delay_us = self._loop.chance.randrange(STRAY_MAX_US)
        self._loop.after(delay_us, lambda: reply.pass_on(answer))

    def _arrive(self, callee: Process, method: str, arguments: tuple[Any, ...], reply: Future) -> None:
        if callee.alive:
            callee.answer(reply, method, arguments)
        else:
            reply.fail(ServerUnavailable(f"{callee.name} is not there", retry_after_s=0.5))
