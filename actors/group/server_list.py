"""The servers of a destination, for `status`: asked for seldom, and never waited for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from canal_group.actors.ports import ServerSeen, Silence
from canal_group.merge.errors import CanalGroupError

#: how old a list may be, seconds
AGE_MAX_S = 2.0
#: how long a status waits for a newer one, seconds
WAIT_S = 0.5


class ServerList:
    """The servers as the coordinator last told; its methods run on one loop.

    Args:
        address: "host:port" of this server.
        ask: asks the coordinator; blocks.
        silence: returns how long the coordinator has not answered, if it has not.
    """

    def __init__(
        self, address: str, ask: Callable[[], Sequence[ServerSeen]], silence: Callable[[], Silence | None]
    ) -> None:
        self._address = address
        self._ask, self._silence = ask, silence
        self._seen: list[dict[str, Any]] = []
        self._asked_s: float | None = None
        self._asking: asyncio.Task[None] | None = None

    async def describe(self) -> list[dict[str, Any]]:
        """Return the servers as JSON objects, as the coordinator told last; none if that is long ago."""
        now_s = asyncio.get_running_loop().time()
        if self._asking is None and (self._asked_s is None or now_s - self._asked_s > AGE_MAX_S):
            self._asking = asyncio.create_task(self._refresh())
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=WAIT_S)
        silence = self._silence()
        return [] if silence is not None and silence.is_long else self._seen

    async def _refresh(self) -> None:
        try:
            seen = await asyncio.to_thread(self._ask)
        except CanalGroupError:
            pass  # The state of the group says that the coordinator is not there.
        else:
            self._seen = [
                {"server": one.address or self._address, "active": one.active, "since_us": one.since_us}
                for one in seen
            ]
        finally:
            self._asked_s = asyncio.get_running_loop().time()
            self._asking = None
