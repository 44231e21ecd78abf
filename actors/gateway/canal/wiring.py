"""What serving canal's protocol is made of: a listener, and a destination's login there."""

from __future__ import annotations

from dataclasses import dataclass

from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.gateway.canal.login import CanalLogin
from canal_group.conf.listeners.canal_settings import CanalBounds


@dataclass(frozen=True, slots=True)
class CanalListener:
    """The settings of a listener, which all its destinations share."""

    #: where to listen
    host: str
    port: int
    #: None: connections are not encrypted
    tls: GatewayTls | None
    #: what clients may cost
    bounds: CanalBounds

    @property
    def at(self) -> tuple[str, int]:
        """Where it listens."""
        return self.host, self.port


@dataclass(frozen=True, slots=True)
class CanalWiring:
    """How one destination is served by canal's protocol."""

    listener: CanalListener
    #: None: every client is admitted
    login: CanalLogin | None
    #: whether the begins and the ends of transactions are sent
    transaction_ends: bool
