"""The end of a line that is called: it listens, and answers who knows its secret."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors.admission.held_connections import HeldConnections
from actors.transport.bind_address import RowServerCertificate
from actors.transport.rpc_wire import (
    GREETING_TIMEOUT_S,
    LOOPBACK,
    RpcAddress,
    handshake_as_server,
    pack,
    receive,
    tune,
)
from canal_group.shared_memory.handshake import new_secret
from merge.errors import CanalGroupError

_log = logging.getLogger(__name__)

#: lines that are open at once; who comes then is not heard (a few whose greeting was under way are)
CONNECTIONS_MAX = 64
#: connections that are held at once whose callers have not proved yet who they are
UNAUTHENTICATED_MAX = 32
#: pause after a connection could not be accepted, as when no file can be opened, seconds
ACCEPT_PAUSE_S = 0.1
#: connections that wait to be accepted
_BACKLOG = 128


class RpcServer:
    """Answers calls that come by lines; its methods run on one loop.

    Calls of one line begin in the order they came, and are answered in the order they end. A call whose line
    breaks runs to its end, as one does whose caller died under Ray.

    Args:
        calls: what can be called, by name.
    """

    def __init__(self, calls: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
        self._calls = dict(calls)
        self._secret = new_secret()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._tls: ssl.SSLContext | None = None
        self._unauthenticated = HeldConnections[socket.socket](UNAUTHENTICATED_MAX)
        self._connections: set[asyncio.StreamWriter] = set()
        self._running: set[asyncio.Task[None]] = set()
        #: lines that are open: whose callers have proved who they are
        self.connections = 0

    async def open(self, host: str = LOOPBACK, certificate: RowServerCertificate | None = None) -> RpcAddress:
        """Listen on a free port of `host`; return how to call.

        Args:
            host: where to listen, an address.
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
        """Listen no more, and close the lines."""
        if self._accepting is not None:
            self._accepting.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in self._unauthenticated.clear():
            _shut(connection)
        for writer in self._connections:
            writer.close()

    async def _accept(self, listener: socket.socket) -> None:
        # Not by a server of asyncio's, which counts a connection when its TLS handshake is over.
        while True:
            try:
                connection, peer = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:
                _log.warning("a line could not be accepted: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            closed = self._unauthenticated.add(connection, peer[0])
            if closed is not None:
                _shut(closed)
            task = asyncio.create_task(self._serve(connection))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _serve(self, connection: socket.socket) -> None:
        writer = None
        # A caller that leaves, in whatever way, has said all there is to say.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                async with asyncio.timeout(GREETING_TIMEOUT_S):
                    reader, writer = await _streams(connection, self._tls)
                    tune(writer)
                    if len(self._connections) >= CONNECTIONS_MAX:
                        return
                    await handshake_as_server(reader, writer, self._secret)
                self._unauthenticated.remove(connection)
                self._connections.add(writer)
                await self._answer_all(reader, writer)
            finally:
                self._unauthenticated.remove(connection)
                if writer is not None:
                    self._connections.discard(writer)
                    writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                call = await receive(reader)
                task = asyncio.create_task(self._answer(writer, *call))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
        finally:
            self.connections -= 1

    async def _answer(
        self,
        writer: asyncio.StreamWriter,
        number: int,
        method: str,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        try:
            frame = pack((number, None, await self._calls[method](*arguments, **named)))
        except Exception as error:  # noqa: BLE001  whatever it is, the caller has to hear of it
            if not isinstance(error, CanalGroupError):
                _log.exception("call of %s broke", method)
            frame = _packed_error(number, error)
        if not writer.is_closing():
            # Not waited for until it is sent: a caller that was paused has few calls outstanding, each of
            # which is answered once.
            writer.write(frame)


def _packed_error(number: int, error: Exception) -> bytes:
    try:
        # Many a library's error can be pickled, but not read again.
        return pack((number, pickle.loads(pickle.dumps(error)), None))  # noqa: S301  our own bytes
    except Exception:  # noqa: BLE001  whatever it is, it cannot travel
        return pack((number, RuntimeError(f"{type(error).__name__}: {error}"), None))


async def _streams(
    connection: socket.socket, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection's streams, after its TLS handshake."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=tls)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _shut(connection: socket.socket) -> None:
    """End a connection; what reads from it finds its end, and closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _context(certificate: RowServerCertificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The library reads files only, and the key is on no disk.
    with os.fdopen(os.memfd_create("rpc"), "wb") as file:
        file.write(certificate.certificate + certificate.key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
