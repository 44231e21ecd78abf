"""Bind address of a shard's row server: the node's address, and a certificate if other machines can reach it.

The certificate is made with the server, and clients that get it by Ray trust it. It does not outlive the
server, and the key stays in the process. On loopback the module that makes it is not imported.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import ray

from canal_group.merge.values.reach import is_loopback


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
    from canal_group.actors.admission.self_signed import self_signed

    return RowServerCertificate(*self_signed(host))
