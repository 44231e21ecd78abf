"""The ground that a shard's row door stands on: the node's address, and who can reach it.

Where other machines can, the door has a certificate, made when the door is, and trusted by whom Ray tells of
it. Nothing of it outlives the door, and the key stays in the process. Elsewhere nobody imports what makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import ray

from conf.reach import is_loopback


@dataclass(frozen=True, slots=True)
class RowServerCertificate:
    """A self-signed certificate and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def node_host() -> str:
    """Return the node's address as Ray has it, which is loopback where Ray runs on loopback."""
    host: str = ray.util.get_node_ip_address()
    return host


def certificate_where_reached(host: str, tls: bool | None = None) -> RowServerCertificate | None:
    """Make a certificate for what listens on `host`; None: it does without TLS.

    Args:
        host: name or address.
        tls: whether it speaks TLS; None: where other machines can reach it.
    """
    if not (tls or (tls is None and not is_loopback(host))):
        return None
    from actors.admission.self_signed import self_signed

    return RowServerCertificate(*self_signed(host))
