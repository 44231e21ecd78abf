"""The witness: the rows of binlog files as mysql-replication reads them, event by event.

An event that mysql-replication cannot read, or loses without an error, is yielded as `Unread`, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pymysql.protocol import MysqlPacket
from pymysqlreplication.constants import NONE_SOURCE
from pymysqlreplication.packet import BinLogPacketWrapper
from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

from canal_group.binlog.columns.table_map import table_id, table_name
from canal_group.binlog.formats.binlog_file import BinlogFile, buffered
from canal_group.binlog.formats.event_types import UNPACKED_ROWS, EventType
from canal_group.binlog.formats.events import (
    CHECKSUM_CRC32,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    header_of,
    parse_query,
)
from canal_group.binlog.formats.format_description import FormatDescription, parse_format_description
from canal_group.binlog.grammar.tables import Select
from canal_group.merge.values.chunk import Op, TableName
from canal_group.merge.values.types.table import ColumnType

XA: Final = "XA transactions, whose rows are elsewhere in the binlog"
#: type -> why its rows are not read
_UNREAD: Final[dict[int, str]] = {
    EventType.TRANSACTION_PAYLOAD: "compressed transactions (TRANSACTION_PAYLOAD)",
    EventType.PARTIAL_UPDATE_ROWS: "partial JSON updates (PARTIAL_UPDATE_ROWS)",
    EventType.MARIADB_PARTIAL_ROW_DATA: "rows events in fragments (PARTIAL_ROW_DATA)",
    **dict.fromkeys(UNPACKED_ROWS, "compressed rows events of MariaDB"),
}
_ROWS: Final = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)
_STRINGS: Final = (ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING, ColumnType.BLOB)
_MEMBERS: Final = (ColumnType.ENUM, ColumnType.SET)
#: the charsets that it decodes as the servers do
_DECODED: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
#: a charset that Python lacks: the bytes are handed on
_UNDECODED: Final = "undecoded"
#: flags of MariaDB's GTID event, after number and domain; the one of a transaction that XA prepares
_MARIADB_FLAGS_AT: Final = HEADER_SIZE + 12
_MARIADB_PREPARED_XA: Final = 64


class EventPosition(NamedTuple):
    """The file and offset at which an event begins."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class Image:
    """A row before or after a change."""

    #: by column, in the columns' order
    values: dict[str, Any]
    #: columns that the image does not have
    absent: frozenset[str]


@dataclass(frozen=True, slots=True)
class Row:
    """A row change as mysql-replication has it."""

    position: EventPosition
    #: after routes
    name: TableName
    op: Op
    before: Image | None
    after: Image | None
    #: whether the columns have names
    named: bool
    #: ENUM and SET columns whose members it does not decode as the servers do
    undecoded: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unread:
    """An event whose rows mysql-replication does not read."""

    position: EventPosition
    why: str


class Witness:
    """Reads files. Iterate it once; memory holds one event.

    Args:
        files: in the order in which they were written.
        select: which tables to read, under which name.
    """

    charset = "utf8mb4"

    def __init__(self, files: Sequence[BinlogFile], select: Select) -> None:
        self._files = files
        self._select = select
        self._tables: dict[int, Any] = {}
        #: table id -> its ENUM and SET columns whose members are not decoded as the servers do
        self._undecoded: dict[int, frozenset[str]] = {}
        #: table id -> why its rows cannot be read
        self._unread: dict[int, str] = {}
        self._format = FormatDescription("", 0, b"")
        self._in_xa = False

    def _get_dbms(self) -> str:
        """Return the DBMS for mysql-replication, which takes this object for its connection."""
        return "mariadb" if self._format.mariadb else "mysql"

    def __iter__(self) -> Iterator[Row | Unread]:
        """Yield the row changes of the files, and the events whose rows are not read."""
        for path in self._files:
            with buffered(path) as file:
                at = len(MAGIC)
                file.seek(at)
                while len(head := file.read(HEADER_SIZE)) == HEADER_SIZE:
                    header = header_of(head)
                    if header.event_type == EventType.IGNORABLE:
                        file.seek(header.size - HEADER_SIZE, 1)
                    else:
                        event = head + file.read(header.size - HEADER_SIZE)
                        if len(event) < header.size:
                            break  # the server is writing it
                        yield from self._read(EventPosition(path.name, at), header.event_type, event)
                    at += header.size

    def _read(self, position: EventPosition, kind: int, event: bytes) -> Iterator[Row | Unread]:
        if kind == EventType.FORMAT_DESCRIPTION:
            self._format = parse_format_description(event)
            self._tables.clear()
            self._unread.clear()
        elif kind in _UNREAD:
            yield Unread(position, _UNREAD[kind])
        elif kind == EventType.QUERY:
            yield from self._statement(position, event)
        elif kind == EventType.MARIADB_GTID:
            self._in_xa = bool(event[_MARIADB_FLAGS_AT] & _MARIADB_PREPARED_XA)
        elif kind == EventType.XA_PREPARE:
            self._in_xa = False
            yield Unread(position, XA)
        elif kind == EventType.TABLE_MAP:
            self._table(event)
        else:
            yield from self._rows(position, event)

    def _statement(self, position: EventPosition, event: bytes) -> Iterator[Unread]:
        size = CHECKSUM_SIZE if self._format.checksum == CHECKSUM_CRC32 else 0
        sql = parse_query(event[HEADER_SIZE : len(event) - size]).sql.upper()
        if sql.startswith("XA START"):
            self._in_xa = True
        elif sql.startswith(("XA COMMIT", "XA ROLLBACK")):
            self._in_xa = False
            yield Unread(position, XA)

    def _table(self, event: bytes) -> None:
        body = event[HEADER_SIZE:]
        size = self._format.post_header_size(EventType.TABLE_MAP)
        number = table_id(body, size)
        self._tables.pop(number, None)
        self._unread.pop(number, None)
        if self._select(*table_name(body, size)) is None:
            return
        try:
            table = self._wrapped(event, {TableMapEvent}).get_table()
        except Exception as error:  # noqa: BLE001 - its parsing raises any error
            self._unread[number] = f"tables that it does not read ({_error_text(error)})"
            self._tables.pop(number, None)
            return
        for column in table.columns:
            if column.type in _STRINGS and column.character_set_name not in _DECODED:
                column.character_set_name = _UNDECODED
        self._tables[number] = table
        self._undecoded[number] = frozenset(
            column.name
            for column in table.columns
            if column.type in _MEMBERS and column.character_set_name not in _DECODED
        )

    def _rows(self, position: EventPosition, event: bytes) -> Iterator[Row | Unread]:
        try:
            rows_event = self._wrapped(event, set(_ROWS))
            if rows_event is None:
                if self._rows_unread(event) and not self._in_xa:
                    yield Unread(position, self._unread[table_id(event[HEADER_SIZE:])])
                return
            rows = rows_event.rows
        except Exception as error:  # noqa: BLE001 - its parsing raises any error
            yield Unread(position, f"rows that it does not read ({_error_text(error)})")
            return
        if self._in_xa:
            return
        name = self._select(rows_event.schema, rows_event.table)
        assert name is not None, "the table maps of other tables are left out"
        number = rows_event.table_id
        facts = self._tables[number].column_name_flag, self._undecoded[number]
        for row in rows:
            match rows_event:
                case WriteRowsEvent():
                    yield Row(position, name, Op.INSERT, None, _image(row, ""), *facts)
                case DeleteRowsEvent():
                    yield Row(position, name, Op.DELETE, _image(row, ""), None, *facts)
                case _:
                    yield Row(
                        position, name, Op.UPDATE, _image(row, "before_"), _image(row, "after_"), *facts
                    )

    def _rows_unread(self, event: bytes) -> bool:
        is_rows = EventType.WRITE_ROWS_V1 <= event[4] <= EventType.DELETE_ROWS_V1
        is_rows |= EventType.WRITE_ROWS <= event[4] <= EventType.DELETE_ROWS
        return is_rows and table_id(event[HEADER_SIZE:]) in self._unread

    def _wrapped(self, event: bytes, allowed: set[Any]) -> Any:
        packet = MysqlPacket(b"\0" + event, "utf-8")
        filters = None, None, None, None
        #: the schema is not frozen, errors are raised, checksums are ours to verify, metadata is read, no log
        flags = False, False, False, True, False
        checksum = self._format.checksum == CHECKSUM_CRC32
        return BinLogPacketWrapper(
            packet, self._tables, self, (8, 0, 0), checksum, allowed, *filters, *flags
        ).event


def _image(row: dict[str, Any], which: str) -> Image:
    sources = row[f"{which}none_sources"]
    absent = frozenset(name for name, source in sources.items() if source == NONE_SOURCE.COLS_BITMAP)
    return Image(row[f"{which}values"], absent)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:60]
