"""What the connections of one of canal's listeners share: the destinations, and the limits."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from canal_group.actors.admission.failed_logins import FailedLogins
from canal_group.actors.admission.unsent_bytes import UnsentBytes
from canal_group.actors.gateway.canal.destination import CanalDestination, CanalTable
from canal_group.actors.gateway.canal.subscription import Subscription
from canal_group.conf.listeners.canal_settings import CanalBounds
from canal_group.merge.calls.consumers import Release, Subscribe
from canal_group.merge.errors import ConsumerActive, NotSubscribed, RetryableError
from canal_group.merge.whole import whole

#: how long a subscription waits for a client id that another consumer holds, seconds: a consumer may
#: reconnect before the server notices that the old connection has ended
SUBSCRIBE_S: Final = 5.0
#: in front of the addresses of clients that hold client ids
_HOLDER: Final = "canal:"


class CanalService:
    """What the connections of one listener share. Its methods run on one loop.

    Args:
        bounds: of the listener.
        table: its destinations.
    """

    def __init__(self, bounds: CanalBounds, table: CanalTable) -> None:
        self.bounds = bounds
        #: the destinations, replaced as a whole when one comes or goes
        self.table = table
        self.failed_logins = FailedLogins()
        self.unsent = UnsentBytes(bounds.unsent_bytes_max)
        #: names of connections that hold, or ask for, a client id
        self._holders: set[str] = set()

    def serves(self, destination: CanalDestination) -> bool:
        """Return whether this launch of a destination is still served."""
        return self.table.served.get(destination.name) is destination

    async def subscribe(
        self, destination: CanalDestination, client_id: str, peer: str, table_filter: str
    ) -> Subscription:
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
                taken = await self._take(destination, client_id, holder, table_filter)
            except ConsumerActive as error:
                other = str(error.details.get("holder", ""))
                if other.startswith(_HOLDER) and other not in self._holders:
                    await self._let_go(destination, client_id, other, table_filter)
                elif time.monotonic() > until_s:
                    raise
                else:
                    await asyncio.sleep(min(error.retry_after_s, 0.5))
            except RetryableError as error:
                if time.monotonic() > until_s:
                    raise
                await asyncio.sleep(min(error.retry_after_s, 0.5))
            else:
                return Subscription(
                    destination.group,
                    destination.rows,
                    destination.threads,
                    client_id,
                    whole(taken["epoch"]),
                    table_filter,
                    destination.counters,
                    transaction_ends=destination.transaction_ends,
                )

    async def _take(
        self, destination: CanalDestination, client_id: str, holder: str, table_filter: str
    ) -> dict[str, Any]:
        call = Subscribe(client_id, holder, table_filter)
        taken: dict[str, Any] = await destination.in_thread(
            lambda: destination.requests.subscribe(call, may_disturb=False, finds_session=True)
        )
        return taken

    async def _let_go(
        self, destination: CanalDestination, client_id: str, holder: str, table_filter: str
    ) -> None:
        """Release a client id that a connection of another server held, or of this one before it restarted.

        That connection has ended for certain: only the active server's connections can be used.
        """
        taken = await self._take(destination, client_id, holder, table_filter)
        await destination.group.ask_from(Release(client_id, whole(taken["epoch"])))

    def released(self, peer: str) -> None:
        """Forget the client id that a connection held."""
        self._holders.discard(_HOLDER + peer)

    async def filter_of(self, destination: CanalDestination, client_id: str) -> str:
        """Return the filter of a subscription that was made before.

        Raises:
            NotSubscribed: there is none.
        """
        status = await destination.in_thread(destination.group.status)
        for client in status.get("clients", []):
            if client["client_id"] == client_id:
                return str(client["filter"])
        raise NotSubscribed(f"Client {client_id} is not subscribed.", hint="Subscribe first.")
