"""RPC connection: one end of it. It hands over each message as it arrives: no task waits for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from canal_group.actors.transport.rpc_wire import LENGTH, tune, unpacked

#: bytes that are held of an end that has not shown yet that it knows the secret
_HELD_BYTES_MAX = 1 << 10


class RpcConnection(asyncio.Protocol):
    """One end of a connection: `exactly` reads the handshake, and `listen` begins with the messages.

    Args:
        frame_bytes_max: longest frame.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._take: Callable[[Any], None] | None = None
        #: how many bytes the handshake waits for, and who
        self._awaited: tuple[int, asyncio.Future[bytes]] | None = None
        #: done when the connection has ended: with the reason, None if one of both ends closed it
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    # ---- what asyncio calls ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        tune(self.transport)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        if self._take is not None and not self._buffer and self._is_frame(data):
            self._hand_over(memoryview(data)[LENGTH.size :])
            return
        self._buffer += data
        self._read()

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        if self._awaited is not None and not self._awaited[1].done():
            self._awaited[1].set_exception(ConnectionResetError("the other end closed the connection"))
        if not self.ended.done():
            self.ended.set_result(error)

    # ---- what its owner calls --------------------------------------------------------------------------

    async def exactly(self, count: int) -> bytes:
        """Return the next bytes of the handshake.

        Raises:
            OSError: the connection ended.
        """
        if self.ended.done():
            raise ConnectionResetError("the connection has ended")
        awaited: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._awaited = count, awaited
        self._read()
        return await awaited

    def listen(self, take: Callable[[Any], None]) -> None:
        """Call `take` with each message from now on; the handshake is done.

        A frame that is too long, or is not a message, ends the connection.
        """
        self._take = take
        self.transport.resume_reading()
        self._read()

    def send(self, data: bytes) -> None:
        """Send bytes: of the handshake, or a frame."""
        self.transport.write(data)

    @property
    def has_ended(self) -> bool:
        """Whether the connection broke, or was closed."""
        return self.transport.is_closing()

    def close(self, error: Exception | None = None) -> None:
        """Close the connection, once what was sent is on its way; it has ended at once, with this reason."""
        if not self.ended.done():
            self.ended.set_result(error)
        self.transport.close()

    # ---- inside ----------------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._take is None:
            self._read_handshake()
            return
        begin = 0
        while not self.has_ended and len(self._buffer) - begin >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer, begin)
            if length > self._frame_bytes_max:
                self.close(OSError(f"an RPC frame of {length} bytes is longer than {self._frame_bytes_max}"))
                break
            end = begin + LENGTH.size + length
            if len(self._buffer) < end:
                break
            with memoryview(self._buffer) as view, view[begin + LENGTH.size : end] as body:
                self._hand_over(body)
            begin = end
        if begin:
            del self._buffer[:begin]

    def _read_handshake(self) -> None:
        if self._awaited is not None and len(self._buffer) >= self._awaited[0]:
            (count, awaited), self._awaited = self._awaited, None
            if not awaited.done():
                awaited.set_result(bytes(self._buffer[:count]))
            del self._buffer[:count]
        if len(self._buffer) > _HELD_BYTES_MAX:
            self.transport.pause_reading()

    def _is_frame(self, data: bytes) -> bool:
        """Return whether bytes are one frame, as they mostly come."""
        return (
            len(data) >= LENGTH.size
            and len(data) - LENGTH.size <= self._frame_bytes_max
            and LENGTH.unpack_from(data)[0] == len(data) - LENGTH.size
        )

    def _hand_over(self, body: memoryview) -> None:
        assert self._take is not None, "it listens"
        try:
            message = unpacked(body)
        except OSError as error:
            self.close(error)
        else:
            self._take(message)
