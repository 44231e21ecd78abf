"""Packets: the bytes of a binlog dump, cut into the packets of the client/server protocol.

Bytes are read in blocks into one buffer. The fast path reads the usual events in place; only other events are
copied out as payloads.

A packet has a header of 4 bytes: its length in 3, and a running number. A payload of 16 MiB - 1 bytes or more
comes in several packets, all but the last of the full length.

The reader never blocks while it holds a whole packet, and it can tell whether bytes have arrived without
reading them. Low watermarks depend on that: they need proof that the socket was empty.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time

from canal_group.binlog.native.packets import PacketBuffer
from canal_group.binlog.server.dump.spool import Spool
from canal_group.binlog.server.semi_sync.wake import Wake
from canal_group.merge.errors import SourceUnavailable, UnsupportedEvent


class PacketReader:
    """Reads packets from a socket, which it owns once the dump was requested.

    Not thread-safe, but `interrupt` may be called from any thread.

    Args:
        sock: a connected socket, TLS or not.
        timeout_s: how long a wait for bytes, or for room to send a reply, may take.
        semi_sync: whether the source treats the connection as a semi-synchronous replica; see `PacketBuffer`.
        wake: ends a wait in `fill`; None: only bytes end it.
        numbered: whether packets are numbered, see `PacketBuffer`.
    """

    def __init__(
        self,
        sock: socket.socket,
        timeout_s: float,
        *,
        semi_sync: bool = False,
        wake: Wake | None = None,
        numbered: bool = True,
    ) -> None:
        #: what has arrived
        self.buffer = PacketBuffer(semi_sync=semi_sync, numbered=numbered)
        #: bytes that have arrived so far
        self.read_bytes = 0
        self._sock = sock
        self._timeout_s = timeout_s
        self._wake = wake
        #: where what arrives is also put; what was read ahead, and comes before what arrives
        self._copied_to: Spool | None = None
        self._spooled: Spool | None = None
        sock.settimeout(timeout_s)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll_all = select.poll()
        self._poll_all.register(sock, select.POLLIN)
        if wake is not None:
            self._poll_all.register(wake, select.POLLIN)

    @property
    def empty(self) -> bool:
        """Whether the buffer holds no part of a packet."""
        return not len(self.buffer)

    def take(self) -> bytes | None:
        """Return the next packet's payload if all of it has arrived, else None; never wait.

        Raises:
            SourceUnavailable: the packet is out of sequence, or lacks the bytes of semi-synchronous
                replication.
        """
        try:
            return self.buffer.take()
        except LookupError as error:
            raise SourceUnavailable(
                f"An event begins with the bytes {error.args[0]}, and not as semi-synchronous replication "
                "requires: the source has stopped it, or the stream is damaged."
            ) from error
        except ValueError as error:
            raise SourceUnavailable(f"Packet {error}: the stream is out of sequence.") from error

    def ahead(self, spool: Spool) -> PacketReader:
        """Return a reader of the packets that come next on the same connection.

        Its packets come from this reader once more, which must not be used before the other one is done.

        Args:
            spool: holds what the other reader has read. While it is full, `fill` of that one raises
                `AheadEndsError`.
        """
        ahead = PacketReader(self._sock, self._timeout_s)
        ahead.buffer, ahead._copied_to, self._spooled = self.buffer.copy(), spool, spool
        return ahead

    @property
    def pending(self) -> bool:
        """Whether TLS holds bytes, which a poll of the socket does not show."""
        return isinstance(self._sock, ssl.SSLSocket) and bool(self._sock.pending())

    def readable(self, wait_s: float = 0.0) -> bool:
        """Return whether there are unread bytes, or the connection has ended.

        Args:
            wait_s: how long to wait for that, seconds; 0: not at all.
        """
        if self.pending or (self._spooled is not None and self._spooled.unread):
            return True
        return bool(self._poll.poll(wait_s * 1e3))

    def let_arrive(self, wait_s: float) -> None:
        """Wait for all of a time, seconds, however much arrives."""
        if wait_s:
            time.sleep(wait_s)

    def fill(self) -> None:
        """Wait for bytes and read what has arrived; return without any if `wake` ends the wait.

        Raises:
            SourceUnavailable: no bytes arrived in time, or the connection has ended.
            UnsupportedEvent: an event is larger than 1 GiB.
            AheadEndsError: see `ahead`.
        """
        if self._wake is not None and not self._arrives(self._wake):
            return
        try:
            self.buffer.make_room()
        except OverflowError as error:
            raise UnsupportedEvent(
                "The next event is larger than 1 GiB.",
                hint="No server writes such an event: the stream is damaged, or is not a binlog.",
            ) from error
        spool = self._spooled
        size = self._read_again(spool) if spool is not None and spool.unread else self._receive()
        self.buffer.received(size)
        self.read_bytes += size

    def _receive(self) -> int:
        """Wait for bytes and write them into the buffer; return how many."""
        try:
            size = self._sock.recv_into(self.buffer)
        except TimeoutError as error:
            raise self._silent() from error
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"The connection broke: {error}.") from error
        if not size:
            raise SourceUnavailable("The source closed the connection.")
        if self._copied_to is not None:
            with memoryview(self.buffer) as view:
                self._copied_to.put(view[:size])
        return size

    def _read_again(self, spool: Spool) -> int:
        """Write what was read ahead into the buffer; return how many bytes."""
        try:
            return spool.read_into(self.buffer)
        except OSError as error:
            raise SourceUnavailable(f"What was read ahead is lost: {error}.") from error

    def _arrives(self, wake: Wake) -> bool:
        """Wait for bytes; return False if `wake` ended the wait."""
        if self.readable():
            return True
        ready = self._poll_all.poll(self._timeout_s * 1e3)
        if not ready:
            raise self._silent()
        if any(descriptor != wake.fileno() for descriptor, _ in ready):
            return True
        wake.clear()
        return False

    def _silent(self) -> SourceUnavailable:
        return SourceUnavailable(
            f"Nothing arrived for {self._timeout_s:g} s, not even a heartbeat: the connection is dead."
        )

    def reply(self, payload: bytes) -> None:
        """Send a packet to the source; call it from the thread that reads.

        Args:
            payload: less than 16 MiB - 1 bytes.

        Raises:
            SourceUnavailable: it cannot be sent, or not in time.
        """
        try:
            self._sock.sendall(len(payload).to_bytes(3, "little") + b"\0" + payload)
        except OSError as error:
            raise SourceUnavailable(f"A reply could not be sent: {error}.") from error

    def fileno(self) -> int:
        """Return the socket's descriptor; it can be polled for bytes."""
        return self._sock.fileno()

    def interrupt(self) -> None:
        """End the connection; a thread waiting in `fill` gets SourceUnavailable."""
        with contextlib.suppress(OSError):  # it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)
