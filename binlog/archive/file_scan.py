"""File scan: checks the events of one binlog file from its beginning, and notes where transactions are.

Each event is checked before it counts: it is whole, ends at the offset that its header says, and has its
checksum. Types that no reader knows are taken like any other: an archive keeps what a server wrote.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Final

from canal_group.binlog.archive.points import Point
from canal_group.binlog.formats.event_types import EventType, type_name
from canal_group.binlog.formats.events import (
    ARTIFICIAL_FLAG,
    CHECKSUM_CRC32,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    RELAY_LOG_FLAG,
    EventHeader,
    header_of,
    verify_checksum,
)
from canal_group.binlog.formats.format_description import FormatDescription, parse_format_description
from canal_group.binlog.formats.gtid_sets import decode_gtid_list, decode_gtid_set
from canal_group.binlog.native.event_scan import EventScan
from canal_group.merge.errors import CorruptEvent, DataError, UnsupportedEvent
from canal_group.merge.values.gtids.gtid import NO_GTIDS, GtidSet, MySqlGtidSet

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: bytes between two points of the index, at least
POINT_BYTES: Final = 1 << 20
#: the servers' largest max_allowed_packet, and an event's head
EVENT_BYTES_MAX: Final = (1 << 30) + (1 << 16)
_WRAP: Final = 1 << 32
_UUID_BYTES: Final = 16
_MARIADB_SOURCE: Final = struct.Struct("<II")
_GTIDS_BEFORE: Final = (EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST)
_COPY_HINT: Final = "Copy the file from its server again."


class FileScan:
    """Checks one file.

    Args:
        file: its name, for messages.
        where: whose it is, for messages: a server, or a folder.
        gtids: the transactions before it, as far as they are known; the file's own list replaces them.
        sent: whether a server sends the events: it may describe the file again.
        description: CRC32 of its format description; 0: any.
    """

    def __init__(
        self, file: str, where: str, gtids: GtidSet = NO_GTIDS, *, sent: bool = False, description: int = 0
    ) -> None:
        self.file = file
        self._expected = description
        self._sent = sent
        self._where = where
        self._scan = EventScan(len(MAGIC))
        self._description: FormatDescription | None = None
        #: when the file was created, seconds since 1970; 0: its first event was not read yet
        self.created_s = 0
        #: whether the file's header marks the file as in use by the server
        self.in_use = False
        #: the transactions before the file
        self.gtids_before = gtids
        self._gtids = gtids
        #: where a reader may begin, see `Point`
        self.points: list[Point] = []
        self._step = POINT_BYTES
        self._sha256 = hashlib.sha256(MAGIC)

    @property
    def offset(self) -> int:
        """End of the last event that was taken."""
        return self._scan.offset

    @property
    def whole_end(self) -> int:
        """End of the last whole transaction, or of an event outside of one."""
        return self._scan.whole_end

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._scan.in_transaction

    @property
    def transactions(self) -> int:
        """How many whole transactions there were."""
        return self._scan.transactions

    @property
    def times_us(self) -> tuple[int, int]:
        """Commit time of the first transaction, and the greatest one, microseconds since 1970; 0: none."""
        return self._scan.first_us, self._scan.latest_us

    @property
    def sha256(self) -> str:
        """SHA-256 of the magic and of all events that were taken, in hex."""
        return self._sha256.hexdigest()

    def gtids(self) -> GtidSet:
        """Return the transactions before `whole_end`."""
        for key, first, last in self._scan.take_runs():
            self._gtids = _with_run(self._gtids, key, first, last)
        return self._gtids

    def go_to(self, point: Point) -> None:
        """Go on at a point of the file, whose description was taken; each transaction is a point then.

        `sha256` and the times are those of a part of the file from there on.
        """
        self._scan.offset = self._scan.whole_end = self._scan.until = point.offset
        self._gtids, self._step = point.gtid_set(), 1
        self.points.clear()

    def feed(self, data: Buffer) -> int:
        """Take events, and return where the first one begins that is not taken.

        Not taken is an event that is incomplete, and one that is not in a file (see `is_sent_only`).

        Args:
            data: events that follow the last one.

        Raises:
            CorruptEvent: an event contradicts itself, or what was read before.
            UnsupportedEvent: the file is a relay log, or encrypted by its server.
        """
        before = self.offset
        with memoryview(data) as view:
            try:
                return self._feed(view)
            finally:
                self._sha256.update(view[: self.offset - before])

    def _feed(self, view: memoryview) -> int:
        at = 0
        while True:
            if self._description is not None:
                at = self._scan.run(view, at)
            if len(view) - at < HEADER_SIZE:
                return at
            header = header_of(bytes(view[at : at + HEADER_SIZE]))
            if self._description is not None and is_sent_only(header, again=self._sent):
                return at
            self._check_header(header)
            if len(view) - at < header.size:
                return at
            event = bytes(view[at : at + header.size])
            if self._description is not None and self.offset >= self._scan.until:
                self._require_checksums(event, header)
                if header.event_type not in _GTIDS_BEFORE:
                    self._note_point()
                    continue
                self._note_gtids_before(event, header)
            self._take(event, header)
            at += header.size

    def _check_header(self, header: EventHeader) -> None:
        least = HEADER_SIZE + (CHECKSUM_SIZE if self._scan.checksum else 0)
        if not least <= header.size <= EVENT_BYTES_MAX:
            raise self._damaged(f"An event of {header.size} bytes is impossible.", header)
        end = self.offset + header.size
        if header.log_pos and header.log_pos != end % _WRAP:
            missing = (header.log_pos - end) % _WRAP
            if missing < _WRAP // 2:
                raise self._damaged(
                    f"{missing} bytes are missing before an event that ends at {header.log_pos}.",
                    header,
                    "The source left events out, such as MariaDB's annotations, which an archive has to ask "
                    f"for; or the file was cut. {_COPY_HINT}",
                )
            raise self._damaged(
                f"An event of {header.size} bytes says that it ends at {header.log_pos}, not at {end} (both "
                "modulo 2^32).",
                header,
            )

    def _require_checksums(self, event: bytes, header: EventHeader) -> None:
        """Refuse an event with a checksum if the damaged description says that checksums are off."""
        crc32 = zlib.crc32(memoryview(event)[:-CHECKSUM_SIZE])
        if not self._scan.checksum and event[-CHECKSUM_SIZE:] == crc32.to_bytes(CHECKSUM_SIZE, "little"):
            raise self._damaged("The event has a checksum, and the format description says none.", header)

    def _take(self, event: bytes, header: EventHeader) -> None:
        """Take an event that the compiled scan has left."""
        if self._description is None:
            self._describe(event, header)
            return
        if header.event_type == EventType.MARIADB_START_ENCRYPTION:
            raise self._refused("The file is encrypted from here on.")
        if header.event_type == EventType.FORMAT_DESCRIPTION:
            raise self._refused("A second format description makes the file a relay log.")
        if self._scan.checksum:
            try:
                verify_checksum(event)
            except CorruptEvent as error:
                raise self._damaged(error.message, header) from error
        self._scan.pass_event(header.size)

    def _describe(self, event: bytes, header: EventHeader) -> None:
        if header.event_type != EventType.FORMAT_DESCRIPTION or not header.log_pos:
            raise self._damaged("The first event of a binlog file is its format description.", header)
        if self._expected and zlib.crc32(event) != self._expected:
            raise self._damaged("The format description is not the one that was written.", header)
        if header.flags & RELAY_LOG_FLAG:
            raise self._refused("The file is a relay log.")
        try:
            self._description = parse_format_description(event)
        except DataError as error:
            raise type(error)(self._located(error.message), hint=error.hint, **self._details()) from error
        self.created_s, self.in_use = header.timestamp, bool(header.flags & 1)
        self._scan.checksum = self._description.checksum == CHECKSUM_CRC32
        self._scan.pass_event(header.size)
        self._scan.until = self.offset

    def _note_point(self) -> None:
        """Note a point at this offset: between two transactions, or before the first of the file."""
        self._scan.pass_event(0)
        self.points.append(Point(self.offset, self._scan.latest_us, str(self.gtids())))
        self._scan.until = self.offset + self._step

    def _note_gtids_before(self, event: bytes, header: EventHeader) -> None:
        """Take the transactions before the file from its list."""
        body = event[HEADER_SIZE : len(event) - (CHECKSUM_SIZE if self._scan.checksum else 0)]
        decode = decode_gtid_set if header.event_type == EventType.PREVIOUS_GTIDS else decode_gtid_list
        try:
            self._gtids = self.gtids_before = decode(body)
        except (struct.error, IndexError, ValueError) as error:
            raise self._damaged(f"Its list of GTIDs cannot be read ({error}).", header) from error

    def _damaged(self, what: str, header: EventHeader, hint: str = _COPY_HINT) -> CorruptEvent:
        message = self._located(what, type_name(header.event_type))
        return CorruptEvent(message, hint=hint, **self._details())

    def _refused(self, what: str) -> UnsupportedEvent:
        hint = "An archive holds binlogs as a server sends them: read them from there."
        return UnsupportedEvent(self._located(what), hint=hint, **self._details())

    def _located(self, what: str, event: str = "an event") -> str:
        return f"{what} ({self._where}, {event} at {self.file}:{self.offset})"

    def _details(self) -> dict[str, str | int | float | None]:
        return {"server": self._where, "file": self.file, "offset": self.offset}


def is_sent_only(header: EventHeader, *, again: bool) -> bool:
    """Return whether a server made an event for one stream: it is in no file.

    Args:
        header: of the event.
        again: whether a format description is one: the file's own was read.
    """
    return (
        not header.log_pos
        or bool(header.flags & ARTIFICIAL_FLAG)
        or header.event_type in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
        or (again and header.event_type == EventType.FORMAT_DESCRIPTION)
    )


def _with_run(gtids: GtidSet, key: bytes, first: int, last: int) -> GtidSet:
    """Return a set with GTIDs added that follow each other, see `EventScan.take_runs`."""
    if len(key) == _MARIADB_SOURCE.size:
        domain, server = _MARIADB_SOURCE.unpack(key)
        return gtids.add(f"{domain}-{server}", [last])
    source = str(uuid.UUID(bytes=key[:_UUID_BYTES])), key[_UUID_BYTES:].decode("ascii")
    return gtids.union(MySqlGtidSet(((source, ((first, last + 1),)),)))
