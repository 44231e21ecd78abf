"""What a server of canal's protocol is made of: its settings."""

from __future__ import annotations

from dataclasses import dataclass

from actors.admission.gateway_tls import GatewayTls
from actors.gateway.canal.login import CanalLogin


@dataclass(frozen=True, slots=True)
class CanalLimits:
    """What clients may cost."""

    #: bytes of a packet that a client sends
    frame_bytes_max: int = 64 << 10
    #: connections that have logged in, and those that have not
    connections_max: int = 256
    login_max: int = 64
    #: how long a login may take, and how long a client that has logged in may send nothing
    login_s: float = 10.0
    idle_s: float = 3_600.0
    #: how long a client may take to read the next part of an answer
    send_s: float = 60.0
    #: bytes of answers that are made and not sent, of all connections together
    unsent_bytes_max: int = 128 << 20


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
    limits: CanalLimits = CanalLimits()
