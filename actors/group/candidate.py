"""A candidate: stands by, is elected, serves its destination, hands over, and stands by again.

It serves only while its coordinator says that it is the active one. When it is fenced or fails, it ends its
process: Ray starts it again, and the new process stands by.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from canal_group.actors.group import wiring
from canal_group.actors.group.active_group import ActiveGroup
from canal_group.actors.group.leases import Leases
from canal_group.actors.group.loss_warnings import LossWarnings
from canal_group.actors.group.registration import REGISTRATION_WAIT_S, ShardRegistration
from canal_group.actors.group.standby import Standby
from canal_group.actors.group.stored.cursors import StoredCursors
from canal_group.actors.group.stored.document import DDL_DECISIONS
from canal_group.actors.ports import (
    ConsumerLease,
    Coordinator,
    EpochStore,
    Host,
    ServerSeen,
    Silence,
    Subscription,
)
from canal_group.conf.settings import InstanceSettings
from canal_group.merge import events as ev
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import CanalGroupError, ConfigError, CoordinatorUnavailable, FencedError
from canal_group.merge.group import Group, GroupSettings
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.replay.replaying_group import ReplayingGroup

_log = logging.getLogger(__name__)

#: interval at which leases, dead shards, and whether this server is the active one are checked, seconds
TICK_S = 0.2
#: pause after a take-over that failed, seconds: the first, and the longest
TAKE_OVER_AGAIN_S, TAKE_OVER_AGAIN_MAX_S = 0.5, 30.0
#: timeout of resigning after a failure, seconds
LEAVE_S = 5.0


class Parts(Protocol):
    """Makes the parts of a server from its settings; `canal_group.actors.group.wiring` implements it."""

    def coordinator(
        self, settings: InstanceSettings, identity: wiring.ServerIdentity, host: Host
    ) -> Coordinator:
        """Return the coordinator."""

    def store(self, settings: InstanceSettings, elected_by: Coordinator, host: Host) -> EpochStore:
        """Return the store of cursors, schema histories and decisions."""

    def group_settings(self, settings: InstanceSettings) -> GroupSettings:
        """Return the settings of the group's state machine."""


class Candidate:
    """One server that may become the active one of a destination; its methods run on one loop.

    Args:
        registration: the shards of the destination.
        identity: the identity of this server.
        reachable: returns whether consumers can reach it.
        host: the host that it runs on.
        parts: makes its parts.
        tick_s: interval at which leases, dead shards, and whether this server is the active one are checked,
            seconds.
    """

    def __init__(
        self,
        registration: ShardRegistration,
        identity: wiring.ServerIdentity,
        reachable: Callable[[], bool],
        host: Host,
        parts: Parts = wiring,
        tick_s: float = TICK_S,
    ) -> None:
        #: the group of the active server; None on a standby
        self.group: ActiveGroup | None = None
        self._registration = registration
        self._identity = identity
        self._reachable = reachable
        self._host = host
        self._parts = parts
        self._tick_s = tick_s
        self._destination = registration.settings.destination
        self._standby = Standby(self._destination, identity.address)
        #: why it could not take over when it was elected last
        self._refused: CanalGroupError | None = None
        self._coordinator: Coordinator | None = None
        self._store: EpochStore | None = None
        self._loop = asyncio.get_running_loop()
        #: ends the process after a failure
        self._leaving: asyncio.Task[None] | None = None
        self._main = self._loop.create_task(self._live())

    def serving(self) -> ActiveGroup:
        """Return the group that this server serves.

        Raises:
            ServerUnavailable: this server stands by.
        """
        if self.group is None:
            raise self._standby.refusal()
        return self.group

    def describe(self) -> dict[str, Any]:
        """Return the state as `status` shows it, as of the last tick; may be called from another thread."""
        group = self.group
        snapshot = group.snapshot if group is not None else None
        if snapshot is None:
            refused = {} if self._refused is None else {"error": f"it cannot take over: {self._refused}"}
            return {**refused, **self._standby.describe()}
        silence = self.silence()
        return {"active": True, "silence_s": None if silence is None else silence.for_s, **snapshot}

    def silence(self) -> Silence | None:
        """Return how long the coordinator has not answered; None: it has, or needs not. From any thread."""
        return None if self._coordinator is None else self._coordinator.silence()

    def servers(self) -> Sequence[ServerSeen]:
        """Return the servers of the destination that are known; blocks, and may be called from any thread.

        Raises:
            CoordinatorUnavailable: the coordinator did not answer.
        """
        return () if self._coordinator is None else self._coordinator.servers()

    async def publish(self) -> None:
        """Update what `describe` returns to the current state."""
        if self.group is not None:
            self.group.publish()

    async def close(self) -> None:
        """Resign in an orderly way, for good."""
        group = self.group
        self._main.cancel()
        self._stand_down()
        if group is not None and self._coordinator is not None and self._store is not None:
            await self._hand_over(group, self._coordinator, self._store)
        if self._store is not None:
            await self._host.blocking(self._store.close)
        if self._coordinator is not None:
            await self._host.blocking(self._coordinator.close)

    # ---- being elected ---------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Stand by, serve, stand by again; end the process when fenced or after a failure."""
        try:
            self._coordinator = self._parts.coordinator(
                self._registration.settings, self._identity, self._host
            )
            self._standby = Standby(self._destination, self._identity.address, self._coordinator)
            leases = Leases(self._coordinator, self._host)
            self._store = self._parts.store(self._registration.settings, self._coordinator, self._host)
            back_off = BackOff(TAKE_OVER_AGAIN_MAX_S)
            while True:
                epoch = await self._host.blocking(self._coordinator.campaign)
                about = {"destination": self._destination, "epoch": epoch}
                try:
                    group = await self._begin(epoch, self._coordinator, self._store, leases)
                except CoordinatorUnavailable as error:
                    await self._give_way(error, self._coordinator, back_off.failed(TAKE_OVER_AGAIN_S, 1.0))
                    continue
                self._refused = None
                back_off.reset()
                _log.info("active", extra=about)
                try:
                    await self._serve(group, self._coordinator)
                    await self._hand_over(group, self._coordinator, self._store)
                except CoordinatorUnavailable as error:
                    _log.warning("stands by: %s", error, extra=about)
                finally:
                    self._stand_down()
        except FencedError as error:
            _log.warning("the group is fenced: %s", error, extra={"destination": self._destination})
            self._end()
        except CoordinatorUnavailable as error:
            _log.error(
                "the group cannot reach its coordinator: %s", error, extra={"destination": self._destination}
            )
            await asyncio.sleep(1.0)
            self._end()
        except ConfigError as error:
            # For the operator, such as a password that ZooKeeper refuses: log a sentence, not a traceback.
            _log.error(
                "the destination cannot be served: %s", error, extra={"destination": self._destination}
            )
            await asyncio.sleep(1.0)
            await self._leave()
        except Exception:  # the process ends after any error, so that none is silent
            _log.exception("the group failed", extra={"destination": self._destination})
            await self._leave()

    async def _give_way(self, error: CanalGroupError, coordinator: Coordinator, pause_s: float) -> None:
        """Resign after a take-over that failed, and wait: elected at once this server would fail again."""
        self._refused = error
        _log.error(
            "cannot take over, next attempt in %.1f s: %s",
            pause_s,
            error,
            extra={"destination": self._destination},
        )
        self._stand_down()
        await self._host.blocking(coordinator.resign)
        await asyncio.sleep(pause_s)

    async def _leave(self) -> NoReturn:
        """Resign, if that is possible, so that another server can take over, and end the process.

        Otherwise our next process would take over at once, and might fail at the same thing for ever.
        """
        self._stand_down()
        if self._coordinator is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(LEAVE_S):
                    await self._host.blocking(self._coordinator.close)
        self._end()

    def _end(self) -> NoReturn:
        """End the process; Ray starts it again."""
        self._host.end()

    def _broke(self, error: BaseException) -> None:
        """End the process because a background task failed."""
        _log.error("the group failed", exc_info=error, extra={"destination": self._destination})
        if isinstance(error, FencedError):
            self._end()
        self._main.cancel()
        self._leaving = self._loop.create_task(self._leave())

    # ---- being active ----------------------------------------------------------------------------------

    async def _begin(
        self, epoch: int, coordinator: Coordinator, store: EpochStore, leases: Leases
    ) -> ActiveGroup:
        """Take over the state of the previous server, and serve.

        Raises:
            FencedError: another server was elected.
            CoordinatorUnavailable: another server may have been elected.
        """
        await self._host.blocking(store.claim, epoch)
        subscriptions = await StoredCursors(store, epoch, self._host).load()
        held = await leases.restore([each.client_id for each in subscriptions])
        await self._hear_of_shards(subscriptions, coordinator)
        settings = self._parts.group_settings(self._registration.settings)
        ddl = None
        if settings.ddl is not DdlRule.EVERY:
            ddl = await self._host.blocking(store.get, DDL_DECISIONS, epoch)
        # From here to `Started` nothing may wait: a call of a consumer must not be the machine's first event.
        shards = self._registration.keep_those_with_actors()
        settings = self._parts.group_settings(self._registration.settings)
        machine = (ReplayingGroup if settings.replays_max else Group)(settings, epoch)
        self.group = ActiveGroup(
            machine,
            shards,
            coordinator,
            store,
            leases,
            self._standby,
            self._broke,
            self._host,
            pace_s=self._registration.settings.merge.pace_s,
        )
        self.group.losses = LossWarnings(self._standby.destination, subscriptions)
        consumers = tuple(_consumer(each, held.get(each.client_id)) for each in subscriptions)
        self.group.tell(ev.Started(self._host.now_us(), consumers, ddl))
        return self.group

    async def _hear_of_shards(self, subscriptions: Sequence[Subscription], coordinator: Coordinator) -> None:
        """Wait until the driver registers the shards that joined under the previous process.

        The cursors have them and they have actors, but they are not registered in this process yet.
        """
        until_s = self._loop.time() + REGISTRATION_WAIT_S
        held = {name for each in subscriptions if each.cursor is not None for name in each.cursor.shards}
        while self._loop.time() < until_s and self._registration.unregistered(held):
            await asyncio.sleep(self._tick_s)
            coordinator.check_active()

    async def _serve(self, group: ActiveGroup, coordinator: Coordinator) -> None:
        """Serve until an operator stops the destination, or requests another server.

        Raises as `_begin`.
        """
        while coordinator.stop_mark() is None and not coordinator.release_asked():
            group.tick(reachable=self._reachable())
            await asyncio.sleep(self._tick_s)

    async def _hand_over(self, group: ActiveGroup, coordinator: Coordinator, store: EpochStore) -> None:
        """Hand over in an orderly way.

        1. Stop serving. 2. Let the shards close their sources. 3. Make the cursors durable. 4. Resign, so
           that
        the next server can be elected.
        """
        epoch = group.machine.epoch
        _log.info("hands over", extra={"destination": self._destination, "epoch": epoch})
        self._stand_down()
        group.close_shards()
        try:
            await self._host.blocking(store.flush, epoch)
        except CanalGroupError as error:
            _log.warning("cursors not flushed: %s", error, extra={"destination": self._destination})
        await self._host.blocking(coordinator.resign)

    def _stand_down(self) -> None:
        if self.group is not None:
            group, self.group = self.group, None
            group.end()


def _consumer(subscription: Subscription, lease: ConsumerLease | None) -> ev.ConsumerState:
    """Return a subscription as the previous server left it, with the consumer that holds it."""
    return ev.ConsumerState(
        subscription.client_id,
        subscription.filter,
        subscription.cursor,
        holder=lease.holder if lease is not None else "",
        epoch=lease.epoch if lease is not None else 0,
        dropped=subscription.dropped,
        losses=subscription.losses,
        quiet_since=subscription.quiet_since,
        lasting=subscription.lasting,
        unread=subscription.unread,
        unreadable=subscription.unreadable,
    )
