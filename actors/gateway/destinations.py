"""The destinations of a gateway: added and withdrawn while it runs, and found by a request's name.

Whoever calls is let in at the listener if one of its destinations admits it. What it may do is what the
grants of the destination say that its request names. An absent destination, which its server starts, restarts
or has stopped, lets its clients in as well: they are told to ask again, as if nothing listened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.refused_destination import RETRY_AFTER_S, not_served
from canal_group.actors.admission.token_middleware import Caller
from canal_group.actors.gateway.canal.destination import CanalTable
from canal_group.actors.gateway.canal.listeners import CanalListeners
from canal_group.actors.gateway.canal.wiring import CanalListener
from canal_group.actors.gateway.gateway_counters import GatewayCounters
from canal_group.actors.gateway.served_destination import ServedDestination, new_counters
from canal_group.actors.gateway.wiring import DestinationWiring
from canal_group.merge.errors import ServerUnavailable


@dataclass(frozen=True, slots=True)
class _Table:
    """What requests see: replaced as a whole."""

    served: dict[str, ServedDestination] = field(default_factory=dict)
    absent: dict[str, DestinationWiring] = field(default_factory=dict)
    grants: Grants = field(default_factory=Grants)

    def grant(self, wiring: DestinationWiring, caller: Caller) -> Grant | None:
        """Return the grant of a caller at a destination; None: it was let in for another one only.

        A token of another one counts as none, beside a certificate: commands show the operator's wherever it
        is published.
        """
        of_another = self.grants.knows(caller.token) and not wiring.grants.knows(caller.token)
        return wiring.grants.find("" if of_another else caller.token, caller.certificate)

    def granted(self, wiring: DestinationWiring, caller: Caller) -> Grant:
        """Return the same; raises AccessDenied."""
        grant = self.grant(wiring, caller)
        if grant is None:
            raise caller.grant.denied_at(wiring.destination)
        return grant

    def reads(self, wiring: DestinationWiring, caller: Caller) -> bool:
        """Return whether a caller may read a destination."""
        grant = self.grant(wiring, caller)
        return grant is not None and grant.reads(wiring.destination)


class Destinations:
    """The table of destinations. Requests use it from any thread; `serve` is called by one at a time."""

    def __init__(self) -> None:
        self._table = _Table()
        self._canal = CanalListeners()
        #: counters of calls and packets for destinations that are not served
        self.unserved: GatewayCounters = new_counters()

    def grants(self) -> Grants:
        """Return who is let in at the listener."""
        return self._table.grants

    def serve(self, wirings: Sequence[DestinationWiring]) -> dict[str, str]:
        """Serve these destinations from now on; those that are served already go on undisturbed.

        Returns:
            Those that cannot be served, which are absent, and why.

        Raises:
            ConfigError: a listener of canal's protocol cannot listen.
        """
        before = self._table.served
        made, served = list[ServedDestination](), dict[str, ServedDestination]()
        absent, failed = dict[str, DestinationWiring](), dict[str, str]()
        try:
            for wiring in wirings:
                name = wiring.destination
                known = before.get(name)
                if wiring.actors is None:
                    absent[name] = wiring
                elif known is not None and known.wiring == wiring:
                    served[name] = known
                else:
                    try:
                        served[name] = ServedDestination(wiring, self.describe)
                    except ServerUnavailable as error:
                        absent[name], failed[name] = wiring, str(error)
                    else:
                        made.append(served[name])
            self._canal.serve(self._canal_tables(served.values(), absent.values()))
        except BaseException:
            for each in made:
                each.close()
            raise
        self._table = _Table(served, absent, Grants.merged([each.grants for each in wirings]))
        for name, gone in before.items():
            if served.get(name) is not gone:
                gone.close()
        return failed

    def _canal_tables(
        self, served: Iterable[ServedDestination], absent: Iterable[DestinationWiring]
    ) -> dict[CanalListener, CanalTable]:
        tables: dict[CanalListener, CanalTable] = {}
        for each in served:
            if each.canal is not None and each.wiring.canal is not None:
                listener = each.wiring.canal.listener
                table = tables.setdefault(listener, CanalTable({}, {}, self.unserved))
                tables[listener] = CanalTable(
                    {**table.served, each.name: each.canal}, table.absent, self.unserved
                )
        for listener, table in tables.items():
            logins = {
                each.destination: each.canal.login
                for each in absent
                if each.canal is not None and each.canal.listener.at == listener.at
            }
            tables[listener] = CanalTable(table.served, logins, self.unserved)
        return tables

    def find(self, name: object, caller: Caller) -> tuple[ServedDestination, Grant]:
        """Return the destination that a request names, and what its caller may do there.

        Raises:
            AccessDenied: the caller was let in for another destination only.
            ServerUnavailable: it is absent.
            UsageError: it is unknown.
        """
        table = self._table
        destination = table.served.get(name) if isinstance(name, str) else None
        if destination is not None:
            return destination, table.granted(destination.wiring, caller)
        absent = table.absent.get(name) if isinstance(name, str) else None
        if absent is not None:
            table.granted(absent, caller)
        readable = (each.name for each in table.served.values() if table.reads(each.wiring, caller))
        raise not_served(name, readable, is_absent=absent is not None)

    def describe(self, counters: GatewayCounters) -> dict[str, Any]:
        """Return the gateway's state as a JSON object, with the counters of a destination."""
        return {
            "pid": os.getpid(),
            "counters": counters.describe(),
            "unserved_calls": self.unserved.calls,
        }

    def state_of(self, name: str) -> dict[str, Any]:
        """Return the gateway's state as a JSON object, with the counters of a destination by name.

        Raises:
            ServerUnavailable: it is not served, as after a start of the gateway's process.
        """
        destination = self._table.served.get(name)
        if destination is None:
            raise ServerUnavailable(f"The gateway does not serve {name} now.", retry_after_s=RETRY_AFTER_S)
        return self.describe(destination.counters)

    def counters_of(self, name: object) -> GatewayCounters:
        """Return where the calls for a destination are counted."""
        destination = self._table.served.get(name) if isinstance(name, str) else None
        return self.unserved if destination is None else destination.counters
