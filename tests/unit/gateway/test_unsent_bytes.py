"""The bound on the bytes of answers that are not sent."""

from __future__ import annotations

import asyncio

from actors.gateway.canal.unsent_bytes import UnsentBytes


def test_answers_wait_in_order_until_there_is_room():
    async def play() -> list[str]:
        unsent, seen = UnsentBytes(100), []
        free = {name: asyncio.Event() for name in "abcd"}

        async def hold(name: str, size: int) -> None:
            await unsent.take(size)
            seen.append(name)
            await free[name].wait()
            unsent.give_back(size)

        tasks = {
            name: asyncio.create_task(hold(name, size))
            for name, size in (("a", 60), ("b", 50), ("c", 10), ("d", 500))
        }
        await asyncio.sleep(0)
        assert (seen, unsent.held) == (["a"], 60)
        tasks["b"].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (seen, unsent.held) == (["a", "c"], 70), "who gives up keeps nobody waiting"
        free["a"].set()
        await asyncio.sleep(0)
        assert seen == ["a", "c"], "one larger than the bound waits until nothing else is held"
        free["c"].set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert seen == ["a", "c", "d"]
        free["d"].set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert unsent.held == 0
        return seen

    asyncio.run(play())
