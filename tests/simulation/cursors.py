"""The cursor store: a real adapter behind a channel that may lose a request, or its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.meta.memory import MemoryCursorStore
from actors.meta.zookeeper import ZooKeeperCursorStore
from actors.ports import CursorStore, Subscription
from merge.tree import Tree
from simulation.channel import Channel, Line
from simulation.invariants import Invariants
from simulation.loop import Future
from simulation.process import Process
from simulation.zookeeper import Session, ZooKeeper

DESTINATION = "shop"


class Cursors:
    """Keeps the subscriptions of all servers.

    Args:
        store: a real store; it stands for the medium, not for a server's view of it.
        invariants: are told of each write that came through.
        send: carries what is done to the store: (client, its session, what).
    """

    def __init__(
        self,
        store: CursorStore,
        invariants: Invariants,
        send: Callable[[Process, Session, Callable[[], Any]], Future],
    ) -> None:
        self._store = store
        self._invariants = invariants
        self._send = send

    @classmethod
    def in_zookeeper(cls, zookeeper: ZooKeeper, invariants: Invariants) -> Cursors:
        """Return a store whose writes are ZooKeeper's transactions."""
        return cls(ZooKeeperCursorStore(zookeeper, Tree(DESTINATION)), invariants, zookeeper.request)

    @classmethod
    def beside(cls, channel: Channel, invariants: Invariants) -> Cursors:
        """Return a store that knows of epochs only what is claimed and written, as a file does."""
        lines: dict[int, Line] = {}

        def send(client: Process, session: Session, act: Callable[[], Any]) -> Future:
            return channel.request(client, lines.setdefault(id(session), Line()), act)

        return cls(MemoryCursorStore(), invariants, send)

    async def claim(self, server: Process, session: Session, epoch: int) -> None:
        """Let nobody older write."""

        def act() -> None:
            self._store.claim(epoch)
            self._invariants.claimed(epoch)

        await self._send(server, session, act)

    async def load(self, server: Process, session: Session) -> list[Subscription]:
        """Return every subscription."""
        subscriptions: list[Subscription] = await self._send(server, session, self._store.load)
        return subscriptions

    async def save(self, server: Process, session: Session, subscription: Subscription, epoch: int) -> None:
        """Write a subscription."""

        def act() -> None:
            self._store.save(subscription, epoch)
            self._invariants.written(subscription, epoch)

        await self._send(server, session, act)
