"""Packets: the bytes of a binlog dump, cut into the packets of the client/server protocol.

A packet has 4 bytes before it: its length in 3, and a running number. A payload of 16 MiB - 1 bytes or more
comes in several packets, all but the last of the full length.

The reader tells *dry* from *waiting*: it never blocks while it holds a whole packet, and it can say whether
bytes have arrived without reading them. What a source may promise depends on that.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl

from merge.errors import SourceUnavailable

_HEAD = 4
_FULL = 0xFFFFFF
_READ_BYTES = 256 * 1024


class PacketReader:
    """Reads packets off a socket, which it owns from the moment the dump was asked for.

    Not thread-safe, but `interrupt` may be called from any thread.

    Args:
        sock: a connected socket, TLS or not.
        timeout_s: how long a wait for bytes may take.
        sequence: number of the first packet.
    """

    def __init__(self, sock: socket.socket, timeout_s: float, sequence: int = 1) -> None:
        self._sock = sock
        self._timeout_s = timeout_s
        self._sequence = sequence
        self._buffer = bytearray()
        self._at = 0
        sock.settimeout(timeout_s)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    @property
    def empty(self) -> bool:
        """Whether nothing of a packet is held."""
        return self._at == len(self._buffer)

    def take(self) -> bytes | None:
        """Return the next packet's payload if all of it is here, else None; never waits."""
        buffer, at, parts = self._buffer, self._at, 0
        while True:
            if len(buffer) - at < _HEAD:
                return None
            size = int.from_bytes(buffer[at : at + 3], "little")
            at += _HEAD + size
            parts += 1
            if len(buffer) < at:
                return None
            if size < _FULL:
                return self._cut(at, parts)

    def _cut(self, end: int, parts: int) -> bytes:
        payload, at = b"", self._at
        for _ in range(parts):
            size = int.from_bytes(self._buffer[at : at + 3], "little")
            number = self._buffer[at + 3]
            if number != self._sequence and self._buffer[at + _HEAD] != 0xFF:  # noqa: PLR2004 - an error's mark
                raise SourceUnavailable(
                    f"Packet {number} came where {self._sequence} was expected: the stream is out of step."
                )
            self._sequence = (self._sequence + 1) % 256
            part = bytes(self._buffer[at + _HEAD : at + _HEAD + size])
            payload = payload + part if payload else part
            at += _HEAD + size
        self._at = end
        if self.empty:
            self._buffer.clear()
            self._at = 0
        return payload

    def readable(self) -> bool:
        """Return whether bytes have arrived that were not read, or the connection has ended; never waits."""
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return True
        return bool(self._poll.poll(0))

    def fill(self) -> None:
        """Wait for bytes and read what is there.

        Raises:
            SourceUnavailable: none came in time, or the connection has ended.
        """
        try:
            data = self._sock.recv(_READ_BYTES)
        except TimeoutError as error:
            raise SourceUnavailable(
                f"Nothing, not even a heartbeat, came for {self._timeout_s:g} s: the connection is dead."
            ) from error
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"The connection broke: {error}.") from error
        if not data:
            raise SourceUnavailable("The source closed the connection.")
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def interrupt(self) -> None:
        """End the connection; a thread waiting in `fill` gets SourceUnavailable."""
        with contextlib.suppress(OSError):  # it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)
