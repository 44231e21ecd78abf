"""RPC server: listen, and answer the calls of clients that know the secret."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from canal_group.actors.admission.held_connections import HeldConnections
from canal_group.actors.transport.bind_address import RowServerCertificate
from canal_group.actors.transport.rpc_connection import RpcConnection
from canal_group.actors.transport.rpc_wire import FRAME_BYTES_MAX, LOOPBACK, RpcAddress, pack
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.tls import server_context
from canal_group.shared_memory.handshake import (
    GREETING_TIMEOUT_S,
    NONCE_BYTES,
    RESPONSE_BYTES,
    ServerHandshake,
    new_secret,
)

_log = logging.getLogger(__name__)

#: authenticated connections that are open at once; a further one is closed, unless its handshake began before
#: the limit was reached
CONNECTIONS_MAX = 64
#: unauthenticated connections that are held at once
UNAUTHENTICATED_MAX = 32
#: pause after a connection could not be accepted, for example for want of file descriptors, seconds
ACCEPT_PAUSE_S = 0.1
#: connections that may wait to be accepted
_BACKLOG = 128


class RpcServer:
    """Answer RPC calls; call its methods on one event loop only.

    The calls of one connection start in the order in which they arrive, and are answered in the order in
    which they end. A call whose connection breaks still runs to its end, as a Ray call does if its caller
    dies.

    Args:
        calls: the methods that can be called, by name.
        greeting_timeout_s: how long a client's handshake may take, with that of TLS, seconds.
        frame_bytes_max: longest frame.
    """

    def __init__(
        self,
        calls: Mapping[str, Callable[..., Awaitable[Any]]],
        *,
        greeting_timeout_s: float = GREETING_TIMEOUT_S,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self._calls = dict(calls)
        self._greeting_timeout_s, self._frame_bytes_max = greeting_timeout_s, frame_bytes_max
        self._secret = new_secret()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._tls: ssl.SSLContext | None = None
        self._unauthenticated = HeldConnections[socket.socket](UNAUTHENTICATED_MAX)
        self._connections: set[RpcConnection] = set()
        self._running: set[asyncio.Task[None]] = set()
        #: how many authenticated connections are open
        self.connections = 0

    async def open(self, host: str = LOOPBACK, certificate: RowServerCertificate | None = None) -> RpcAddress:
        """Listen on a free port of `host`; return the address for clients.

        Args:
            host: the IP address to bind to.
            certificate: for TLS; None: without TLS.
        """
        self._tls = None if certificate is None else _context(certificate)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._listener))
        port = self._listener.getsockname()[1]
        return RpcAddress(host, port, self._secret, None if certificate is None else certificate.certificate)

    def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in self._unauthenticated.clear():
            _shut(connection)
        for each in self._connections:
            each.close()

    async def _accept(self, listener: socket.socket) -> None:
        # Not by a server of asyncio: it reports a connection only after the TLS handshake.
        while True:
            try:
                connection, peer = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:
                _log.warning("an RPC connection could not be accepted: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            closed = self._unauthenticated.add(connection, peer[0])
            if closed is not None:
                _shut(closed)
            task = asyncio.create_task(self._serve(connection))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        connection = None
        # However a client disconnects, nothing is left to do for it.
        with contextlib.suppress(OSError):
            try:
                async with asyncio.timeout(self._greeting_timeout_s):
                    connection = await self._connection(accepted)
                    if len(self._connections) >= CONNECTIONS_MAX:
                        return
                    handshake = ServerHandshake(self._secret, await connection.exactly(NONCE_BYTES))
                    connection.send(handshake.greeting)
                    handshake.check(await connection.exactly(RESPONSE_BYTES))
                self._unauthenticated.remove(accepted)
                self._connections.add(connection)
                await self._answer_all(connection)
            finally:
                self._unauthenticated.remove(accepted)
                if connection is not None:
                    self._connections.discard(connection)
                    connection.close()

    async def _connection(self, accepted: socket.socket) -> RpcConnection:
        _, connection = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: RpcConnection(self._frame_bytes_max), accepted, ssl=self._tls
        )
        return connection

    async def _answer_all(self, connection: RpcConnection) -> None:
        self.connections += 1
        try:
            connection.listen(partial(self._begin, connection))
            await asyncio.wait([connection.ended])
        finally:
            self.connections -= 1

    def _begin(
        self, connection: RpcConnection, call: tuple[int, str, tuple[Any, ...], dict[str, Any]]
    ) -> None:
        task = asyncio.create_task(self._answer(connection, *call))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _answer(
        self,
        connection: RpcConnection,
        number: int,
        method: str,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> None:
        try:
            value = await self._calls[method](*arguments, **keywords)
            frame = pack((number, None, value), self._frame_bytes_max)
        except Exception as error:  # noqa: BLE001  every error is reported to the caller
            if not isinstance(error, CanalGroupError):
                kinds = ", ".join(type(each).__name__ for each in arguments)
                _log.exception("the RPC call of %s(%s) failed with an unexpected error", method, kinds)
            frame = _packed_error(number, error)
        if not connection.has_ended:
            # Do not wait until it is sent: a client that was paused has few outstanding calls, and each is
            # answered once, so little is buffered.
            connection.send(frame)


def _packed_error(number: int, error: Exception) -> bytes:
    try:
        # Errors of some libraries can be pickled but not unpickled.
        return pack((number, pickle.loads(pickle.dumps(error)), None))  # noqa: S301  our own bytes
    except Exception:  # noqa: BLE001  whatever the reason, it cannot be sent
        return pack((number, RuntimeError(f"{type(error).__name__}: {error}"), None))


def _shut(connection: socket.socket) -> None:
    """Shut a connection down; the task that reads from it then closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _context(certificate: RowServerCertificate) -> ssl.SSLContext:
    # The ssl module reads certificates from files only, and the key must not be on a disk.
    with os.fdopen(os.memfd_create("rpc"), "wb") as file:
        file.write(certificate.certificate + certificate.key)
        file.flush()
        return server_context(f"/proc/self/fd/{file.fileno()}")
