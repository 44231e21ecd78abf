"""Unsent bytes: bounds the memory of answers that are made and not yet sent, over all connections."""

from __future__ import annotations

import asyncio
from collections import deque


class UnsentBytes:
    """Lets answers be made while the unsent ones have fewer than `bytes_max`; one is always let.

    Those that wait are served in the order in which they came. Its methods run on one loop.

    Args:
        bytes_max: of all answers together.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        """Bytes of the answers that are not sent."""
        return self._held

    @property
    def has_room(self) -> bool:
        """Whether three quarters of the bytes are free: answers that nobody has asked for may be made."""
        return not self._waiting and self._held * 4 < self._bytes_max

    async def take(self, size: int) -> None:
        """Hold so many bytes, as soon as there is room; `give_back` has to follow."""
        if not self._waiting and self._fits(size):
            self._held += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size)
            else:
                self._waiting.remove((size, turn))
                self._admit()
            raise

    def give_back(self, size: int) -> None:
        """Hold so many bytes no more."""
        self._held -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            self._held += size
            turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self._held or self._held + size <= self._bytes_max
