"""The consumers' leases: taken and released in order for each client id."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

from canal_group.actors.ports import ConsumerLease, Coordinator, Host


class Leases:
    """Leases during one server's tenure; its methods run on one loop.

    Guarantee: changes of a client id's running node are made one after the other, in the order of the calls.

    Args:
        coordinator: stores the leases.
        host: runs its blocking calls.
    """

    def __init__(self, coordinator: Coordinator, host: Host) -> None:
        self._host = host
        self._coordinator = coordinator
        #: ZooKeeper sessions of the consumers that keep their running nodes themselves, by client id
        self._sessions: dict[str, str] = {}
        #: sessions of pending subscriptions, and whether their nodes are removed with them, by
        #: (client_id, holder)
        self._pending: dict[tuple[str, str], tuple[str, bool]] = {}
        #: as long as somebody waits for one or has it
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def restore(self, client_ids: Sequence[str]) -> dict[str, ConsumerLease]:
        """Return the last holders by client id; go on keeping the nodes that an earlier server kept for them.

        Args:
            client_ids: the existing subscriptions.
        """
        stored = await self._host.blocking(self._coordinator.consumers)
        for lease in stored:
            if lease.client_id not in client_ids:
                # Of a look, of which nothing is stored: it ended with its server.
                await self._host.blocking(self._coordinator.forget_consumer, lease.client_id)
        leases = {lease.client_id: lease for lease in stored if lease.client_id in client_ids}
        self._sessions = {lease.client_id: lease.session for lease in leases.values() if lease.session}
        for lease in leases.values():
            if lease.holder and not lease.session:
                await self._host.blocking(self._coordinator.keep_consumer, lease.client_id, lease.holder)
        return leases

    async def session_keeping(self, client_id: str) -> str:
        """Return the session of a consumer that made its own running node; empty without such a node."""
        return await self._host.blocking(self._coordinator.session_keeping, client_id)

    def want(self, client_id: str, holder: str, session: str, *, announced: bool = True) -> None:
        """Remember the session of a consumer that is about to subscribe; empty: we keep its node.

        Args:
            client_id: the client id.
            holder: the consumer.
            session: its session.
            announced: whether the consumer told its session. If the session was looked up, the consumer does
                not know of us, and may have made another node by the time that it is released: then that node
                is not removed.
        """
        self._pending[client_id, holder] = session, announced

    def want_no_more(self, client_id: str, holder: str) -> None:
        """Forget that session: the subscription is answered."""
        self._pending.pop((client_id, holder), None)

    async def take(self, client_id: str, holder: str) -> ConsumerLease:
        """Make `holder` the consumer; raises as `Coordinator.lease_consumer`."""
        session, announced = self._pending.get((client_id, holder), ("", True))
        async with self._lock_of(client_id):
            lease = await self._host.blocking(self._coordinator.lease_consumer, client_id, holder, session)
        self._sessions[client_id] = session if announced else ""
        return lease

    def give_up(self, client_id: str) -> str:
        """Remove and return the session of the consumer to release, for `release`."""
        return self._sessions.pop(client_id, "")

    async def release(self, client_id: str, session: str) -> None:
        """Remove a released consumer's node; raises as `Coordinator.release_consumer`."""
        async with self._lock_of(client_id):
            await self._host.blocking(self._coordinator.release_consumer, client_id, session)

    async def forget(self, client_id: str) -> None:
        """Keep nothing of a client id that was unsubscribed; raises as `Coordinator.forget_consumer`."""
        async with self._lock_of(client_id):
            await self._host.blocking(self._coordinator.forget_consumer, client_id)

    def _lock_of(self, client_id: str) -> asyncio.Lock:
        return self._locks.setdefault(client_id, asyncio.Lock())

    async def gone(self, client_id: str, session: str) -> ConsumerLease | None:
        """Return the last holder if it is known to be gone; raises as `Coordinator.gone_consumer`."""
        return await self._host.blocking(self._coordinator.gone_consumer, client_id, session)
