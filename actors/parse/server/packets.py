"""Packets: the bytes of a binlog dump, cut into the packets of the client/server protocol.

Bytes are read in blocks into one buffer. The fast path takes events off it where they lie; only what is not
usual becomes a payload of its own.

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

from actors.parse.native.packets import PacketBuffer
from merge.errors import SourceUnavailable, UnsupportedEvent


class PacketReader:
    """Reads packets off a socket, which it owns from the moment the dump was asked for.

    Not thread-safe, but `interrupt` may be called from any thread.

    Args:
        sock: a connected socket, TLS or not.
        timeout_s: how long a wait for bytes may take.
    """

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        #: what has arrived
        self.buffer = PacketBuffer()
        self._sock = sock
        self._timeout_s = timeout_s
        sock.settimeout(timeout_s)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    @property
    def empty(self) -> bool:
        """Whether nothing of a packet is held."""
        return not len(self.buffer)

    def take(self) -> bytes | None:
        """Return the next packet's payload if all of it is here, else None; never waits.

        Raises:
            SourceUnavailable: it is not the packet that follows.
        """
        try:
            return self.buffer.take()
        except ValueError as error:
            raise SourceUnavailable(f"Packet {error}: the stream is out of step.") from error

    def readable(self, wait_s: float = 0.0) -> bool:
        """Return whether bytes have arrived that were not read, or the connection has ended.

        Args:
            wait_s: how long to wait for that; 0: not at all.
        """
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return True
        return bool(self._poll.poll(wait_s * 1e3))

    def fill(self) -> None:
        """Wait for bytes and read what is there.

        Raises:
            SourceUnavailable: none came in time, or the connection has ended.
            UnsupportedEvent: an event has more than 1 GiB.
        """
        try:
            self.buffer.make_room()
        except OverflowError as error:
            raise UnsupportedEvent(
                "An event of more than 1 GiB comes.",
                hint="No server writes one: the stream is damaged, or what listens there is none.",
            ) from error
        try:
            size = self._sock.recv_into(self.buffer)
        except TimeoutError as error:
            raise SourceUnavailable(
                f"Nothing, not even a heartbeat, came for {self._timeout_s:g} s: the connection is dead."
            ) from error
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"The connection broke: {error}.") from error
        if not size:
            raise SourceUnavailable("The source closed the connection.")
        self.buffer.received(size)

    def interrupt(self) -> None:
        """End the connection; a thread waiting in `fill` gets SourceUnavailable."""
        with contextlib.suppress(OSError):  # it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)
