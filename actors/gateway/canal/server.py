"""The server of canal's protocol: it listens, and runs each connection."""

from __future__ import annotations

import asyncio

from canal_group.actors.admission.held_connections import HeldConnections
from canal_group.actors.gateway.canal.connection import CanalConnection
from canal_group.actors.gateway.canal.service import CanalService
from canal_group.actors.gateway.canal.stream import PacketStream
from canal_group.actors.gateway.canal.wiring import CanalWiring
from canal_group.actors.process.loop_thread import LoopThread
from canal_group.actors.process.stranger_log import stranger_log
from canal_group.merge.errors import ConfigError

_log = stranger_log(__name__)

#: connections that the kernel has accepted and this server has not
_BACKLOG = 128
#: how long the listener may take to open, seconds
_OPEN_S = 10.0


class CanalServer:
    """Serves canal's clients on a loop of its own, from its construction to the end of the process.

    Args:
        wiring: its settings.
        service: what its connections share.

    Raises:
        ConfigError: it cannot listen there.
    """

    def __init__(self, wiring: CanalWiring, service: CanalService) -> None:
        self._wiring, self._service = wiring, service
        self._tls = None if wiring.tls is None else wiring.tls.server_context()
        #: connections by the addresses of their other ends, before and after the login
        self._logging_in = HeldConnections[PacketStream](wiring.bounds.login_max)
        self._logged_in = HeldConnections[PacketStream](wiring.bounds.connections_max)
        self._loop = LoopThread("canal")
        self._server = self._loop.run(self._open()).result(_OPEN_S)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.sockets[0].getsockname()[1])

    async def _open(self) -> asyncio.Server:
        wiring = self._wiring
        try:
            return await asyncio.start_server(
                self._serve, wiring.host, wiring.port, backlog=_BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise ConfigError(
                f"canal's protocol cannot be served on {wiring.host}:{wiring.port}: {error.strerror}.",
                hint="Stop what listens there, or set canal.port (0: a free one).",
            ) from error

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stream = PacketStream(reader, writer, self._wiring.bounds.send_s)
        except OSError:
            writer.transport.abort()
            return
        _hold(self._logging_in, stream)
        try:
            # Not by the listener: connections that only begin a handshake are counted, too.
            if self._tls is not None and not await stream.encrypt(self._tls, self._wiring.bounds.login_s):
                return
            await CanalConnection(self._service, stream).run(lambda: self._logged(stream))
        finally:
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
