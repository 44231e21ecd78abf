"""Logged transactions: which transactions a file of a server's binlog has, by their first events.

Only the events that begin transactions are looked at, so that nothing else in the file can be in the way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

from canal_group.binlog.archive.history import History
from canal_group.binlog.archive.reading.archive_packets import ArchivePackets
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import (
    CHECKSUM_CRC32,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    parse_header,
    parse_rotate,
)
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.formats.gtid_events import parse_start
from canal_group.binlog.server.dump.dump_connection import DumpConnection
from canal_group.binlog.server.dump.dump_request import OFFSET_MAX, dump_from
from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.source import SourceAddress, server_error
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.header import gtid_text
from canal_group.merge.values.position import Position

_OK, _ERROR = 0x00, 0xFF
_SECOND_US = 1_000_000
#: the events that begin transactions
BEGINS = {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}
_IDLE = {EventType.HEARTBEAT, EventType.HEARTBEAT_V2}


class Logged(NamedTuple):
    """A transaction as a binlog has it."""

    #: "uuid", "uuid:tag" or "domain-server", and the number; 0: it has no GTID
    source: str
    number: int
    #: commit time on the server whose binlog this is, microseconds since 1970
    commit_us: int
    #: commit time on the server that committed the transaction first; without this time, commit time on the
    #: server read
    original_us: int
    #: where it begins in the file, modulo 4 GiB
    offset: int

    @property
    def gtid(self) -> str:
        """Its GTID; empty: it has none."""
        return gtid_text(self.source, self.number)


class LoggedTransactions:
    """The transactions of one file from an offset on, up to what there is of it now. A context manager.

    Args:
        file: its name.
        events: returns the next event; None: there is no more.
        close: called at the end.
        checksum: of the events before the first format description.
    """

    def __init__(
        self, file: str, events: Callable[[], bytes | None], close: Callable[[], None], checksum: int
    ) -> None:
        #: when the file was created, seconds since 1970; None: not read yet
        self.created_s: int | None = None
        self._file, self._events, self._close = file, events, close
        self._checksum = checksum

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()

    def created(self) -> int:
        """Read up to the file's description, and return when it was created; the request is accepted then."""
        while self.created_s is None and (event := self._events()) is not None:
            self._read(event)
        return self.created_s or 0

    def __iter__(self) -> Iterator[Logged]:
        """Yield the transactions."""
        while (event := self._events()) is not None:
            header = parse_header(event)
            if header.event_type in _IDLE or self._leaves(event):
                return
            self._read(event)
            if header.event_type not in BEGINS:
                continue
            body = body_of(event, self._checksum)
            here, first = (
                parse_start(header.event_type, body, header.server_id, original=original)
                for original in (False, True)
            )
            written_us = header.timestamp * _SECOND_US
            commit_us = here.commit_us or written_us
            yield Logged(
                here.source,
                here.number,
                commit_us,
                first.commit_us or commit_us,
                (header.log_pos - header.size) % (1 << 32),
            )

    def _leaves(self, event: bytes) -> bool:
        is_rotate = parse_header(event).event_type == EventType.ROTATE
        return is_rotate and parse_rotate(body_of(event, self._checksum)).file != self._file

    def _read(self, event: bytes) -> None:
        header = parse_header(event)
        if header.event_type == EventType.FORMAT_DESCRIPTION:
            self._checksum = parse_format_description(event).checksum
            self.created_s = header.timestamp if self.created_s is None else self.created_s


def body_of(event: bytes, checksum: int) -> bytes:
    """Return an event without its header and its checksum."""
    return event[HEADER_SIZE : -CHECKSUM_SIZE if checksum == CHECKSUM_CRC32 else None]


def logged_at_source(
    address: SourceAddress, server: str, file: str, offset: int, *, looks: bool = False
) -> LoggedTransactions:
    """Return the transactions of a file that a server sends.

    Args:
        address: the server, under a server id that no other connection uses.
        server: identity of the server that must answer.
        file: name of its file.
        offset: where an event begins there, less than 4 GiB.
        looks: whether only the first transactions are read.

    Raises:
        SourceUnavailable: the server does not answer, or another one does.
        DataError: the server refuses the file and offset.
    """
    with contextlib.ExitStack() as resources:
        connection = resources.enter_context(connection_to(address, server))
        if looks:
            connection.narrow()
        checksum = connection.register()
        packets = connection.request(dump_from(file, offset, address.server_id))
        close = resources.pop_all().close
    return LoggedTransactions(file, lambda: next_event(address, packets), close, checksum)


@contextlib.contextmanager
def connection_to(address: SourceAddress, server: str) -> Iterator[DumpConnection]:
    """Open a connection for a dump of one server; raises as `logged_at_source`."""
    with contextlib.closing(DumpConnection(address)) as connection:
        found = connection.facts.identity
        if found != server:
            raise SourceUnavailable(
                f"Two servers answer for shard {address.name} at {address}: {server}, then {found}.",
                shard=address.name,
            )
        yield connection


def created_at_source(address: SourceAddress, server: str, file: str, size: int) -> int:
    """Return when a server created a file, seconds since 1970; raises as `logged_at_source`.

    Args:
        address: the server.
        server: its identity.
        file: name of its file.
        size: bytes of the file.
    """
    # Read at the end of the file: from the beginning, the source would fill all its socket buffers.
    with logged_at_source(address, server, file, min(size, OFFSET_MAX), looks=True) as logged:
        return logged.created()


def logged_in_archive(history: History, file: str, offset: int) -> LoggedTransactions:
    """Return the transactions of a file that an archive has, up to its end there.

    Raises:
        PositionPurged, SourceUnfit, CorruptEvent: see `ArchivePackets`.
    """
    packets = ArchivePackets(history, Position(file, offset))

    def event() -> bytes | None:
        while (found := packets.take()) is None:
            try:
                packets.fill()
            except SourceUnavailable:
                return None
        return found

    return LoggedTransactions(file, event, packets.close, packets.checksum)


def next_event(address: SourceAddress, packets: PacketReader) -> bytes:
    """Return the next event of a dump, as soon as all of it has arrived.

    Raises:
        SourceUnavailable: the source has ended the dump.
        DataError: it cannot serve it.
    """
    while (packet := packets.take()) is None:
        packets.fill()
    if packet[:1] == bytes([_OK]):
        return packet[1:]
    if packet[:1] == bytes([_ERROR]):
        text = packet[9:] if packet[3:4] == b"#" else packet[3:]
        code = int.from_bytes(packet[1:3], "little")
        raise server_error(address, code, text.decode("utf-8", "replace"))
    raise SourceUnavailable(f"{address.title} ended the stream.", shard=address.name)
