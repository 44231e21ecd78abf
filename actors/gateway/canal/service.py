"""What the connections of canal's protocol share: the group, the rows, and the limits."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from canal_group.actors.admission.failed_logins import FailedLogins
from canal_group.actors.gateway.batch_reader import BatchReader
from canal_group.actors.gateway.canal.subscription import Subscription
from canal_group.actors.gateway.canal.unsent_bytes import UnsentBytes
from canal_group.actors.gateway.canal.wiring import CanalWiring
from canal_group.actors.gateway.gateway_counters import GatewayCounters
from canal_group.actors.gateway.group_handle import GroupHandle
from canal_group.actors.gateway.requests import Requests
from canal_group.merge.calls.consumers import Release, Subscribe
from canal_group.merge.errors import ConsumerActive, NotSubscribed, RetryableError, UsageError

#: threads that make entries, and ask what takes long
THREADS: Final = 8
#: how long a subscription waits for a client id that another consumer holds, seconds: one that reconnects may
#: come before it is known that its last connection has ended
SUBSCRIBE_S: Final = 5.0
#: in front of the addresses of clients that hold client ids
_HOLDER: Final = "canal:"
#: how often a lease is renewed, seconds; at least every quarter of it
_TOUCH_EVERY_S: Final = 2.0
_TOUCH_EVERY_PART: Final = 0.25


class CanalService:
    """What the connections of one server share. Its methods run on one loop.

    Args:
        wiring: the server's settings.
        group: whom to ask.
        requests: answers subscriptions.
        rows: reads the rows of batches.
        counters: where packets are counted.
    """

    def __init__(
        self,
        wiring: CanalWiring,
        group: GroupHandle,
        requests: Requests,
        rows: BatchReader,
        counters: GatewayCounters,
    ) -> None:
        self._destination = wiring.destination
        self._group, self._requests, self._rows, self._counters = group, requests, rows, counters
        self.bounds, self.login, self.lease_s = wiring.bounds, wiring.login, wiring.lease_s
        self.touch_every_s = min(_TOUCH_EVERY_S, wiring.lease_s * _TOUCH_EVERY_PART)
        self.failed_logins = FailedLogins()
        self.unsent = UnsentBytes(wiring.bounds.unsent_bytes_max)
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="canal")
        #: names of connections that hold, or ask for, a client id
        self._holders: set[str] = set()

    def check(self, destination: str) -> None:
        """Check that a packet is for this server.

        Raises:
            UsageError: it is for another destination.
        """
        if destination != self._destination:
            raise UsageError(
                f"Destination {destination!r} is not served here, but {self._destination!r}.",
                hint="Check the destination's name.",
            )

    async def subscribe(self, client_id: str, peer: str, table_filter: str) -> Subscription:
        """Make a connection the consumer of a client id.

        Raises:
            ConsumerActive: another consumer holds it, and still did after `SUBSCRIBE_S`.
            CanalGroupError: the group refuses it.
        """
        until_s = time.monotonic() + SUBSCRIBE_S
        holder = _HOLDER + peer
        self._holders.add(holder)
        while True:
            try:
                taken = await self._take(client_id, holder, table_filter)
            except ConsumerActive as error:
                other = str(error.details.get("holder", ""))
                if other.startswith(_HOLDER) and other not in self._holders:
                    await self._let_go(client_id, other, table_filter)
                elif time.monotonic() > until_s:
                    raise
                else:
                    await asyncio.sleep(min(error.retry_after_s, 0.5))
            except RetryableError as error:
                if time.monotonic() > until_s:
                    raise
                await asyncio.sleep(min(error.retry_after_s, 0.5))
            else:
                group, rows, threads = self._group, self._rows, self.threads
                return Subscription(group, rows, threads, client_id, int(taken["epoch"]), table_filter)

    async def _take(self, client_id: str, holder: str, table_filter: str) -> dict[str, Any]:
        call = Subscribe(client_id, holder, table_filter)
        taken: dict[str, Any] = await self._in_thread(
            lambda: self._requests.subscribe(call, may_disturb=False, finds_session=True)
        )
        return taken

    async def _let_go(self, client_id: str, holder: str, table_filter: str) -> None:
        """Release a client id that a connection of another server held, or of this one before it restarted.

        That connection has ended for certain: only the active server's connections can be used.
        """
        taken = await self._take(client_id, holder, table_filter)
        await self._group.ask_from(Release(client_id, int(taken["epoch"])))

    def released(self, peer: str) -> None:
        """Forget the client id that a connection held."""
        self._holders.discard(_HOLDER + peer)

    async def filter_of(self, client_id: str) -> str:
        """Return the filter of a subscription that was made before.

        Raises:
            NotSubscribed: there is none.
        """
        status = await self._in_thread(self._group.status)
        for client in status.get("clients", []):
            if client["client_id"] == client_id:
                return str(client["filter"])
        raise NotSubscribed(f"Client {client_id} is not subscribed.", hint="Subscribe first.")

    def counted(self, packet: str, seconds: float, failed: str) -> None:
        """Count a packet that was answered."""
        self._counters.called(f"canal_{packet}", seconds, failed)

    def sent(self, rows: int, size: int) -> None:
        """Count what was sent."""
        self._counters.sent(rows, size)

    async def _in_thread(self, work: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)
