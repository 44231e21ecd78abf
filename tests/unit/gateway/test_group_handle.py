"""A call of the group ends when it is cancelled, whatever comes at the same time."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from canal_group.actors.gateway.group_handle import GroupHandle
from canal_group.merge.calls.consumers import Touch


def test_a_cancellation_that_comes_with_the_answer_is_not_lost():
    """A task that goes on would renew the lease of a connection that has ended, and keep others out."""

    async def play() -> None:
        answer: Future[Any] = Future()
        handle = object.__new__(GroupHandle)  # its constructor looks for an actor
        handle._asked = lambda _: answer  # type: ignore[method-assign]
        task = asyncio.create_task(handle.ask_from(Touch("a", 1)))
        await asyncio.sleep(0)
        answer.set_result(None)
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
