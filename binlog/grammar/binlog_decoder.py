"""Binlog decoder: reads events, and gives transactions with their rows to a chunk builder.

The decoder knows how binlogs are framed and nothing of connections: events may come from a server or from a
file. It tracks the offset in the binlog, verifies every checksum, and knows the format of the current file.
`transactions` interprets the sequence of events.

An event that the grammar does not allow, or that this version does not read, raises an error with shard, file
and offset. The decoder raises no other error.

An event may hold more rows than a chunk should (a compressed transaction, the commit of a prepared one):

    decoder.feed(event)
    while decoder.go_on():
        if builder.full: ...

`feed` first reads the rest of the previous event.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable
from typing import TypeVar

from canal_group.binlog.columns.table_lookup import TableLookup
from canal_group.binlog.formats.event_types import ROWS, EventType, type_name
from canal_group.binlog.formats.events import (
    ARTIFICIAL_FLAG,
    CHECKSUM_CRC32,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    RELAY_LOG_FLAG,
    Event,
    EventHeader,
    parse_header,
    parse_rotate,
    verify_checksum,
)
from canal_group.binlog.formats.format_description import parse_format_description
from canal_group.binlog.formats.payload import parse_payload
from canal_group.binlog.formats.row_fragments import RowFragments
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.binlog.grammar.lead_in import LeadIn
from canal_group.binlog.grammar.reading import Reading
from canal_group.binlog.grammar.skips import Parts, Skips
from canal_group.binlog.grammar.tables import Select, Tables
from canal_group.binlog.grammar.transactions import Transactions
from canal_group.binlog.grammar.xa import XaTransactions
from canal_group.binlog.native.fast_path import USUAL
from canal_group.binlog.native.receive_buffer import ReceiveBuffer
from canal_group.merge.errors import CanalGroupError, CorruptEvent, DataError, Detail, UnsupportedEvent
from canal_group.merge.values.chunk import Chunk
from canal_group.merge.values.position import Position
from canal_group.merge.values.resets.reset import created_again, refused_again

_log = logging.getLogger(__name__)

_WRAP = 1 << 32
_HEARTBEATS = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
#: largest offset of an event: sums with it cannot overflow, and no file is longer
OFFSET_MAX = 1 << 62
#: bytes at the beginning of a TABLE_MAP or rows event: a table id of 6 bytes (4 in old servers) and flags
_TABLE_HEAD = 8
_T = TypeVar("_T")


class BinlogDecoder:
    """Reads one shard's events in order.

    Args:
        shard: name for errors; empty for none.
        start: the first wanted position. Events before it are skipped, except rows of XA transactions that
            are prepared there. The first transaction's first `rows_into_transaction` rows are read but not
            handed over.
        select: which tables to decode.
        builder: gathers what was read.
        checksum: of the events before the first format description: 0 none, 1 CRC32.
        lookup: describes tables where table maps are incomplete; None: no lookup.
        names_needed: whether table maps without column names are refused if the lookup does not know them.
        verbatim: see `Transactions`.
        skips: the events to leave out; None: none.
    """

    def __init__(
        self,
        shard: str,
        start: Position,
        select: Select,
        builder: ChunkBuilder,
        *,
        checksum: int,
        lookup: TableLookup | None = None,
        names_needed: bool = True,
        verbatim: bool = False,
        skips: Skips | None = None,
    ) -> None:
        #: file of the last event
        self.file = start.file
        #: whether commit times are whole seconds only
        self.whole_seconds = True
        #: whether the format description of a file was read
        self.described = False
        #: creation time of each file that was read, from its format description's header, seconds since 1970;
        #: after the binary logs were reset, it tells a file from an older one of the same name
        self.created: dict[str, int] = {start.file: start.created_s} if start.created_s else {}
        self._shard = shard
        self._start = start
        self._builder = builder
        self._fast_path = builder.fast_path
        self.offset = start.offset
        self._checksum = checksum
        self._tables = Tables(select, lookup, names_needed=names_needed)
        self._xa = xa = XaTransactions()
        self._lead_in: LeadIn | None = LeadIn(self._tables, xa)
        self._transactions = Transactions(
            self._tables, xa, select, builder, skip=start.rows_into_transaction, verbatim=verbatim
        )
        self._fragments = RowFragments()
        #: whether a file on disk is read (else events come from a server), and whether it is a relay log
        self._on_disk = False
        self._relay_log = False
        self._skips = Skips() if skips is None else skips
        #: name and beginning of the last event, and whether it can be left out
        self._last = "an event", start.offset
        self._skippable = False
        #: since when it is being read, `time.monotonic`; 0: it was read, or the fast path reads
        self._busy_s = 0.0

    @property
    def offset(self) -> int:
        """End of the last event."""
        return self._fast_path.offset

    @offset.setter
    def offset(self, offset: int) -> None:
        if not 0 <= offset <= OFFSET_MAX:
            raise CorruptEvent(f"Offset {offset} is impossible: no file is that long.")
        self._fast_path.offset = offset

    @property
    def reading(self) -> Reading:
        """Which event is being read, or up to where everything was read; any thread may read it."""
        (event, begin), since_s = self._last, self._busy_s
        return Reading(self.file, begin, event, since_s) if since_s else Reading(self.file, self.offset)

    @property
    def mariadb(self) -> bool:
        """Whether the events were written by a MariaDB server."""
        return self._tables.mariadb

    @property
    def relay_log(self) -> bool:
        """Whether the file on disk is a relay log."""
        return self._relay_log

    @property
    def prepared(self) -> int:
        """How many XA transactions are prepared: their rows are handed over when they commit."""
        return self._xa.prepared

    @property
    def passed_start(self) -> bool:
        """Whether the next event is at the start or after it."""
        return self._lead_in is None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._transactions.open

    @property
    def begun_at(self) -> int:
        """Where the open transaction begins; without one, the end of the last event.

        Before the start it is the file's beginning: what is open there is not tracked.
        """
        if self._lead_in is not None:
            return len(MAGIC)
        accumulator = self._builder.accumulator
        return accumulator.begin_offset if accumulator.is_open else self.offset

    def open_file(self, name: str) -> None:
        """Continue at the beginning of a file on disk; offsets are then counted from the bytes read.

        Raises:
            CorruptEvent: the file before ends inside a transaction whose first rows were handed over.
        """
        self._last, self._skippable = ("end of file", self.offset), True
        if not self._relay_log:
            self._fragments.drop()
            self._located(self._abandon)
        if self._on_disk:
            self._leave_file(name, len(MAGIC))
        self.file, self.offset = name, len(MAGIC)
        self._fast_path.begin_file()
        self._on_disk, self._relay_log = True, False

    def feed(self, event: bytes) -> int:
        """Read one event and return its type; `go_on` reads the rest of it.

        Raises:
            CorruptEvent: its bytes contradict themselves, or it is not allowed here.
            UnsupportedEvent: it may change rows in a way that this version does not read.
            PositionPurged: see `Transactions.take`.
        """
        taken = self._fast_path.take(event)
        if taken:
            return taken
        while self.go_on():
            pass
        self._fast_path.is_open = False
        self._last, self._skippable = ("an event", self.offset), False
        self._transactions.part = 0
        kind = self._located(lambda: self._feed(event))
        self._open_fast_path()
        return kind

    def run(self, arrived: ReceiveBuffer) -> None:
        """Read the usual events that have arrived, up to one that is unusual or would fill the chunk."""
        self._fast_path.run(arrived)

    def run_counts(self) -> dict[int, int]:
        """Return how many events of each type `run` has read."""
        return self._fast_path.counts()

    def packed_types(self, payload: bytes) -> list[int]:
        """Return the types of the events inside a TRANSACTION_PAYLOAD that was read."""
        return [parse_header(each).event_type for each in parse_payload(self._body(payload)).events()]

    def go_on(self) -> bool:
        """Read the next part of the last event; return whether there was one.

        Raises:
            CorruptEvent, UnsupportedEvent: as `feed`.
        """
        if self._fast_path.is_open:  # the last event was read whole
            return False
        if self._located(self._transactions.go_on):
            return True
        self._open_fast_path()
        return False

    def _open_fast_path(self) -> None:
        self._fast_path.is_open = (
            self._lead_in is None and self._transactions.plain and not self._fragments.open
        )
        self._fast_path.until = self._skips.next(self.file, self.offset)

    def close_chunk(self) -> Chunk | None:
        """Return the gathered transactions as a chunk; None if there are none.

        Raises:
            DataError: rows that were read cannot become a chunk.
        """
        try:
            return self._builder.close(self.offset)
        except DataError as error:
            raise self.located(error) from error

    def located(self, error: DataError, name: str = "rows before") -> DataError:
        """Return an error that was raised outside the reading of an event, with shard, file and offset."""
        return self._with_location(error, name, self.offset)

    def _located(self, read: Callable[[], _T]) -> _T:
        self._busy_s = time.monotonic()
        try:
            return read()
        except DataError as error:
            raise self._with_location(error, *self._last) from error
        except UnicodeDecodeError as error:
            corrupt = CorruptEvent("A name in the event is not UTF-8.")
            raise self._with_location(corrupt, *self._last) from error
        except (struct.error, IndexError) as error:
            corrupt = CorruptEvent(f"The event is too short ({error}).")
            raise self._with_location(corrupt, *self._last) from error
        except CanalGroupError:
            raise
        except Exception as error:  # an operator has to know the event, whatever the error
            _log.exception("an event cannot be read", extra={"shard": self._shard})
            defect = UnsupportedEvent(
                f"Reading the event failed with {type(error).__name__}.",
                hint="This is a defect of canal-group; the shard's log holds the traceback.",
                defect=type(error).__name__,
            )
            raise self._with_location(defect, *self._last) from error
        finally:
            self._busy_s = 0.0

    def _with_location(self, error: DataError, name: str, offset: int) -> DataError:
        if "skippable" in error.details:  # another stream has read ahead for this one, up to that event
            return error
        location: dict[str, Detail] = {
            "shard": self._shard,
            "file": self.file,
            "offset": offset,
            "event": name,
        }
        cut = isinstance(error, CorruptEvent | UnsupportedEvent) or "xid" in error.details
        if cut and self._skippable and (name, offset) == self._last:
            location |= {
                "skippable": 1,
                "part": self._transactions.part,
                "created_s": self.created.get(self.file, 0),
                "handed_over": int(self._builder.handed_over),
            }
        shard = f"shard {self._shard}, " if self._shard else ""
        return type(error)(
            f"{error.message} ({shard}{name} at {self.file}:{offset})",
            hint=error.hint,
            **{**error.details, **location},
        )

    def _feed(self, event: bytes) -> int:
        header = parse_header(event)
        kind = header.event_type
        self._last = type_name(kind), self.offset
        self._relay_log |= self._on_disk and self._in_relay_log_only(header)
        if kind == EventType.FORMAT_DESCRIPTION:
            self._on_format_description(event, header)
            return kind
        if self._skipped(event, header):
            return kind
        self._skippable = kind not in _HEARTBEATS or self._on_disk
        body = self._body(event)
        if kind == EventType.MARIADB_GTID and not header.log_pos and not self._on_disk:
            self._skippable = False
            raise UnsupportedEvent(
                "The source sends transactions without offsets: its binlog is stored in a storage engine.",
                hint="Remove binlog_storage_engine from the server's configuration and restart it.",
            )
        if kind in _HEARTBEATS and not self._on_disk:
            self._transactions.end_when_idle(self.offset)
            return kind
        begin, self.offset = self._offsets(header)
        self._last = type_name(kind), begin
        if kind == EventType.ROTATE:
            self._on_rotate(header, body)
        elif kind == EventType.MARIADB_START_ENCRYPTION and self._on_disk:
            self._skippable = False
            raise UnsupportedEvent(
                "The file is encrypted from this event on.",
                hint="Read it from its server, which sends events decrypted.",
            )
        else:
            self._dispatch(
                Event(
                    kind,
                    header.timestamp,
                    header.server_id,
                    body,
                    self.file,
                    begin,
                    self.offset,
                    header.flags,
                ),
                artificial=self._artificial(header),
            )
        return kind

    def _body(self, event: bytes) -> bytes:
        if self._checksum != CHECKSUM_CRC32:
            return event[HEADER_SIZE:]
        if len(event) < HEADER_SIZE + CHECKSUM_SIZE:
            raise CorruptEvent(f"An event of {len(event)} bytes has no checksum.")
        verify_checksum(event)
        return event[HEADER_SIZE:-CHECKSUM_SIZE]

    def _dispatch(self, event: Event, *, artificial: bool) -> None:
        if event.type == EventType.MARIADB_PARTIAL_ROW_DATA:
            joined = self._fragments.add(event.body)
            if joined is None:
                return
            header, body = joined
            event = event._replace(type=header.event_type, body=body)
        else:
            self._fragments.require_ended()
        if self._lead_in is not None:
            if self.file != self._start.file or event.begin < self._start.offset or artificial:
                self._lead_in.take(event)
                return
            self._lead_in = None
        self._transactions.take(event, self._skips_at(event.begin))

    def _skips_at(self, offset: int) -> Parts:
        return self._skips.at(self.file, self.created.get(self.file, 0), offset)

    def _skipped(self, event: bytes, header: EventHeader) -> bool:
        """Leave an event out if an operator has asked for that; return whether it was.

        It may be damaged: then it begins where the one before ends, and only its length is known.
        Errors that were raised before its header was read have that offset too.
        """
        kind = header.event_type
        if kind in _HEARTBEATS or kind == EventType.ROTATE or self._artificial(header):
            return False
        try:
            begin, end = self._offsets(header)
        except CorruptEvent:
            begin, end = self.offset, self.offset + len(event)
        skip = self._skips_at(begin).get(0) or self._skips_at(self.offset).get(0)
        if skip is None:
            return False
        self._fragments.drop()
        intact, body = True, event[HEADER_SIZE:]
        try:
            body = self._body(event)
        except CorruptEvent:
            intact, body = False, body[:-CHECKSUM_SIZE]
        skipped = Event(kind, header.timestamp, header.server_id, body, self.file, begin, end, header.flags)
        self.offset = end
        if self._lead_in is not None and (self.file != self._start.file or begin < self._start.offset):
            self._lead_in.leave_out(skipped, skip)
        else:
            self._lead_in = None
            self._transactions.leave_out(skipped, skip, intact=intact)
        return True

    def _abandon(self) -> None:
        """Drop a transaction that its file does not end; if its first rows are out, leave out the rest."""
        begin = self._last[1]
        skip = self._skips_at(begin).get(0)
        if skip is not None and self._builder.handed_over:
            here = Event(EventType.ROTATE, 0, 0, b"", self.file, begin, self.offset)
            self._transactions.leave_out(here, skip)
        self._transactions.abandon(begin)

    def _artificial(self, header: EventHeader) -> bool:
        """Return whether the server made an event for this stream only, so that it is not in the file."""
        return not self._on_disk and (header.log_pos == 0 or bool(header.flags & ARTIFICIAL_FLAG))

    def _in_relay_log_only(self, header: EventHeader) -> bool:
        """Return whether only a relay log holds such an event.

        Newer servers mark the format description of a relay log; MySQL 5.0 and 5.1 do not. After it they
        write what their source sent first: a ROTATE that is in no file, or the source's own description.
        """
        if header.event_type == EventType.FORMAT_DESCRIPTION:
            return bool(header.flags & RELAY_LOG_FLAG) or self.offset != len(MAGIC)
        sent = header.log_pos == 0 or bool(header.flags & ARTIFICIAL_FLAG)
        return header.event_type == EventType.ROTATE and sent

    def _offsets(self, header: EventHeader) -> tuple[int, int]:
        """Return where an event begins and ends in the file.

        `log_pos` has 32 bits, but files may be longer: the counted offset is used, and `log_pos` checks it.
        MariaDB leaves events out of a stream (annotations that were not requested), so its offsets may jump
        forward. In a relay log `log_pos` is the offset in the source's binlog and does not apply to this
        file.
        """
        if self._artificial(header):
            return self.offset, self.offset
        if self._on_disk and (self._relay_log or not header.log_pos):
            return self.offset, self.offset + header.size
        gap = (header.log_pos - self.offset - header.size) % _WRAP
        if gap and (self._on_disk or not self.mariadb or gap >= _WRAP // 2):
            raise CorruptEvent(
                f"The event's header says that it ends at {header.log_pos} (modulo 2^32), "
                f"but {self.offset + header.size} bytes were read."
            )
        end = self.offset + gap + header.size
        return end - header.size, end

    def _on_format_description(self, event: bytes, header: EventHeader) -> None:
        """Learn the format of the file.

        A stream that begins inside a file starts with the file's description again; that one does not move
        the offset. A relay log holds its source's description after its own.
        """
        begin = header.log_pos - header.size if header.log_pos else self.offset
        if self._on_disk:
            begin, self.offset = self._offsets(header)
        elif self.offset == len(MAGIC) and header.log_pos:
            begin, self.offset = len(MAGIC), header.log_pos
        self._last = type_name(header.event_type), begin
        description = parse_format_description(event)
        self._check_created(header.timestamp, begin)
        self.described = True
        self._checksum = description.checksum
        self.whole_seconds = description.whole_seconds
        self._tables.begin_file(description)
        self._fast_path.begin_file()
        self._fast_path.describe(
            [kind for kind in USUAL if self._read_alike(kind)],
            checksum=self._checksum == CHECKSUM_CRC32,
            gaps=self.mariadb and not self._on_disk,
        )

    def _check_created(self, created_s: int, begin: int) -> None:
        """Record when the file was created.

        Servers put that time into the header of the format description, also of the one that they send first
        when a stream begins inside the file; the time in its body is blanked then. A relay log's second
        description is that of its source's file, and is not used.

        Raises:
            DataError: it is not the file that was read under its name before.
        """
        if not created_s or (self._on_disk and begin != len(MAGIC)):
            return
        before_s = self.created.setdefault(self.file, created_s)
        if created_again(before_s, created_s):
            raise refused_again(self.file, before_s, created_s)

    def _read_alike(self, kind: int) -> bool:
        """Return whether this file's events of a usual type have the layout that the fast path reads."""
        if kind != EventType.TABLE_MAP and kind not in ROWS:
            return True
        try:
            size = self._tables.post_header_size(kind)
        except CorruptEvent:
            return False
        return size == _TABLE_HEAD if kind == EventType.TABLE_MAP else size >= _TABLE_HEAD

    def _on_rotate(self, header: EventHeader, body: bytes) -> None:
        """Continue in the file that the event names; the ROTATE that opens a stream only repeats the request.

        On a disk, the owner opens the next file. A relay log also holds ROTATE events of its source, which do
        not apply to it.
        """
        if self._on_disk:
            if not self._relay_log:
                self._abandon()
            return
        rotate = parse_rotate(body)
        if rotate.file == self.file and self._artificial(header):
            return
        self._fragments.drop()
        self._abandon()
        self._leave_file(rotate.file, rotate.offset)

    def _leave_file(self, file: str, offset: int) -> None:
        """Move to another file; every event after the start's file is after the start."""
        if self.file == self._start.file:
            self._lead_in = None
        self._tables.begin_file()
        self._fast_path.begin_file()
        self.file, self.offset = file, offset
