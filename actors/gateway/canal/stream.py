"""The stream of one connection: packets in, packets out, within bytes and seconds."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from canal_group.actors.gateway.canal.packets import LENGTH
from canal_group.merge.errors import UsageError

#: bytes that are handed to the socket at once; the next ones follow when these are sent
PART_BYTES: Final = 256 << 10
#: how long a connection that ends may take to read why, seconds, and bytes of its own that are passed over
LINGER_S: Final = 5.0
LINGER_BYTES: Final = 1 << 20
#: seconds of silence after which a peer is probed, the number of probes, and the seconds between them
_KEEPALIVE_IDLE_S, _KEEPALIVE_COUNT, _KEEPALIVE_EVERY_S = 10, 3, 5


class PeerGone(Exception):  # noqa: N818  it never leaves this package
    """The connection ended, or its client does not read."""


class PacketStream:
    """Packets of one connection.

    Args:
        reader: of the connection.
        writer: of the same connection.
        send_s: how long the client may take to read a part of an answer.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, send_s: float) -> None:
        self._reader, self._writer, self._send_s = reader, writer, send_s
        # Whatever is handed over is sent when `drain` returns: nothing accumulates.
        writer.transport.set_write_buffer_limits(high=0)
        host, port = writer.get_extra_info("peername")[:2]
        #: address of the other end
        self.host = str(host)
        self.peer = f"[{host}]:{port}" if ":" in self.host else f"{host}:{port}"
        _tune(writer.get_extra_info("socket"))
        self._aborted = asyncio.Event()

    async def encrypt(self, tls: ssl.SSLContext, within_s: float) -> bool:
        """Begin TLS; return False, with the connection closed, if the client does not."""
        try:
            await self._writer.start_tls(tls, ssl_handshake_timeout=within_s)
        except (OSError, TimeoutError):
            self.abort()
            return False
        self._writer.transport.set_write_buffer_limits(high=0)
        return True

    async def receive(self, bytes_max: int) -> bytes:
        """Return the next packet.

        Raises:
            PeerGone: the connection ended.
            UsageError: its length is not in bounds; what follows cannot be read.
        """
        try:
            (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if not 0 < length <= bytes_max:
                raise UsageError(f"A packet of {length} bytes is refused: it may have 1 to {bytes_max}.")
            return await self._reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise PeerGone from error

    async def send(self, data: bytes | memoryview) -> None:
        """Send bytes, at most `PART_BYTES` at once for large ones.

        Raises:
            PeerGone: the connection ended, or the client does not read.
        """
        try:
            self._writer.write(data)
            async with asyncio.timeout(self._send_s):
                await self._writer.drain()
        except (OSError, TimeoutError) as error:
            self.abort()
            raise PeerGone from error
        if self._aborted.is_set():
            # What was handed over last is dropped, and `drain` does not say so.
            raise PeerGone

    async def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            PeerGone: the connection was closed in the meantime.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._aborted.wait()
            raise PeerGone

    async def end(self, last: bytes = b"") -> None:
        """Send a last packet, let the client read it, and close the connection."""
        with contextlib.suppress(PeerGone, OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(LINGER_S):
                if last:
                    await self.send(last)
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                # A socket that is closed with unread bytes takes back what it has sent.
                passed = 0
                while passed < LINGER_BYTES and (data := await self._reader.read(PART_BYTES)):
                    passed += len(data)
        self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._aborted.set()
        self._writer.transport.abort()


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_EVERY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_COUNT)
