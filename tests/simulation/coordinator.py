"""A server's side of the election: campaigns, asks often enough, and knows when it may no longer serve.

Does what `actors/coordination/zookeeper.py` does, with the real `Tenure`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.ports import ConsumerLease
from merge.epoch import Tenure, fenced
from merge.errors import CoordinatorUnavailable, FencedError
from simulation.loop import Future
from simulation.process import Process
from simulation.zookeeper import SESSION_US, ZooKeeper

#: questions in the time of a session, and the part of it that a tenure ends before
BEATS_PER_SESSION = 6


class Coordinator:
    """The coordinator of one incarnation of a server.

    Args:
        server: whose.
        owner: what its incarnations have in common.
        zookeeper: the ensemble.
        clock_offset_us: its monotonic clock minus the world's.
    """

    def __init__(self, server: Process, owner: str, zookeeper: ZooKeeper, clock_offset_us: int) -> None:
        self._server = server
        self._owner = owner
        self._zookeeper = zookeeper
        self._offset_us = clock_offset_us
        self._tenure: Tenure | None = None
        self._changed = Future()
        self._beat_due = Future()
        self.session = zookeeper.connect(server)
        server.spawn(self._keep())

    # ---- the election ----------------------------------------------------------------------------------

    async def campaign(self) -> int:
        """Wait until this server is the active one and return its epoch."""
        while True:
            self._changed = Future()
            try:
                epoch = await self._try_to_win()
            except CoordinatorUnavailable:
                epoch = None
            if epoch is not None:
                return epoch
            await self._server.within(self._changed, SESSION_US)

    async def _try_to_win(self) -> int | None:
        zookeeper = self._zookeeper
        running, epoch = await self._ask(lambda: (zookeeper.running, zookeeper.epoch))
        if running is not None and running.owner != self._owner:
            zookeeper.watch(self._changed.set)
            return None
        if running is not None and running.session is not self.session:
            self._refuse_to_oust_successor(epoch)
        asked_at_us = self.clock_us
        won: int | None = await self._ask(lambda: zookeeper.win(self.session, self._owner, epoch))
        if won is None:
            self._changed.set()
            return None
        self._tenure = Tenure(won, asked_at_us / 1e6 + _lease_s())
        self._beat_due.set()
        return won

    def _refuse_to_oust_successor(self, current_epoch: int) -> None:
        if self._tenure is not None and current_epoch > self._tenure.epoch:
            raise fenced(
                self._tenure.epoch, current_epoch, f"A newer incarnation of {self._owner} is active."
            )

    def _ask(self, act: Callable[[], Any]) -> Future:
        return self._zookeeper.request(self._server, self.session, act)

    # ---- keeping it ------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            self._beat_due = Future()
            await self._server.within(self._beat_due, SESSION_US // BEATS_PER_SESSION)
            try:
                await self._beat()
            except CoordinatorUnavailable:
                continue
            except FencedError:
                self._end("The ZooKeeper session has ended.")
                return

    async def _beat(self) -> None:
        tenure, asked_at_us, zookeeper = self._tenure, self.clock_us, self._zookeeper
        epoch, running = await self._ask(lambda: (zookeeper.epoch, zookeeper.running))
        if tenure is None or tenure.over:
            return
        seen = tenure.saw(epoch)
        if running is None or running.session is not self.session:
            seen = seen.ended("running no longer belongs to this server.")
        if self._tenure is not None and self._tenure.epoch == tenure.epoch and not self._tenure.over:
            self._tenure = seen.confirmed(asked_at_us / 1e6, _lease_s())

    def _end(self, why: str) -> None:
        if self._tenure is None:
            self._tenure = Tenure(1, 0.0)
        self._tenure = self._tenure.ended(why)
        self._changed.set()

    @property
    def clock_us(self) -> int:
        """Its monotonic clock."""
        return self._server.loop.now_us + self._offset_us

    @property
    def over(self) -> bool:
        """Whether its session is known to have ended."""
        return self._tenure is not None and bool(self._tenure.over)

    # ---- what a server asks of it ----------------------------------------------------------------------

    def check_active(self) -> None:
        """Return if this server can still know that it is the active one; asks nobody."""
        if self._tenure is None:
            raise CoordinatorUnavailable("This server stands by.")
        self._tenure.check(self.clock_us / 1e6)

    async def lease_consumer(self, client_id: str, holder: str) -> ConsumerLease:
        """Make `holder` the active consumer of a client id, under a new epoch."""
        epoch = self._epoch()
        lease: ConsumerLease = await self._ask(lambda: self._zookeeper.lease(epoch, client_id, holder))
        return lease

    async def consumers(self) -> list[ConsumerLease]:
        """Return the last holder of each client id."""
        leases: list[ConsumerLease] = await self._ask(self._zookeeper.leases)
        return leases

    async def close(self) -> None:
        """Give up activity in good order."""
        self._end("The coordinator was closed.")
        await self._ask(lambda: self._zookeeper.resign(self.session))

    def _epoch(self) -> int:
        self.check_active()
        assert self._tenure is not None
        return self._tenure.epoch


def _lease_s() -> float:
    return SESSION_US * (BEATS_PER_SESSION - 1) / BEATS_PER_SESSION / 1e6
