"""Page readers: rows of tables from one connection, as Arrow columns.

A SELECT is prepared, because only prepared statements are answered in the binary protocol, in which no number
is printed: it is executed once, and closed. Its rows go from the socket's bytes into columns without a step
of Python for each, and are handed over in pages while more of them arrive.

Layouts: "Prepared Statements" in MySQL's client/server protocol.

Result columns: whether the columns of a result are those that a table's definition leads to expect.

A table may be altered after its definition was read. What then differs is noticed by the columns, or by the
rows: a DECIMAL with more digits, an ENUM with more values.

Layout: "Column Definition" in MySQL's client/server protocol.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Generator, Iterator
from typing import Any, Self

import pymysql
from pymysql.constants import COMMAND, ER

from canal_group.binlog.charsets.charsets import charset_of
from canal_group.binlog.columns.columns import Losses
from canal_group.binlog.columns.rows import RowsBuilder
from canal_group.binlog.columns.types.column import Extra
from canal_group.binlog.columns.types.table import TYPES
from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.binlog.native.result_rows import read_row, read_rows
from canal_group.binlog.server.definitions.dictionary import ANSWER_S
from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.source import SourceAddress, query, server_error, set_session, translated
from canal_group.binlog.snapshot.page import PAGE_BYTES, Page, PageQuery
from canal_group.binlog.snapshot.selected_table import SelectedTable
from canal_group.binlog.snapshot.sent_value import SentValue
from canal_group.merge.errors import CorruptEvent, SourceUnavailable
from canal_group.merge.values.chunk import TableName, TableRows
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import TABLE, ColumnType

_UNLIMITED = str((1 << 64) - 1)
_ALWAYS = {
    "autocommit": "1",
    "big_tables": "0",
    # Text comes as it is stored.
    "character_set_results": "NULL",
    "completion_type": "'NO_CHAIN'",
    "lock_wait_timeout": str(math.ceil(ANSWER_S)),
    "max_join_size": _UNLIMITED,
    "net_write_timeout": "60",
    "sql_auto_is_null": "0",
    "sql_big_selects": "1",
    "sql_buffer_result": "0",
    "sql_mode": "''",
    "sql_safe_updates": "0",
    "sql_select_limit": _UNLIMITED,
    "time_zone": "'+00:00'",
}
#: of one of the two, or of some of its versions
_IF_KNOWN = {
    "max_execution_time": "0",
    "max_statement_time": "0",
    "query_cache_type": "'OFF'",
    # No rows of the past.
    "system_versioning_asof": "DEFAULT",
}


def prepare_session(address: SourceAddress, connection: pymysql.Connection[Any]) -> None:
    """Set the variables of a session on which pages are read.

    Args:
        address: the server, for errors.
        connection: an open connection to it.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
    """
    query(address, connection, set_session(_ALWAYS))
    names = ", ".join(f"'{name}'" for name in _IF_KNOWN)
    rows = query(address, connection, f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
    known = {str(row["Variable_name"]).lower() for row in rows}
    query(
        address, connection, set_session({name: value for name, value in _IF_KNOWN.items() if name in known})
    )
    query(address, connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


#: catalog, schema, table and column, the latter two with their own name
_NAMES = 6
#: behind their size: collation, length, type byte, flags, digits after the point
_FIXED = struct.Struct("<HIBHB")
_UNSIGNED = 32
_WHOLE = {row.code for row in TABLE if row.storage is Storage.INTEGER}
#: type bytes of strings, which results have in place of each other; 249 to 251 are blobs by their size
_STRINGS: set[int] = {
    row.code for row in TABLE if row.storage in (Storage.CHAR, Storage.VARCHAR, Storage.BLOB, Storage.LIST)
}
_STRINGS |= {249, 250, 251, ColumnType.VAR_STRING}


def fits(definition: bytes, sent: SentValue) -> bool:
    """Return whether a column's definition in a result is that of a column that was selected.

    Raises:
        CorruptEvent: the definition ends early.
    """
    cursor, column = ByteCursor(definition), sent.column
    for _ in range(_NAMES):
        cursor.take(cursor.packed())
    cursor.packed()
    collation, _, kind, flags, _ = _FIXED.unpack(cursor.take(_FIXED.size))
    if kind != sent.type and not {kind, sent.type} <= _STRINGS:
        return False
    match TYPES[column.type].extra:
        case Extra.CHARSET if not column.address:
            return charset_of(collation).name == charset_of(column.collation).name
        case Extra.SIGN if column.type in _WHOLE:
            return bool(flags & _UNSIGNED) == column.unsigned
    return True


#: first bytes of packets
_END, _ERROR = b"\xfe", b"\xff"
#: a longer packet that begins like an end is not one
_END_BYTES_MAX = 8
#: bytes of an error packet before its text: mark, error number, SQL state
_ERROR_HEAD = 9
#: what a server answers to a statement that it has prepared: the statement's number, columns, parameters
_PREPARED = struct.Struct("<xIHH")
#: the statement's number, no cursor, once
_EXECUTE = struct.Struct("<IBI")
#: the table or its schema is gone
GONE = {ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR}
#: a column or an index is gone, or the table was altered after the snapshot of the transaction
ALTERED = {ER.BAD_FIELD_ERROR, ER.KEY_DOES_NOT_EXITS, 1412}
#: what is wrong with a row of a table that was altered since its definition was read
_OTHERWISE = {"bad_decimal", "bad_enum", "bad_list"}


class TableAltered(Exception):  # noqa: N818  it is no error that a table is altered
    """A table is not what its definition says, or is gone; or a condition names a column that it lacks."""


class PageReader:
    """Reads pages of tables from one connection, one SELECT after the other. Not thread-safe.

    A transaction is the caller's: `connection` takes its statements between two SELECTs.

    Args:
        address: the server; it is given up when nothing arrives for its `read_timeout_s`.
        connection: an open connection to it, whose session is changed.
        losses: where values that do not fit their type are counted.

    Raises:
        SourceUnavailable, SourceUnfit: the server does not answer, or refuses.
    """

    def __init__(self, address: SourceAddress, connection: pymysql.Connection[Any], losses: Losses) -> None:
        self.connection = connection
        self._address = address
        self._driver: Any = connection
        self._losses = losses
        #: whether more packets of a result may arrive
        self._is_receiving = False
        prepare_session(address, connection)

    def pages(self, query: PageQuery, *, bytes_max: int = PAGE_BYTES) -> Generator[Page]:
        """Select rows, and yield them in pages; none if there is no row.

        The pages are of one SELECT, without a gap between them. An iterator that is closed before its end
        closes the connection, and so does an error in the middle of the rows that is not the server's own.

        Args:
            query: which rows.
            bytes_max: bytes that its rows hold after which a page ends.

        Raises:
            TableAltered: see there.
            SourceUnavailable, SourceUnfit: the server does not answer in time, or refuses.
            CorruptEvent, UnsupportedEvent: a row cannot be read.
        """
        statement = self._prepare(query)
        try:
            with translated(self._address):
                self._driver._execute_command(  # noqa: SLF001 - no public way
                    COMMAND.COM_STMT_EXECUTE, _EXECUTE.pack(statement, 0, 1)
                )
            self._is_receiving = True
            packets = PacketReader(self._driver._sock, self._address.read_timeout_s)  # noqa: SLF001
            self._read_columns(query.table, packets)
            yield from self._read_rows(query, packets, bytes_max)
        finally:
            if self._is_receiving:
                self.close()
            else:
                self._forget(statement)

    def close(self) -> None:
        """Close the connection; the server ends what it is sending."""
        self._is_receiving = False
        with contextlib.suppress(pymysql.Error, OSError):
            self._driver._force_close()  # noqa: SLF001 - it takes no COM_QUIT while it sends

    def _prepare(self, query: PageQuery) -> int:
        """Prepare a SELECT; return the statement's number."""
        driver, table = self._driver, query.table
        with translated(self._address):
            try:
                driver._execute_command(COMMAND.COM_STMT_PREPARE, query.statement)  # noqa: SLF001
                statement, *counts = _PREPARED.unpack_from(driver._read_packet().get_all_data())  # noqa: SLF001
                # The columns come again with the rows, and there are no parameters.
                for _ in range(sum(count + 1 for count in counts if count)):
                    driver._read_packet()  # noqa: SLF001
            except pymysql.MySQLError as error:
                if error.args and error.args[0] in ALTERED | GONE:
                    raise _altered(table, error.args[0]) from error
                raise
        return int(statement)

    def _forget(self, statement: int) -> None:
        """Close a prepared statement, which the server does not answer."""
        with translated(self._address):
            self._driver._execute_command(  # noqa: SLF001 - no public way
                COMMAND.COM_STMT_CLOSE, struct.pack("<I", statement)
            )

    def _read_columns(self, table: SelectedTable, packets: PacketReader) -> None:
        """Read the columns of a result, and their end.

        Raises:
            TableAltered: they are not those of the table.
        """
        count = ByteCursor(self._await(table, packets)).packed()
        for sent in table.sent[:count]:
            if not fits(self._await(table, packets), sent):
                raise TableAltered(f"{table.source}: column {sent.column.name} is not what it was.")
        if count != len(table.sent) or self._await(table, packets)[:1] != _END:
            raise CorruptEvent(
                f"A SELECT of {len(table.sent)} columns of {table.source} is answered with {count}."
            )

    def _read_rows(self, query: PageQuery, packets: PacketReader, bytes_max: int) -> Iterator[Page]:
        table, size, last = query.table, 0, b""
        rows = _PageRows(table, self._losses)
        while True:
            taken, row = read_rows(packets.buffer, rows, bytes_max - size)
            if not taken:
                packet = self._take(table, packets)
                if packet is None:
                    self._fill(table, packets)
                    continue
                if packet[:1] == _END and len(packet) <= _END_BYTES_MAX:
                    break
                taken, row = read_row(packet, rows), packet
            size, last = size + taken, row
            if size >= bytes_max:
                yield _page(query, rows, last, size)
                full, rows, size = rows, _PageRows(table, self._losses), 0
                rows.expect_as_many(full)
        self._is_receiving = False
        if size:
            yield _page(query, rows, last, size)

    def _await(self, table: SelectedTable, packets: PacketReader) -> bytes:
        """Return the next packet."""
        while (packet := self._take(table, packets)) is None:
            self._fill(table, packets)
        return packet

    def _take(self, table: SelectedTable, packets: PacketReader) -> bytes | None:
        """Return the next packet if it has arrived.

        Raises:
            SourceUnavailable, SourceUnfit, TableAltered: it is an error of the server.
        """
        packet = packets.take()
        if packet is None or packet[:1] != _ERROR:
            return packet
        self._is_receiving = False
        code, text = int.from_bytes(packet[1:3], "little"), packet[_ERROR_HEAD:].decode("utf-8", "replace")
        raise _altered(table, code) if code in ALTERED | GONE else server_error(self._address, code, text)

    def _fill(self, table: SelectedTable, packets: PacketReader) -> None:
        """Wait for more bytes."""
        try:
            packets.fill()
        except SourceUnavailable as error:
            address = self._address
            raise SourceUnavailable(
                f"{address.title} at {address} sends no more rows of {table.source}: {error.message}",
                shard=address.name,
            ) from error


class _PageRows(RowsBuilder):
    """Gathers the rows of one page."""

    def __new__(cls, table: SelectedTable, losses: Losses) -> Self:
        return super().__new__(cls, table.schema, losses)

    def __init__(self, table: SelectedTable, losses: Losses) -> None:
        super().__init__(table.schema, losses)
        self._name = table.source

    def refusal(  # type: ignore[override]  # an altered table is not an error in what was read
        self, fault: str, offset: int
    ) -> Exception:
        """Return the error to raise for a fault at a byte of a row."""
        text = f"A selected row of {self._name} cannot be read ({fault} at byte {offset})."
        return TableAltered(text) if fault in _OTHERWISE else CorruptEvent(text)


def _page(query: PageQuery, rows: _PageRows, last: bytes, size: int) -> Page:
    table, schema = query.table, query.table.schema
    key = table.key_of(last, query.order)
    if key is None:
        raise TableAltered(f"{table.source}: a column of its key has NULL.")
    found = TableRows(schema.name, rows.finish(), TableName(*table.source), schema.special, schema.lineage)
    return Page(found, key, size)


def _altered(table: SelectedTable, code: int) -> TableAltered:
    return TableAltered(f"{table.source} was altered or is gone (error {code}).")
