"""A channel to a stateful service: the requests of one connection arrive in order, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulation.loop import MS, Future, Loop
from simulation.network import STRAY_MAX_US, Line, Network
from simulation.process import Process

#: how long a client waits for an answer
ANSWER_MAX_US = 2_000 * MS


class NoAnswerError(Exception):
    """A request or its answer was lost."""


class Channel:
    """Carries requests to a service and their answers.

    A request fails with NoAnswerError if it is unknown whether it ran: the request or its answer was lost.
    """

    def __init__(self, loop: Loop, network: Network, name: str) -> None:
        self._loop = loop
        self._network = network
        self.name = name
        #: until when the service answers no request
        self.away_until_us = 0
        #: probability that a request or its answer is lost; the client's process is told, and continues
        self.lost = 0.0
        #: probability that a request is delayed on its way, with those that follow it
        self.stray = 0.0
        #: probability that a request arrives twice, and that the second answer is the one that is read
        self.twice = 0.0

    def heal(self) -> None:
        """End every fault."""
        self.away_until_us, self.lost, self.stray, self.twice = 0, 0.0, 0.0, 0.0

    @property
    def away(self) -> bool:
        """Whether the service answers no request."""
        return self.away_until_us > self._loop.now_us

    def request(self, client: Process, line: Line, act: Callable[[], Any]) -> Future:
        """Run `act` at the service, unless the request is lost; return a future of its answer."""
        answer = Future()
        delay_us = self._network.delay_us()
        if self._loop.chance.random() < self.stray:
            delay_us = self._loop.chance.randrange(STRAY_MAX_US)
        arrives_us = line.arrival_us(self._loop.now_us + delay_us)
        if self._loses(client):
            self._loop.note(client.name, "request to {} gets lost", self.name)
            self._fail(answer)
        else:
            if arrives_us > self._loop.now_us + ANSWER_MAX_US:
                self._fail(answer)
            self._loop.after(arrives_us - self._loop.now_us, lambda: self._arrive(client, act, answer))
        return answer

    def _arrive(self, client: Process, act: Callable[[], Any], answer: Future) -> None:
        if self.away:
            self._fail(answer)
            return
        reply = self._run(act)
        if self.twice and self._loop.chance.random() < self.twice:
            self._loop.note(self.name, "a request of {} comes twice", client.name)
            reply = self._run(act)
        if self._loses(client):
            self._loop.note(self.name, "answer to {} gets lost", client.name)
            self._fail(answer)
        else:
            self._loop.after(self._network.delay_us(), lambda: reply.pass_on(answer))

    def _run(self, act: Callable[[], Any]) -> Future:
        reply = Future()
        try:
            reply.set(act())
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001  passed on to the client
            reply.fail(error)
        return reply

    def _loses(self, client: Process) -> bool:
        return self._network.is_cut(client.name, self.name) or self._loop.chance.random() < self.lost

    def _fail(self, answer: Future) -> None:
        unknown = NoAnswerError(f"{self.name} did not answer.")
        self._loop.after(self._loop.chance.randrange(ANSWER_MAX_US), lambda: answer.fail(unknown))
