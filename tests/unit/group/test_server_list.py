"""The servers that a state lists: as the coordinator told last, as long as that is known to be true."""

from __future__ import annotations

import asyncio

from canal_group.actors.group.group import ServerList
from canal_group.actors.ports import ServerSeen, Silence
from canal_group.merge.errors import CoordinatorUnavailable


def test_servers_are_listed_until_the_coordinator_is_silent_for_long():
    silent_for_s: list[float] = []

    def ask() -> list[ServerSeen]:
        if silent_for_s:
            raise CoordinatorUnavailable("ZooKeeper does not answer.")
        return [ServerSeen("", active=True, since_us=7)]

    def silence() -> Silence | None:
        return Silence("ZooKeeper at zk:2181", silent_for_s[-1], 10.0) if silent_for_s else None

    async def story() -> None:
        servers, known = ServerList("a:1", ask, silence), [{"server": "a:1", "active": True, "since_us": 7}]
        assert await servers.describe() == known
        silent_for_s.append(9.0)
        servers._asked_s = None
        assert await servers.describe() == known
        silent_for_s.append(11.0)
        assert await servers.describe() == []
        silent_for_s.clear()
        assert await servers.describe() == known

    asyncio.run(story())
