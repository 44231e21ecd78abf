"""Packet source: where the events of a stream come from, whoever sends them.

The kinds are a dump of the source itself (`own_dump`), what a dump server sends (`shared_dump`), and what an
archive has (`archive_packets`, and `archive_first` for searches); `dumps` chooses. A kind is one class that
implements `PacketSource`. `OverPackets` is what those share that read packets from a socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from canal_group.binlog.native.receive_buffer import ReceiveBuffer
from canal_group.binlog.server.packets import PacketReader
from canal_group.merge.values.position import Position


class Reached(Protocol):
    """How far a stream has been read."""

    #: end of the last event; a source that leaves out events moves it over them
    offset: int

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""


class PacketSource(Protocol):
    """Sends a binlog from an offset on. Used by one thread, except `interrupt`."""

    #: where the stream begins; without a file: the first event says which it is
    start: Position
    #: file and offset of the first event: at `start`, or before it
    file_offset: tuple[str, int]
    #: checksum of the events before the first format description
    checksum: int

    @property
    def buffer(self) -> ReceiveBuffer:
        """What has arrived; the usual events are read in place. It may be another one after `fill`."""

    @property
    def read_bytes(self) -> int:
        """How many bytes have arrived."""

    def take(self) -> bytes | None:
        """Return the next event; b"": what came is not one; None: none has arrived whole. Never wait.

        Raises:
            SourceUnavailable: the stream has ended, or is damaged.
            DataError: the source cannot serve it; see `FromOffset.explained`.
        """

    def readable(self, wait_s: float) -> bool:
        """Return whether more has arrived, or the stream has ended; wait for that, seconds."""

    def let_arrive(self, wait_s: float) -> None:
        """Wait for all of a time, seconds, however much arrives."""

    def fill(self) -> None:
        """Wait for more and take it in, or return when `interrupt` or a reply that is due ends the wait.

        Raises:
            SourceUnavailable: nothing arrived in time, or the stream has ended.
            UnsupportedEvent: an event is too large.
        """

    def note_empty(self) -> None:
        """Note that all that had arrived is read, and handed over, if nothing has arrived since."""

    def idle_us(self, event: bytes, reached: Reached) -> int | None:
        """Return the moment that proves the source idle, once what `take` has returned is read.

        Args:
            event: what it has returned.
            reached: how far it is read.

        Returns:
            A moment of our steady clock: everything that was committed by then came before; None: it proves
            nothing.
        """

    def ahead(self, opening: Sequence[bytes]) -> PacketSource | None:
        """Return a source of the same events, which is read first; None: that would need another dump.

        Its `take` and `fill` raise `AheadEndsError` when no more can be read ahead; this one goes on as if
        nothing had been read.

        Args:
            opening: the events that were taken: all of them come before the start.
        """

    def interrupt(self) -> None:
        """End the stream, from any thread: a wait raises SourceUnavailable."""

    def close(self) -> None:
        """Close what is open."""


class OverPackets:
    """The part of a packet source that reads packets from a socket.

    Args:
        packets: reads them.
    """

    def __init__(self, packets: PacketReader) -> None:
        self.packets = packets
        self.buffer: ReceiveBuffer = packets.buffer

    @property
    def read_bytes(self) -> int:
        """How many bytes have arrived."""
        return self.packets.read_bytes

    def readable(self, wait_s: float) -> bool:
        """Return whether there are unread bytes, or the connection has ended; wait for that, seconds."""
        return self.packets.readable(wait_s)

    def let_arrive(self, wait_s: float) -> None:
        """Wait for all of a time, seconds, see `PacketReader.let_arrive`."""
        self.packets.let_arrive(wait_s)

    def fill(self) -> None:
        """Wait for bytes and take them in, see `PacketReader.fill`."""
        self.packets.fill()

    def ahead(self, opening: Sequence[bytes]) -> PacketSource | None:  # noqa: ARG002 - others need it
        """Return None."""
        return None

    def interrupt(self) -> None:
        """End the connection."""
        self.packets.interrupt()
