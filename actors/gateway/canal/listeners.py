"""The listeners of canal's protocol in one process: each stays while a destination is served there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from canal_group.actors.admission.held_connections import HeldConnections
from canal_group.actors.gateway.canal.connection import CanalConnection
from canal_group.actors.gateway.canal.destination import CanalTable
from canal_group.actors.gateway.canal.service import CanalService
from canal_group.actors.gateway.canal.stream import PacketStream
from canal_group.actors.gateway.canal.wiring import CanalListener
from canal_group.actors.process.loop_thread import LoopThread
from canal_group.actors.process.stranger_log import stranger_log
from canal_group.merge.errors import ConfigError

_log = stranger_log(__name__)

#: connections that the kernel has accepted and this server has not
_BACKLOG = 128
#: how long the listener may take to open, to change or to close, seconds
_OPEN_S = 10.0
#: how long after it is closed its connections may take to end, seconds
CLOSE_S = 5.0


class CanalServer:
    """Serves canal's clients on a loop of its own, from its construction until it is closed.

    Args:
        listener: its settings.
        table: its destinations.

    Raises:
        ConfigError: it cannot listen there.
    """

    def __init__(self, listener: CanalListener, table: CanalTable) -> None:
        self._listener, self._service = listener, CanalService(listener.bounds, table)
        self._tls = None if listener.tls is None else listener.tls.server_context()
        #: connections by the addresses of their other ends, before and after the login
        self._logging_in = HeldConnections[PacketStream](listener.bounds.login_max)
        self._logged_in = HeldConnections[PacketStream](listener.bounds.connections_max)
        self._connections: dict[PacketStream, CanalConnection] = {}
        self._loop = LoopThread("canal")
        try:
            self._server = self._loop.run(self._open()).result(_OPEN_S)
        except BaseException:
            self._loop.end(0.0)
            raise

    def serve(self, table: CanalTable) -> None:
        """Serve these destinations from now on; end connections of other destinations."""
        self._loop.run(self._replace(table)).result(_OPEN_S)

    async def _replace(self, table: CanalTable) -> None:
        self._service.table = table
        for connection in list(self._connections.values()):
            connection.end_if_withdrawn()

    def close(self) -> None:
        """Stop listening; its connections end."""
        self._loop.run(self._close()).result(_OPEN_S)
        self._loop.end(CLOSE_S)

    async def _close(self) -> None:
        self._server.close()
        for stream in list(self._connections):
            stream.abort()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.sockets[0].getsockname()[1])

    async def _open(self) -> asyncio.Server:
        host, port = self._listener.host, self._listener.port
        try:
            return await asyncio.start_server(self._serve, host, port, backlog=_BACKLOG, reuse_address=True)
        except OSError as error:
            raise ConfigError(
                f"canal's protocol cannot be served on {host}:{port}: {error.strerror}.",
                hint="Stop what listens there, or set canal.port (0: a free one).",
            ) from error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stream = PacketStream(reader, writer, self._service.bounds.send_s)
        except OSError:
            writer.transport.abort()
            return
        _hold(self._logging_in, stream)
        connection = self._connections[stream] = CanalConnection(self._service, stream)
        try:
            # Not by the listener: connections that only begin a handshake are counted, too.
            if self._tls is not None and not await stream.encrypt(self._tls, self._service.bounds.login_s):
                return
            await connection.run(lambda: self._logged(stream))
        finally:
            del self._connections[stream]
            self._logging_in.remove(stream)
            self._logged_in.remove(stream)

    def _logged(self, stream: PacketStream) -> None:
        self._logging_in.remove(stream)
        _hold(self._logged_in, stream)


def _hold(held: HeldConnections[PacketStream], stream: PacketStream) -> None:
    dropped = held.add(stream, stream.host)
    if dropped is not None:
        _log.warning("connection=%s is closed: there are too many", dropped.peer)
        dropped.abort()


class CanalListeners:
    """Opens and closes listeners; not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._servers: dict[CanalListener, CanalServer] = {}

    def serve(self, tables: Mapping[CanalListener, CanalTable]) -> None:
        """Listen for these destinations from now on, and for no others.

        Raises:
            ConfigError: one of them cannot listen.
        """
        for listener in self._servers.keys() - tables.keys():
            self._servers.pop(listener).close()
        for listener, table in tables.items():
            server = self._servers.get(listener)
            if server is None:
                self._servers[listener] = CanalServer(listener, table)
            else:
                server.serve(table)
