"""Destinations as the connections of one of canal's listeners find them, by name and by login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from canal_group.actors.admission.refused_destination import not_served
from canal_group.actors.gateway.batch_reader import BatchReader
from canal_group.actors.gateway.canal.login import CanalLogin, ShownLogin
from canal_group.actors.gateway.gateway_counters import GatewayCounters
from canal_group.actors.gateway.group_handle import GroupHandle
from canal_group.actors.gateway.requests import Requests

_T = TypeVar("_T")

#: threads of a destination that make entries, and ask what takes long
THREADS: Final = 8
#: how often a lease is renewed, seconds; at least every quarter of it
_TOUCH_EVERY_S = 2.0
_TOUCH_EVERY_PART = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class CanalDestination:
    """The parts that answer for a destination; another launch of it is another object."""

    name: str
    #: None: every client is admitted
    login: CanalLogin | None
    #: whether the begins and the ends of transactions are sent
    transaction_ends: bool
    #: how long a consumer may be silent, seconds
    lease_s: float
    group: GroupHandle
    #: answers subscriptions
    requests: Requests
    #: reads the rows of batches
    rows: BatchReader
    #: where packets are counted
    counters: GatewayCounters
    #: its own: one whose group or shards do not answer must not keep the threads of others. They end with it
    threads: Executor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="canal"))

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Return the result of work that takes long."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    @property
    def touch_every_s(self) -> float:
        """How often a lease is renewed, seconds."""
        return min(_TOUCH_EVERY_S, self.lease_s * _TOUCH_EVERY_PART)


@dataclass(frozen=True, slots=True)
class CanalTable:
    """The destinations of one listener."""

    served: Mapping[str, CanalDestination]
    #: logins of the absent ones
    absent: Mapping[str, CanalLogin | None]
    #: counters of packets for destinations that are not served
    unserved: GatewayCounters

    def check_login(self, shown: ShownLogin) -> bool:
        """Check a login before its destination is known.

        Returns:
            Whether it is the login of a destination; otherwise there is one that admits every client.

        Raises:
            AccessDenied: no destination admits it.
        """
        logins = [*(each.login for each in self.served.values()), *self.absent.values()]
        # Compare every login, so that the time does not tell which login fits.
        is_right = any([login.admits(shown) for login in logins if login is not None])  # noqa: C419
        if not is_right and None not in logins:
            raise shown.refusal
        return is_right

    def counters_of(self, name: str) -> GatewayCounters:
        """Return where the packets for a destination are counted."""
        destination = self.served.get(name)
        return self.unserved if destination is None else destination.counters

    def find(self, name: str, shown: ShownLogin) -> CanalDestination:
        """Return the destination that a packet is for.

        Raises:
            UsageError: it is unknown.
            ServerUnavailable: it is absent.
            AccessDenied: the client logged in for another one.
        """
        destination = self.served.get(name)
        if destination is not None:
            if not _admits(destination.login, shown):
                raise shown.denied_at(name)
            return destination
        readable = (each.name for each in self.served.values() if _admits(each.login, shown))
        raise not_served(name, readable, is_absent=name in self.absent)


def _admits(login: CanalLogin | None, shown: ShownLogin) -> bool:
    return login is None or login.admits(shown)
