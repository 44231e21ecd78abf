"""A Flight server that identifies its callers and guards its connections, like a gateway; and its clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyarrow import flight
from support.security.certificates import Pair

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.connection_guard import ConnectionGuard
from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.admission.token_middleware import TokenMiddleware, caller_of
from canal_group.conf.listeners.connection_bounds import ConnectionBounds

DEADLINE_S = 20.0


def token(shown: str) -> flight.FlightCallOptions:
    header = (b"authorization", f"Bearer {shown}".encode())
    return flight.FlightCallOptions(timeout=DEADLINE_S, headers=[header])


TOKEN = token("s3cret")
NO_TOKEN = flight.FlightCallOptions(timeout=DEADLINE_S)


class Guarded(flight.FlightServerBase):
    """A server that answers with the length of the request.

    Args:
        location: where it listens.
        limits: of its connections.
        calls_max: limit of calls per grant.
        grants: None: one token's.
        tls: None: no TLS.
        watched: whether its guard polls by itself; otherwise the test calls `look`.
    """

    def __init__(
        self,
        location: str,
        limits: ConnectionBounds,
        calls_max: int = 10,
        grants: Grants | None = None,
        tls: GatewayTls | None = None,
        *,
        watched: bool = True,
    ) -> None:
        self.guard = ConnectionGuard(limits)
        self.busy, self.go_on = threading.Semaphore(0), threading.Event()
        known = Grants.of([("s3cret", Grant("reader"))]) if grants is None else grants
        options = {} if tls is None else tls.server_options()
        super().__init__(location, middleware=TokenMiddleware(lambda: known, calls_max).middleware, **options)
        if watched:
            self.guard.start(self.port)

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        self.guard.let_in(context.peer(), caller_of(context).grant.name)
        if action.type == "wait":
            self.busy.release()
            self.go_on.wait(DEADLINE_S)
        return [str(len(action.body)).encode()]

    def look(self) -> None:
        """Run one poll of the guard."""
        self.guard._look(self.port)

    @property
    def owners(self) -> list[str]:
        """Names of the clients with authenticated connections."""
        return sorted(self.guard._authenticated._owners.values())

    @property
    def refusals(self) -> int:
        """Number of connections that were closed."""
        return self.guard._refusals

    def shutdown(self) -> None:
        self.go_on.set()
        self.guard.close()
        super().shutdown()


@contextmanager
def serving(
    location: str = "grpc://127.0.0.1:0",
    calls_max: int = 10,
    grants: Grants | None = None,
    tls: GatewayTls | None = None,
    *,
    watched: bool = True,
    **limits: Any,
) -> Iterator[Guarded]:
    with Guarded(location, ConnectionBounds(**limits), calls_max, grants, tls, watched=watched) as server:
        yield server


def connected(
    server: flight.FlightServerBase, host: str = "127.0.0.1", ca: bytes = b"", pair: Pair | None = None
) -> flight.FlightClient:
    """Return a client with its own connection, which uses TLS if an authority is given."""
    tls: dict[str, bytes] = {"tls_root_certs": ca} if ca else {}
    if pair is not None:
        tls |= {"cert_chain": pair.cert.read_bytes(), "private_key": pair.key.read_bytes()}
    scheme = "grpc+tls" if ca else "grpc"
    return own_connection(f"{scheme}://{host}:{server.port}", **tls)


def own_connection(location: str, **options: Any) -> flight.FlightClient:
    """Return a client with its own connection.

    Clients of a process share connections by address otherwise: one that still tries to reach an ended server
    would make whoever gets that server's port look unreachable.
    """
    alone: list[tuple[str, int]] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    return flight.FlightClient(location, generic_options=alone, **options)


def ask(client: flight.FlightClient, size: int = 1, options: Any = TOKEN, request: str = "size") -> bytes:
    (answer,) = client.do_action(flight.Action(request, bytes(size)), options)
    return answer.body.to_pybytes()


def until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.005)


def silent(port: int, count: int) -> list[socket.socket]:
    """Return connections that send nothing."""
    found = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for each in found:
        each.settimeout(DEADLINE_S)
    return found


def ended(connection: socket.socket) -> bool:
    """Read to the end; gRPC first sends a few bytes of its own."""
    try:
        while connection.recv(1_024):
            pass
    except ConnectionResetError:
        pass
    return True


def open_still(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(1_024):
            pass
    except BlockingIOError:
        return True
    return False


def close(connections: Iterable[socket.socket]) -> None:
    """Close connections that greeted nobody: a server that ends waits 20 s for the greeting of each."""
    for each in connections:
        each.close()
