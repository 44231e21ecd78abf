"""Unsent bytes: bounds the memory of answers that are made and not yet sent, and shares it among the clients.

Rules:

1. All answers together hold about `bytes_max` at most; one alone may be larger.
2. Of the waiting answers, the one goes first whose owner holds least, then the one that came first.
3. While one waits, answers give way to it: those that were not asked for yet, and those that their clients
   read slower than `PACE_BYTES_S`, the largest first. So a client that reads slowly, or not at all, makes
   others wait no longer than its answer takes at that pace.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: bytes a second that a client has to read of an answer while another one waits
PACE_BYTES_S: Final = 4 << 20
#: how much longer it may take, seconds
GRACE_S: Final = 2.0


@dataclass(eq=False, slots=True)
class Answer:
    """The bytes held for one answer."""

    #: address of the answer's client
    owner: str
    size: int
    #: ends the answer early; None: still being made, or ended
    end: Callable[[], None] | None = None
    #: whether it was ended early
    is_ended: bool = False
    #: when sending began, seconds of the loop's clock; None: it was not asked for yet
    began_s: float | None = None
    #: bytes that its client has read
    read_bytes: int = 0

    @property
    def late_s(self) -> float:
        """When it has to give way to others if its client reads no more, seconds of the loop's clock."""
        return 0.0 if self.began_s is None else self.began_s + GRACE_S + self.read_bytes / PACE_BYTES_S


class UnsentBytes:
    """The answers that are held, and those that wait, by the rules above. Its methods run on one loop.

    Args:
        bytes_max: of all answers together.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: dict[Answer, None] = {}
        #: waiting answers, in the order of arrival
        self._waiting: dict[Answer, asyncio.Future[None]] = {}
        #: set while none waits
        self._nobody_waits = asyncio.Event()
        self._nobody_waits.set()
        #: looks again when the next answer is late
        self._look_again: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        """Bytes of the answers that are not sent."""
        return sum(answer.size for answer in self._held)

    @property
    def has_room(self) -> bool:
        """Whether three quarters of the bytes are free: answers that nobody has asked for may be made."""
        return not self._waiting and self.held * 4 < self._bytes_max

    @property
    def crowded(self) -> bool:
        """Whether an answer waits for room."""
        return bool(self._waiting)

    async def until_nobody_waits(self) -> None:
        """Wait while an answer waits for room."""
        await self._nobody_waits.wait()

    async def take(self, size: int, owner: str) -> Answer:
        """Hold bytes for an answer, as soon as there is room; `give_back` has to follow."""
        answer, turn = Answer(owner, size), asyncio.get_running_loop().create_future()
        self._waiting[answer] = turn
        self._nobody_waits.clear()
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.pop(answer, None)
            self.give_back(answer)
            raise
        return answer

    def unasked(self, answer: Answer, forget: Callable[[], None]) -> None:
        """Count an answer that is made before it is asked for; `forget` drops it."""
        answer.end = forget
        self._admit()

    def sending(self, answer: Answer, abort: Callable[[], None]) -> None:
        """Start the time of an answer that is being sent; `abort` ends its connection."""
        answer.end, answer.began_s = abort, asyncio.get_running_loop().time()
        self._admit()

    def give_back(self, answer: Answer) -> None:
        """Hold the bytes of an answer no more."""
        self._held.pop(answer, None)
        self._admit()

    def _admit(self) -> None:
        """Admit waiting answers while bytes are left; then let held answers make way for the first."""
        if self._look_again is not None:
            self._look_again.cancel()
        while self._waiting:
            shares = Counter[str]()
            for answer in self._held:
                shares[answer.owner] += answer.size
            first = min(self._waiting, key=lambda waiting: shares[waiting.owner])
            if not self._fits(first, shares.total()):
                self._make_way(first)
                return
            self._held[first] = None
            self._waiting.pop(first).set_result(None)
        self._nobody_waits.set()

    def _fits(self, answer: Answer, held: int) -> bool:
        return not held or held + answer.size <= self._bytes_max

    def _make_way(self, coming: Answer) -> None:
        """End late answers until there will be room for `coming`; look again when the next one is late."""
        loop = asyncio.get_running_loop()
        staying = sum(answer.size for answer in self._held if not answer.is_ended)
        ending = sorted(
            (answer for answer in self._held if answer.end is not None and answer.late_s <= loop.time()),
            key=lambda answer: -answer.size,
        )
        for answer in ending:
            if self._fits(coming, staying):
                return
            staying -= answer.size
            self._end(answer)
        later = [answer.late_s for answer in self._held if answer.end is not None]
        if later and not self._fits(coming, staying):
            self._look_again = loop.call_at(min(later), self._admit)

    def _end(self, answer: Answer) -> None:
        end, answer.end, answer.is_ended = answer.end, None, True
        assert end is not None, "it is made"
        end()
        if answer.began_s is None:
            # Nobody else gives it back.
            asyncio.get_running_loop().call_soon(self.give_back, answer)
