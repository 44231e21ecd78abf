"""Binlog decoder: events in, transactions with their rows out to a chunk builder.

The decoder knows the binlog's grammar and nothing of connections: events may come from a server or from a
file. It keeps the place in the binlog, verifies every checksum, and holds the table maps of the current file.

Grammar of a transaction, and of what else may stand between two of them:

    MySQL      GTID | ANONYMOUS_GTID (absent before 5.7)   then   QUERY BEGIN ... XID | QUERY COMMIT
                                                           or     QUERY (a definition)
    MariaDB    GTID                                        then   ... XID | QUERY COMMIT
               GTID standalone                             then   QUERY (a definition)

An event that has no place in it, or that this version does not read, is an error with shard, file and offset.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from enum import Enum
from typing import NoReturn

from actors.parse import ddl
from actors.parse.chunk_builder import ChunkBuilder
from actors.parse.columns import TableSchema
from actors.parse.event_types import REFUSED, ROWS, SKIPPED, UNKNOWN_HINT, EventType, type_name
from actors.parse.events import (
    ARTIFICIAL_FLAG,
    CHECKSUM_CRC32,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    EventHeader,
    FormatDescription,
    TransactionStart,
    parse_format_description,
    parse_header,
    parse_mariadb_gtid,
    parse_mysql_gtid,
    parse_query,
    parse_rotate,
    verify_checksum,
)
from actors.parse.table_map import parse_table_map, table_id, table_name
from merge.chunk import TableName
from merge.errors import CorruptEvent, DataError, UnsupportedEvent
from merge.position import Position

#: which tables are decoded, and under which name; None leaves a table out
Select = Callable[[str, str], TableName | None]

SECOND_US = 1_000_000
_WRAP = 1 << 32
_DUMMY_TABLE_ID = 0xFFFFFF
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
#: MySQL's first release with commit microseconds in its GTID events
_MICROSECONDS_SINCE = (8, 0, 1)


class _State(Enum):
    IDLE = "between transactions"
    #: a GTID was read: BEGIN or a statement on its own follows
    ANNOUNCED = "announced"
    INSIDE = "inside a transaction"


class BinlogDecoder:
    """Reads one shard's events in order.

    Args:
        shard: name for errors.
        start: where the first event stands. Events before it, if any come, are passed over. The first
        transaction's
            first `rows_into_transaction` rows are read and not handed over.
        select: which tables to decode.
        builder: gathers what was read.
        checksum: of the events before the first format description: 0 none, 1 CRC32.
    """

    def __init__(
        self, shard: str, start: Position, select: Select, builder: ChunkBuilder, *, checksum: int
    ) -> None:
        #: file of the last event
        self.file = start.file
        #: end of the last event
        self.offset = start.offset
        #: whether commit times are whole seconds only
        self.whole_seconds = True
        self.mariadb = False
        self._shard = shard
        self._start = start
        self._skip = start.rows_into_transaction
        self._select = select
        self._builder = builder
        self._checksum = checksum
        self._format: FormatDescription | None = None
        self._state = _State.IDLE
        #: by table id: the table map's bytes, and the schema if the table is selected
        self._tables: dict[int, tuple[bytes, TableSchema | None]] = {}
        self._savepoints: dict[str, int] = {}
        self._handlers: dict[int, Callable[[EventHeader, bytes, int], None]] = {
            EventType.ROTATE: self._on_rotate,
            EventType.GTID: self._on_gtid,
            EventType.ANONYMOUS_GTID: self._on_gtid,
            EventType.MARIADB_GTID: self._on_gtid,
            EventType.QUERY: self._on_query,
            EventType.XID: self._on_xid,
            EventType.TABLE_MAP: self._on_table_map,
            **dict.fromkeys(ROWS, self._on_rows),
        }

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._state is not _State.IDLE

    def feed(self, event: bytes) -> int:
        """Read one event and return its type.

        Raises:
            CorruptEvent: its bytes contradict themselves, or it has no place here.
            UnsupportedEvent: it may change rows in a way that this version does not read.
        """
        begin, name = self.offset, "an event"
        try:
            header = parse_header(event)
            name = type_name(header.event_type)
            if header.event_type == EventType.FORMAT_DESCRIPTION:
                begin = self._on_format_description(event, header)
                return header.event_type
            body = self._body(event)
            if header.event_type in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
                return header.event_type
            begin, self.offset = self._place(header)
            if begin >= self._start.offset or self.file != self._start.file or _artificial(header):
                self._dispatch(header, body, begin)
        except DataError as error:
            raise self._located(error, name, begin) from error
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            corrupt = CorruptEvent(f"The event is shorter than it must be ({error}).")
            raise self._located(corrupt, name, begin) from error
        return header.event_type

    def located(self, error: DataError) -> DataError:
        """Return an error that came up over the rows gathered, with where the reading stands."""
        return self._located(error, "rows before", self.offset)

    def _body(self, event: bytes) -> bytes:
        if self._checksum != CHECKSUM_CRC32:
            return event[HEADER_SIZE:]
        verify_checksum(event)
        return event[HEADER_SIZE:-CHECKSUM_SIZE]

    def _dispatch(self, header: EventHeader, body: bytes, begin: int) -> None:
        handler = self._handlers.get(header.event_type)
        if handler is not None:
            handler(header, body, begin)
        elif header.event_type not in SKIPPED:
            raise UnsupportedEvent(
                f"{type_name(header.event_type)} events are not read.",
                hint=REFUSED.get(header.event_type, UNKNOWN_HINT),
            )

    def _place(self, header: EventHeader) -> tuple[int, int]:
        """Return where an event begins and ends in the file.

        `log_pos` has 32 bits, files may be longer: the running offset is the truth and `log_pos` its check.
        MariaDB leaves events out of a stream (annotations nobody asked for), so its offsets may jump forward.
        """
        if _artificial(header):
            return self.offset, self.offset
        gap = (header.log_pos - self.offset - header.size) % _WRAP
        if gap and (not self.mariadb or gap >= _WRAP // 2):
            raise CorruptEvent(
                f"The event says that it ends at {header.log_pos} (modulo 2^32), "
                f"but {self.offset + header.size} bytes were read."
            )
        end = self.offset + gap + header.size
        return end - header.size, end

    def _located(self, error: DataError, name: str, offset: int) -> DataError:
        return type(error)(
            f"{error.message} (shard {self._shard}, {name} at {self.file}:{offset})",
            hint=error.hint,
            **{**error.details, "shard": self._shard, "file": self.file, "offset": offset, "event": name},
        )

    def _on_format_description(self, event: bytes, header: EventHeader) -> int:
        """Learn how the file is written; return where the event begins.

        A stream that begins inside a file is led in by the file's description again: its place is no news
        then.
        """
        begin = header.log_pos - header.size if header.log_pos else self.offset
        if self.offset == len(MAGIC) and header.log_pos:
            begin, self.offset = len(MAGIC), header.log_pos
        self._format = parse_format_description(event)
        self._checksum = self._format.checksum
        self.mariadb = self._format.mariadb
        match = _VERSION.match(self._format.server_version)
        version = tuple(int(part) for part in match.groups()) if match else (0, 0, 0)
        self.whole_seconds = self.mariadb or version < _MICROSECONDS_SINCE
        self._tables.clear()
        return begin

    def _on_rotate(self, header: EventHeader, body: bytes, _begin: int) -> None:
        """Go on in the file named; the one that opens a stream repeats what was asked for."""
        rotate = parse_rotate(body)
        if rotate.file == self.file and _artificial(header):
            return
        if self.in_transaction:
            self._abandon()
        self._tables.clear()
        self.file, self.offset = rotate.file, rotate.offset

    def _abandon(self) -> None:
        """Forget a transaction that its file does not end: the server crashed, and rolled it back."""
        if not self._builder.discard():
            raise CorruptEvent(
                "The file ends inside a transaction whose first rows were handed over.",
                hint="The source crashed while it wrote the transaction and rolled it back: its rows must be "
                "taken back by hand.",
            )
        self._state = _State.IDLE

    def _on_gtid(self, header: EventHeader, body: bytes, begin: int) -> None:
        if header.event_type == EventType.MARIADB_GTID:
            start = parse_mariadb_gtid(body, header.server_id)
        else:
            start = parse_mysql_gtid(body, anonymous=header.event_type == EventType.ANONYMOUS_GTID)
        if start.xa:
            self._refuse_xa()
        if start.split_alter:
            raise UnsupportedEvent(
                "ALTER statements logged in two phases are not read.",
                hint="SET GLOBAL binlog_alter_two_phase = OFF; on the source, and start behind it.",
            )
        self._begin(start, header, begin)
        self._state = _State.INSIDE if start.implied_begin else _State.ANNOUNCED

    def _begin(self, start: TransactionStart | None, header: EventHeader, begin: int) -> None:
        if self.in_transaction:
            raise CorruptEvent("A transaction begins inside another.")
        commit_us = start.commit_us if start else 0
        self._builder.begin(
            file=self.file,
            begin_offset=begin,
            commit_us=commit_us or header.timestamp * SECOND_US,
            gtid_source=start.source if start else "",
            gtid_number=start.number if start else 0,
            skip=self._skip,
        )
        self._skip = 0
        self._savepoints.clear()

    def _end(self) -> None:
        self._builder.end(self.offset)
        self._state = _State.IDLE

    def _on_xid(self, _header: EventHeader, _body: bytes, _begin: int) -> None:
        self._require_inside("COMMIT")
        self._end()

    def _require_inside(self, what: str) -> None:
        if self._state is not _State.INSIDE:
            raise CorruptEvent(
                f"{what} {self._state.value}.", hint="A stream must begin where a transaction begins."
            )

    def _on_query(self, header: EventHeader, body: bytes, begin: int) -> None:
        query = parse_query(body)
        match ddl.kind_of(query.sql):
            case ddl.Kind.BEGIN:
                if self._state is _State.IDLE:
                    self._begin(None, header, begin)
                self._state = _State.INSIDE
            case ddl.Kind.DEFINITION:
                self._definition(query.schema, query.sql, header, begin)
            case ddl.Kind.XA:
                self._refuse_xa()
            case ddl.Kind.ROWS:
                raise UnsupportedEvent(
                    f"Rows are changed by a statement in the binlog: {query.sql[:100]!r}.",
                    hint=REFUSED[EventType.EXECUTE_LOAD_QUERY],
                )
            case kind:
                self._on_transaction_control(kind, query.sql)

    def _on_transaction_control(self, kind: ddl.Kind, sql: str) -> None:
        """Follow a transaction's end or savepoint; releasing a savepoint changes nothing, nor do fillers."""
        match kind:
            case ddl.Kind.COMMIT:
                self._require_inside("COMMIT")
                self._end()
            case ddl.Kind.ROLLBACK:
                self._rollback()
            case ddl.Kind.SAVEPOINT:
                self._savepoints[ddl.savepoint_name(sql)] = self._builder.row
            case ddl.Kind.ROLLBACK_TO:
                self._rollback_to(ddl.savepoint_name(sql))
            case _:
                assert kind in (ddl.Kind.RELEASE, ddl.Kind.EMPTY), kind

    @staticmethod
    def _refuse_xa() -> NoReturn:
        raise UnsupportedEvent("XA transactions are not read.", hint=REFUSED[EventType.XA_PREPARE])

    def _rollback(self) -> None:
        """End a transaction that was rolled back: logged only where a part of it could not be undone."""
        self._require_inside("ROLLBACK")
        if self._builder.row:
            raise UnsupportedEvent(
                "A transaction that was rolled back holds rows: which of them stayed is not known.",
                hint="Tables without transactions, changed beside tables with them, cause this.",
            )
        self._end()

    def _rollback_to(self, name: str) -> None:
        """Pass over a return to a savepoint, provided that the undone rows are not in the binlog."""
        if self._builder.row > self._savepoints.get(name, 0):
            raise UnsupportedEvent(
                f"Rows behind savepoint {name!r} were rolled back, but stand in the binlog.",
                hint="Tables without transactions, changed beside tables with them, cause this.",
            )

    def _definition(self, schema: str, sql: str, header: EventHeader, begin: int) -> None:
        """Hand a statement on under the first of its tables that is selected.

        A statement about no table is asked for with an empty table name. On its own it is a transaction;
        CREATE TABLE ... SELECT stands inside one, before its rows.
        """
        alone = self._state is not _State.INSIDE
        if self._state is _State.IDLE:
            self._begin(None, header, begin)
        for change in ddl.changes_of(sql, schema):
            name = self._select(change.schema, change.table)
            if name is not None:
                self._builder.add_statement(name, change.op, sql)
                if alone:
                    self._builder.mark_ddl()
                break
        if alone:
            self._end()

    def _on_table_map(self, _header: EventHeader, body: bytes, _begin: int) -> None:
        number = table_id(body, self._post_header_size(EventType.TABLE_MAP))
        version = body[8:]
        known = self._tables.get(number)
        if known is not None and known[0] == version:
            return
        name = self._select(*table_name(body))
        schema = None
        if name is not None:
            schema = TableSchema.of(name, parse_table_map(body, mariadb=self.mariadb))
        self._tables[number] = version, schema

    def _on_rows(self, header: EventHeader, body: bytes, _begin: int) -> None:
        self._require_inside("Rows")
        post_header_size = self._post_header_size(header.event_type)
        number = table_id(body, post_header_size)
        known = self._tables.get(number)
        if known is None:
            if number == _DUMMY_TABLE_ID:  # closes a statement, has no rows
                return
            raise CorruptEvent(
                f"Rows of table number {number} come without its table map.",
                hint="A stream must begin where a transaction begins.",
            )
        version, schema = known
        if schema is not None:
            self._builder.add_rows(schema, version, header.event_type, body, post_header_size)

    def _post_header_size(self, event_type: int) -> int:
        if self._format is None:
            raise CorruptEvent("An event comes before the format description.")
        return self._format.post_header_sizes[event_type - 1]


def _artificial(header: EventHeader) -> bool:
    """Return whether an event was made for this stream and does not stand in the file."""
    return header.log_pos == 0 or bool(header.flags & ARTIFICIAL_FLAG)
