"""A gateway's wiring: its listener, and the server's destinations at that listener."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from canal_group.actors.admission.access import Grants
from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.gateway.canal.wiring import CanalWiring
from canal_group.conf.listeners.gateway_settings import GatewayBounds


@dataclass(frozen=True, slots=True)
class GatewayWiring:
    """The settings of a gateway's listener, which all its destinations share."""

    #: where to listen, "grpc://host:port", or "grpc+tls://host:port" with TLS
    location: str
    #: None: connections are not encrypted
    tls: GatewayTls | None
    #: what callers may cost
    bounds: GatewayBounds
    #: where changes are logged; None: nowhere
    audit_log: Path | None = None


@dataclass(frozen=True, slots=True)
class DestinationActors:
    """The actors of one launch of a destination; each launch has names of its own."""

    #: name of the group actor
    group: str
    #: what the shard actors' names begin with; the shard's name follows
    shard_actors: str
    #: names of the shards that were launched
    shards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DestinationWiring:
    """A destination of a gateway's listener."""

    destination: str
    #: its clients and their rights
    grants: Grants
    #: how long a consumer may be silent, seconds
    lease_s: float
    #: whether a client id that begins without saying where has a snapshot
    snapshot: bool
    #: None without canal's protocol
    canal: CanalWiring | None
    #: None: it is absent, about to start or stopped. Its clients are let in, and told to ask again
    actors: DestinationActors | None
