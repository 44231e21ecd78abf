"""Shared dump: the packets that a dump server sends to one of its readers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from canal_group.binlog.formats.events import CHECKSUM_NONE
from canal_group.binlog.server.clock import STALE_US
from canal_group.binlog.server.dump.packet_source import OverPackets, PacketSource, Reached
from canal_group.binlog.server.dump.spool import AheadEndsError
from canal_group.binlog.server.dump_server.attachment import Attachment
from canal_group.binlog.server.dump_server.wire import idle_moment_us, is_notice
from canal_group.binlog.steady_clock import steady_us
from canal_group.merge.errors import SourceUnavailable

_OK = 0x00


class SharedDump(OverPackets):
    """The packets of an attachment, which is closed with it.

    Only the dump server knows when the source was idle: it says so in notices, see
    `canal_group.binlog.dump_window.idle`.

    Args:
        shard: for errors.
        attachment: the connection to the dump server.
        another: returns a second attachment from a position; None: no server attaches it.
        clock_us: our steady clock.
    """

    checksum = CHECKSUM_NONE

    def __init__(
        self,
        shard: str,
        attachment: Attachment,
        another: Callable[[], Attachment | None] = lambda: None,
        clock_us: Callable[[], int] = steady_us,
    ) -> None:
        super().__init__(attachment.packets)
        self.start = attachment.position
        self.file_offset = attachment.position.file, attachment.position.offset
        self._shard, self._attachment, self._another = shard, attachment, another
        self._clock_us = clock_us
        #: the moment of the last notice
        self._moment_us: int | None = None

    def take(self) -> bytes | None:
        """Return the next event, b"" for a notice; see `PacketSource`."""
        packet = self.packets.take()
        if packet is None:
            return None
        if is_notice(packet):
            self._moment_us = idle_moment_us(packet)
            return b""
        if packet[:1] == bytes([_OK]):
            return packet[1:]
        why = packet[1:].decode("utf-8", "replace")
        raise SourceUnavailable(f"The dump server ended: {why} (shard {self._shard})", shard=self._shard)

    def note_empty(self) -> None:
        """Do nothing: that the socket is empty says nothing of the source."""

    def idle_us(self, event: bytes, reached: Reached) -> int | None:  # noqa: ARG002 - as `PacketSource` has it
        """Return the moment of a notice.

        What is known of the source, such as whether it replicates, may not hold for an old moment: a reader
        that is behind takes a later one.
        """
        if event or self._moment_us is None or self._clock_us() - self._moment_us > STALE_US:
            return None
        return self._moment_us

    def ahead(self, opening: Sequence[bytes]) -> PacketSource | None:  # noqa: ARG002 - others need it
        """Return the same on one more connection, if the dump server still begins there."""
        attachment = self._another()
        return None if attachment is None else _Ahead(self._shard, attachment, clock_us=self._clock_us)

    def close(self) -> None:
        """Close the connection."""
        self._attachment.close()


class _Ahead(SharedDump):
    """A shared dump that is read ahead of another one, as far as the dump server sends it."""

    def __init__(self, shard: str, attachment: Attachment, clock_us: Callable[[], int]) -> None:
        super().__init__(shard, attachment, clock_us=clock_us)
        self._begun_us = clock_us()

    def take(self) -> bytes | None:
        """Return the next event, as the other one."""
        with _ends_ahead():
            return super().take()

    def fill(self) -> None:
        """Wait for bytes and take them in."""
        with _ends_ahead():
            super().fill()

    def idle_us(self, event: bytes, reached: Reached) -> int | None:
        """Return the moment of a notice, unless it is from before what the search has to reach was known."""
        moment_us = super().idle_us(event, reached)
        return None if moment_us is None or moment_us < self._begun_us else moment_us


@contextlib.contextmanager
def _ends_ahead() -> Iterator[None]:
    """Say that nothing more can be read ahead when the dump server sends no more."""
    try:
        yield
    except SourceUnavailable as error:
        raise AheadEndsError(f"the dump server sends no more ({error.message})") from error
