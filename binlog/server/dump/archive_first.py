"""Archive first: the events of a search, from the archive as far as that goes, then from the source.

A search reads up to an offset that the source has. If a dump server archives the source, the archive will
have it soon, and is waited for. So what is searched is sent by the source once.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from canal_group.binlog.archive.reading.archive_packets import ArchivePackets
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import MAGIC, header_of
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.native.receive_buffer import ReceiveBuffer
from canal_group.binlog.server.dump.archived import STALLED_S, Archived, is_before
from canal_group.binlog.server.dump.own_dump import open_dump
from canal_group.binlog.server.dump.packet_source import PacketSource, Reached
from canal_group.binlog.server.dump_server.access import knock, report_damage
from canal_group.binlog.server.source import SourceAddress, connect
from canal_group.binlog.server.starts.binary_logs import binlog_sizes
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.binlog.steady_clock import steady_us
from canal_group.merge.errors import CanalGroupError, CorruptEvent, PositionRefused, SourceUnavailable
from canal_group.merge.values.position import Position
from canal_group.merge.values.resets.reset import created_again, refused_again

_log = logging.getLogger(__name__)

#: how often a dump server is told that its archive is read, seconds: it ends if nobody needs it
_KNOCK_EVERY_S: Final = 2.0
#: how often it is looked whether a dump server has archived where a search begins, seconds: at first, and
#: then half as often each time, down to the last
_FIRST_WAIT_S: Final = 0.005
_WAIT_S: Final = 0.05


class ArchiveFirst:
    """A source of packets, see `PacketSource`: those of an archive, then those of its source.

    Args:
        address: the source.
        server: its identity.
        until: file and offset that the source has; None: not known.
        archived: opens the archive's events; it gets what `ArchivePackets` calls `follow`.
    """

    def __init__(
        self,
        address: SourceAddress,
        server: str,
        until: tuple[str, int] | None,
        archived: Callable[[Callable[[bool, float], bool]], ArchivePackets],
    ) -> None:
        self._address, self._server, self._until = address, server, until
        self._archive = archived(self._may_come)
        self._packets: PacketSource = self._archive
        self.start, self.file_offset = self._archive.start, self._archive.file_offset
        self.checksum = self._archive.checksum
        self._knocked_s = -_KNOCK_EVERY_S
        self._lives = False
        #: whether the reader was told that the archive holds everything to search
        self._told = False
        #: events to return before the source's events
        self._first: list[bytes] = []

    @property
    def buffer(self) -> ReceiveBuffer:
        """What has arrived."""
        return self._packets.buffer

    @property
    def read_bytes(self) -> int:
        """How many bytes have arrived."""
        archived = 0 if self._packets is self._archive else self._archive.read_bytes
        return archived + self._packets.read_bytes

    def take(self) -> bytes | None:
        """Return the next event; b"": the archive has all that is searched; see `PacketSource`."""
        if self._first:
            return self._first.pop(0)
        event = self._taken()
        if event is None and not self._told and self._reached():
            self._told = True
            return b""
        return event

    def readable(self, wait_s: float) -> bool:
        """Return whether more has arrived, see `PacketSource`."""
        return bool(self._first) or self._packets.readable(wait_s)

    def let_arrive(self, wait_s: float) -> None:
        """Wait for all of a time, seconds."""
        self._packets.let_arrive(wait_s)

    def fill(self) -> None:
        """Wait for more and take it in; where the archive ends, or is damaged, the source goes on."""
        if self._packets is not self._archive:
            self._packets.fill()
            return
        self._knock()
        try:
            self._archive.fill()
            self._told = False
        except SourceUnavailable:
            self._go_on()
        except CanalGroupError as error:
            _say(self._address, self._server, error)
            self._go_on()

    def note_empty(self) -> None:
        """Note that all that had arrived is handed over."""
        self._packets.note_empty()

    def idle_us(self, event: bytes, reached: Reached) -> int | None:
        """Return the moment that proves the source idle: now, if the archive has all that is searched."""
        if self._packets is self._archive:
            return None if event else steady_us()
        return self._packets.idle_us(event, reached)

    def ahead(self, opening: Sequence[bytes]) -> None:  # noqa: ARG002 - others need it
        """Return None."""
        return

    def interrupt(self) -> None:
        """End the stream, from any thread."""
        self._packets.interrupt()

    def close(self) -> None:
        """Close what is open."""
        self._archive.close()
        if self._packets is not self._archive:
            self._packets.close()

    def _taken(self) -> bytes | None:
        try:
            return self._packets.take()
        except CorruptEvent as error:
            if self._packets is not self._archive:
                raise
            _say(self._address, self._server, error)
            self._go_on()
            return None

    def _reached(self) -> bool:
        """Return whether the archive was read as far as is searched."""
        return (
            self._packets is self._archive
            and self._until is not None
            and not is_before(self._archive.read_to, self._until)
        )

    def _may_come(self, _at_rest: bool, waited_s: float) -> bool:
        """Return whether the archive is waited for."""
        if self._until is None or waited_s > STALLED_S:
            return False
        self._knock()
        return self._lives

    def _knock(self) -> None:
        """Tell the dump server at intervals that its archive is read; note whether a server answers."""
        if time.monotonic() >= self._knocked_s + _KNOCK_EVERY_S:
            self._knocked_s = time.monotonic()
            self._lives = knock(self._address, self._server)

    def _go_on(self) -> None:
        """Let the source send what follows the last event of the archive.

        Raises:
            As `open_dump`; DataError: the source has another file under this name.
        """
        file, offset = self._archive.read_to
        created_s = self._archive.created_s
        start = FromOffset(Position(file, offset, server=self._server, created_s=created_s))
        dump = open_dump(self._address, start, self._server)
        self._packets, self.checksum = dump, dump.checksum
        reached = None
        while reached is None or reached < offset:
            while (event := dump.take()) is None:
                dump.fill()
            header = header_of(event)
            if header.event_type == EventType.FORMAT_DESCRIPTION:
                if created_again(created_s, header.timestamp):
                    raise refused_again(file, created_s, header.timestamp)
                if parse_format_description(event).checksum != self._archive.file_checksum:
                    # A server may leave checksums out that its file has.
                    self._first.append(event)
                reached = start.file_offset[1]
            elif reached is not None:
                # An offset beyond 4 GiB cannot be requested: the dump begins with the file.
                reached += (header.log_pos - reached) % (1 << 32)


def search_packets(
    address: SourceAddress, start: FromOffset, server: str, until: tuple[str, int] | None
) -> PacketSource:
    """Return the events of a search: the archive's, and those of a dump of its own.

    Args:
        address: the source.
        start: where the search begins.
        server: identity of the source; empty: any.
        until: file and offset up to which it has to go, which the source has; None: not known.

    Raises:
        SourceUnavailable, SourceUnfit: see `open_dump`.
    """
    archived = Archived(address, server)

    def sizes() -> dict[str, int]:
        with contextlib.closing(connect(address)) as connection:
            return binlog_sizes(address, connection)

    if until is not None and not start.by_gtid:
        _await(archived, start.file_offset)
    try:
        if archived.histories():
            return ArchiveFirst(address, server, until, lambda follow: archived.packets(start, sizes, follow))
    except (PositionRefused, SourceUnavailable):
        pass  # it does not hold it, or not yet
    except CanalGroupError as error:
        _say(address, server, error)
    return open_dump(address, start, server)


def _await(archived: Archived, begin: tuple[str, int]) -> None:
    """Wait for a dump server that archives what is before an offset."""
    stalled_s, wait_s = time.monotonic() + STALLED_S, _FIRST_WAIT_S
    while (
        time.monotonic() < stalled_s and _lacks(archived, begin) and knock(archived.address, archived.server)
    ):
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, _WAIT_S)


def _lacks(archived: Archived, begin: tuple[str, int]) -> bool:
    """Return whether an archive that is written does not reach to an offset yet."""
    if archived.address.archive is None:
        return False
    try:
        end = archived.end()
    except SourceUnavailable:
        return True  # a file has just been begun
    except CanalGroupError:
        return False  # it is said when it is opened
    # An archive that ends where a file begins lacks the description of that.
    return end is None or is_before(end, begin) or (end == begin and end[1] == len(MAGIC))


def _say(address: SourceAddress, server: str, error: CanalGroupError) -> None:
    report_damage(address, server, error)
    _log.warning(
        "the source is read instead of its archive: %s", error.message, extra={"shard": address.name}
    )
