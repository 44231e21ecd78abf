"""The row server of a shard: an Arrow Flight server in the shard's own process, for gateways only.

It sends copies of a ring's rows. Through Ray they would pass its object store, where one call costs more than
the rows of a small batch. Ray only passes on the server's address, secret and certificate. All three are new
with each incarnation of the shard.

A gateway on the same machine borrows the rows in shared memory instead.

A server that other machines can reach uses TLS. On loopback TLS is not needed: a process that could listen
there could also read the shard's memory.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import flight

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.connection_guard import ConnectionGuard
from canal_group.actors.admission.token_middleware import TokenMiddleware, caller_of
from canal_group.actors.store.rows import STREAMS, Payload, message
from canal_group.actors.transport.bind_address import (
    RowServerCertificate,
    certificate_where_reached,
    node_host,
)
from canal_group.actors.transport.flight_errors import flight_error, refusal
from canal_group.actors.transport.row_ticket import RowTicket
from canal_group.actors.transport.shared_memory_server import Offer, SharedMemoryServer
from canal_group.conf.listeners.connection_bounds import ConnectionBounds
from canal_group.shared_memory.wire import SharedMemoryAddress

_SECRET_BYTES = 32
#: calls that are answered at once; each holds a thread
CALLS_MAX = 512
#: a gateway has one connection, and a ticket is short
BOUNDS = ConnectionBounds(
    connections_max=16, unauthenticated_max=16, unauthenticated_bytes_max=1 << 20, request_bytes_max=1 << 20
)


@dataclass(frozen=True, slots=True)
class RowAddress:
    """Address of a shard's row server."""

    #: "grpc://host:port", or "grpc+tls://host:port" with TLS; the host is the address by which other nodes of
    #: the Ray cluster know this one
    location: str
    #: bearer token that every call must carry in its headers
    secret: str = field(repr=False)
    #: PEM; the only certificate to trust at this address. None: without TLS
    certificate: bytes | None = field(default=None, repr=False)
    #: of the shared-memory server, for clients on the same machine; None: no such server runs
    shared_memory: SharedMemoryAddress | None = None


class RowServer:
    """Serve rows, from construction until it is closed or its process ends.

    Args:
        rows: returns the rows of a ticket; called from several threads.
        host: the address to bind to; None: the node's address as Ray has it, which is loopback if Ray runs on
            loopback.
        tls: whether to use TLS; None: only if other machines can reach the server.
    """

    def __init__(
        self,
        rows: Callable[[RowTicket], Iterable[Payload]],
        host: str | None = None,
        *,
        tls: bool | None = None,
    ) -> None:
        secret, host = secrets.token_hex(_SECRET_BYTES), host or node_host()
        certificate = certificate_where_reached(host, tls)
        origin = f"{'grpc' if certificate is None else 'grpc+tls'}://{f'[{host}]' if ':' in host else host}"
        # It answers from now on. Flight's `serve` would only wait, take over the process's signals, and when
        # it ends shut down the server of the process that began to wait last.
        self._server = _Server(f"{origin}:0", rows, secret, certificate)
        # Gateways run in the same Ray cluster, as the same user.
        self._shared_memory = SharedMemoryServer(
            lambda _, ticket: Offer(list(rows(RowTicket.from_dict(ticket)))), own_user=True
        )
        #: for clients
        self.address = RowAddress(
            f"{origin}:{self._server.port}",
            secret,
            None if certificate is None else certificate.certificate,
            self._shared_memory.admit(),
        )

    def close(self) -> None:
        """Stop serving; readers keep the segments borrowed so far."""
        self._shared_memory.close()
        self._server.shutdown()


class _Server(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    def __init__(
        self,
        location: str,
        rows: Callable[[RowTicket], Iterable[Payload]],
        secret: str,
        certificate: RowServerCertificate | None,
    ) -> None:
        pairs = [] if certificate is None else [(certificate.certificate, certificate.key)]
        tls = {"tls_certificates": pairs} if pairs else {}
        self._rows = rows
        self._guard = ConnectionGuard(BOUNDS)
        grants = Grants.of([(secret, Grant("the gateway"))])
        tokens = TokenMiddleware(lambda: grants, CALLS_MAX)
        super().__init__(location, middleware=tokens.middleware, **tls)
        self._guard.start(self.port)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream the rows that a ticket names."""
        self._guard.let_in(context.peer(), caller_of(context).grant.name)
        try:
            row_ticket = RowTicket.from_dict(json.loads(ticket.ticket))
            streams = [message(payload) for payload in self._rows(row_ticket)]
        except Exception as error:
            raise flight_error(refusal(error, "The ticket")) from error
        return flight.RecordBatchStream(pa.Table.from_batches(streams, STREAMS).to_reader())

    def shutdown(self) -> None:
        """Stop serving."""
        self._guard.close()
        super().shutdown()
