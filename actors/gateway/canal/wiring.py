"""What a server of canal's protocol is made of: its settings."""

from __future__ import annotations

from dataclasses import dataclass

from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.gateway.canal.login import CanalLogin
from canal_group.conf.listeners.canal_settings import CanalBounds


@dataclass(frozen=True, slots=True)
class CanalWiring:
    """The settings of a server of canal's protocol."""

    #: where to listen
    host: str
    port: int
    #: the one destination that it serves
    destination: str
    #: how long a consumer may be silent, seconds
    lease_s: float
    #: None: every client is admitted
    login: CanalLogin | None
    #: None: connections are not encrypted
    tls: GatewayTls | None
    #: what clients may cost
    bounds: CanalBounds
