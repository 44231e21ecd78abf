"""The bound on the bytes of answers that are not sent: who waits, who goes first, and who gives way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from canal_group.actors.admission.unsent_bytes import GRACE_S, PACE_BYTES_S, Answer, UnsentBytes


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time a test sets."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    async def pass_to(self, now_s: float) -> None:
        """Let the time be `now_s`, and do what is due then."""
        self.now_s = now_s
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(story: Coroutine[Any, Any, None], loop: Loop) -> None:
    try:
        loop.run_until_complete(story)
    finally:
        loop.close()


class Holder:
    """Takes bytes for an answer, and sends it until it is ended."""

    def __init__(self, unsent: UnsentBytes, size: int, owner: str = "a") -> None:
        self.unsent, self.answer, self.ended = unsent, Answer("", 0), False
        self.task = asyncio.create_task(self._take(size, owner))

    async def _take(self, size: int, owner: str) -> None:
        self.answer = await self.unsent.take(size, owner)

    @property
    def holds(self) -> bool:
        return bool(self.answer.size)

    def send(self) -> None:
        self.unsent.sending(self.answer, self._end)

    def prefetch(self) -> None:
        self.unsent.unasked(self.answer, self._end)

    def _end(self) -> None:
        self.ended = True

    def give_back(self) -> None:
        self.unsent.give_back(self.answer)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_answers_wait_in_order_until_there_is_room(loop):
    async def story() -> None:
        unsent = UnsentBytes(100)
        first, second, third, large = (Holder(unsent, size) for size in (60, 50, 10, 500))
        await settled()
        assert (first.holds, second.holds, third.holds, unsent.held) == (True, False, False, 60)
        assert not unsent.has_room
        second.task.cancel()
        await settled()
        assert (third.holds, unsent.held) == (True, 70), "who gives up keeps nobody waiting"
        first.give_back()
        await settled()
        assert not large.holds, "one larger than the bound waits until nothing else is held"
        third.give_back()
        await settled()
        assert large.holds
        large.give_back()
        assert (unsent.held, unsent.has_room) == (0, True)

    play(story(), loop)


def test_a_caller_that_gives_up_at_once_holds_nothing(loop):
    async def story() -> None:
        unsent = UnsentBytes(100)
        first, second = Holder(unsent, 60), Holder(unsent, 60)
        await settled()
        first.give_back()
        second.task.cancel()
        await settled()
        assert unsent.held == 0

    play(story(), loop)


def test_the_owner_that_holds_least_goes_first(loop):
    async def story() -> None:
        unsent = UnsentBytes(100)
        held = [Holder(unsent, 50, "a"), Holder(unsent, 50, "a")]
        waiting = [Holder(unsent, 50, owner) for owner in ("a", "a", "b")]
        await settled()
        held[0].give_back()
        await settled()
        assert [each.holds for each in waiting] == [False, False, True]
        held[1].give_back()
        await settled()
        assert [each.holds for each in waiting] == [True, False, True]

    play(story(), loop)


def test_an_unread_answer_gives_way_only_to_a_waiting_one(loop):
    async def story() -> None:
        unsent = UnsentBytes(100)
        slow, alone = Holder(unsent, 60), Holder(unsent, 30)
        await settled()
        slow.send()
        await loop.pass_to(50.0)
        assert not slow.ended, "nobody waits"
        waiting = Holder(unsent, 60, "b")
        await settled()
        assert slow.ended
        assert not alone.ended, "it is being made, and there will be room without it"
        assert not waiting.holds, "the bytes are held until they are given back"
        slow.give_back()
        await settled()
        assert waiting.holds

    play(story(), loop)


def test_an_answer_that_is_read_at_the_pace_stays(loop):
    async def story() -> None:
        unsent = UnsentBytes(100)
        steady = Holder(unsent, 60)
        await settled()
        steady.send()
        Holder(unsent, 60, "b")
        for second in range(1, 10):
            steady.answer.read_bytes = second * PACE_BYTES_S
            await loop.pass_to(float(second))
        assert not steady.ended
        await loop.pass_to(9.0 + GRACE_S - 0.1)
        assert not steady.ended
        await loop.pass_to(9.0 + GRACE_S + 0.1)
        assert steady.ended, "it is looked at when it is late"

    play(story(), loop)


def test_an_answer_that_is_sent_while_another_waits_is_looked_at(loop):
    async def story() -> None:
        unsent = UnsentBytes(100)
        slow = Holder(unsent, 60)
        await settled()
        Holder(unsent, 60)
        await loop.pass_to(50.0)
        assert not slow.ended, "it is being made"
        slow.send()
        await loop.pass_to(50.0 + GRACE_S + 0.1)
        assert slow.ended

    play(story(), loop)


def test_unrequested_bytes_give_way_first_largest_first(loop):
    async def story() -> None:
        unsent = UnsentBytes(100)
        small, large = Holder(unsent, 20), Holder(unsent, 60)
        await settled()
        small.prefetch()
        large.prefetch()
        waiting = Holder(unsent, 70, "b")
        await settled()
        assert (small.ended, large.ended, waiting.holds, unsent.held) == (False, True, True, 90)

    play(story(), loop)
