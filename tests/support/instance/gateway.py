"""A gateway's server without actors: tests answer for its group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from canal_group.actors.admission.access import READER, Grants
from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.gateway.destinations import Destinations
from canal_group.actors.gateway.gateway import GatewayServer
from canal_group.actors.gateway.wiring import DestinationActors, DestinationWiring, GatewayWiring
from canal_group.conf.listeners.gateway_settings import GatewayBounds

ANYBODY = Grants(anybody=READER)


def destination(
    name: str = "shop", grants: Grants = ANYBODY, *, group: str | None = "group", lease_s: float = 10.0
) -> DestinationWiring:
    """Return the wiring of a destination; without a group it is absent."""
    actors = None if group is None else DestinationActors(group, "shard/", ())
    return DestinationWiring(name, grants, lease_s, snapshot=False, canal=None, actors=actors)


@contextmanager
def gateway_server(
    *destinations: DestinationWiring,
    location: str = "grpc://127.0.0.1:0",
    tls: GatewayTls | None = None,
    bounds: GatewayBounds | None = None,
    kind: type[GatewayServer] = GatewayServer,
) -> Iterator[GatewayServer]:
    """Run a server, of one destination that admits everybody unless others are named."""
    table = Destinations()
    table.serve(destinations or [destination()])
    try:
        with kind(GatewayWiring(location, tls, bounds or GatewayBounds()), table) as server:
            yield server
    finally:
        table.serve([])
