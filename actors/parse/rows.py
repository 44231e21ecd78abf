"""Rows: the images in rows events, read by mysql-replication. The seam to it; nothing else imports it.

`RowsBuilder` is the contract: it is given the rows events of one table version, one after the other, and
gives back their record batch. Another decoder replaces this file and keeps the class.

mysql-replication is handed the images only, and is asked for stored values rather than for its own reading of
them, which loses the sign of negative fractions, adds 1900 to the year 0, decodes by guess and trims
binaries.
It is asked by describing a column to it as one whose bytes it passes on as they are:

    strings, JSON, GEOMETRY, VECTOR    of a charset that Python does not know: comes back as bytes
    ENUM, SET, YEAR, DATE              as unsigned integers of their size
    TIME, DATETIME, TIMESTAMP          as BIT of their size: comes back as the digits of a big-endian number
"""

from __future__ import annotations

import decimal
import struct
from typing import Any

import pyarrow as pa
from pymysqlreplication.column import Column as ForeignColumn
from pymysqlreplication.constants import FIELD_TYPE
from pymysqlreplication.packet import BinLogPacketWrapper
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from pymysqlreplication.table import Table as ForeignTable

from actors.parse.columns import Losses, TableSchema, array_of, fraction_size
from actors.parse.event_types import ROWS_V2, UPDATES, WRITES
from actors.parse.table_map import Column, ColumnType, parse_rows_head
from merge.chunk import Op
from merge.errors import CorruptEvent, UnsupportedEvent

Image = tuple[Any, ...]

_RAW_CHARSET = "stored-bytes"  # unknown to Python on purpose: the bytes come back as they are
_UNSIGNED_BY_SIZE = {
    1: FIELD_TYPE.TINY,
    2: FIELD_TYPE.SHORT,
    3: FIELD_TYPE.INT24,
    4: FIELD_TYPE.LONG,
    8: FIELD_TYPE.LONGLONG,
}
_STORED_SIZE = {
    ColumnType.YEAR: 1,
    ColumnType.DATE: 3,
    ColumnType.TIMESTAMP: 4,
    ColumnType.DATETIME: 8,
}
_WHOLE_SIZE = {ColumnType.TIME2: 3, ColumnType.DATETIME2: 5, ColumnType.TIMESTAMP2: 4}


class RowsBuilder:
    """Gathers the rows of one table version for one chunk.

    Args:
        table: the table as selected and described by its table map.
        losses: where values that do not fit their type are counted.
    """

    def __init__(self, table: TableSchema, losses: Losses) -> None:
        self._table = table
        self._losses = losses
        self._columns = [_foreign(index, column) for index, column in enumerate(table.map.columns)]
        self._bits = [index for index, column in enumerate(self._columns) if column.type == FIELD_TYPE.BIT]
        self._strings = [
            index
            for index, column in enumerate(self._columns)
            if column.type in (FIELD_TYPE.STRING, FIELD_TYPE.BLOB)
        ]
        self._headers: list[int] = []
        self._ordinals: list[int] = []
        self._ops: list[int] = []
        self._before: list[Image | None] = []
        self._after: list[Image | None] = []

    def add(
        self,
        event_type: int,
        body: bytes,
        *,
        post_header_size: int,
        header: int,
        row_begin: int,
        skip: int = 0,
    ) -> int:
        """Read one rows event.

        Args:
            event_type: its type.
            body: the event without header and checksum.
            post_header_size: bytes of its fixed part, as the format description says.
            header: index of the transaction's header in the chunk.
            row_begin: ordinal of the event's first row in the transaction.
            skip: rows at its beginning that were handed over before.

        Returns:
            How many rows the event holds, skipped ones too.

        Raises:
            UnsupportedEvent: the images do not hold every column; nothing was added.
            CorruptEvent: the images do not fill the event, or are not what the table map says; nothing was
            added.
        """
        rows = self._read(event_type, body, post_header_size)
        op = Op.INSERT if event_type in WRITES else Op.UPDATE if event_type in UPDATES else Op.DELETE
        for index, (before, after) in enumerate(rows[skip:], start=skip):
            self._headers.append(header)
            self._ordinals.append(row_begin + index)
            self._ops.append(op)
            self._before.append(before)
            self._after.append(after)
        return len(rows)

    def discard(self, header: int) -> None:
        """Take back the rows of a header that turned out not to have happened; it must be the last one."""
        keep = len(self._headers)
        while keep and self._headers[keep - 1] == header:
            keep -= 1
        gathered: tuple[list[Any], ...] = (
            self._headers,
            self._ordinals,
            self._ops,
            self._before,
            self._after,
        )
        for values in gathered:
            del values[keep:]

    def finish(self) -> Any:
        """Return the gathered rows as one record batch, see `merge.chunk`.

        Raises:
            CorruptEvent: a stored value is none of its column's type.
        """
        try:
            return self._finish()
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            name = f"{self._table.map.schema}.{self._table.map.table}"
            raise CorruptEvent(f"Values of {name} do not fit their columns ({error}).") from error

    def _finish(self) -> Any:
        schema = self._table.arrow
        return pa.RecordBatch.from_arrays(
            [
                pa.array(self._headers, type=pa.int32()),
                pa.array(self._ordinals, type=pa.int64()),
                pa.array(self._ops, type=pa.uint8()),
                self._images(schema.field("before").type, self._before),
                self._images(schema.field("after").type, self._after),
            ],
            schema=schema,
        )

    def _images(self, struct_type: Any, images: list[Image | None]) -> Any:
        if all(image is None for image in images):
            return pa.nulls(len(images), type=struct_type)
        columns = self._table.map.columns
        arrays = [
            array_of(
                column, arrow, [None if image is None else image[index] for image in images], self._losses
            )
            for index, (column, arrow) in enumerate(zip(columns, self._table.types, strict=True))
        ]
        absent = pa.array([image is None for image in images])
        return pa.StructArray.from_arrays(arrays, fields=list(struct_type), mask=absent)

    def _read(
        self, event_type: int, body: bytes, post_header_size: int
    ) -> list[tuple[Image | None, Image | None]]:
        table, update = self._table.map, event_type in UPDATES
        head = parse_rows_head(
            body, version=2 if event_type in ROWS_V2 else 1, update=update, post_header_size=post_header_size
        )
        if head.column_count != len(table.columns):
            raise CorruptEvent(
                f"Rows of {table.schema}.{table.table} have {head.column_count} columns, "
                f"their table map has {len(table.columns)}."
            )
        if not head.full:
            raise UnsupportedEvent(
                f"Rows of {table.schema}.{table.table} do not hold every column.",
                hint="SET GLOBAL binlog_row_image = FULL; (any session may set it too), "
                "and start behind what is logged already.",
            )
        try:
            return self._foreign_rows(event_type, body, head.table_id)
        except (struct.error, IndexError, TypeError, ValueError, decimal.InvalidOperation) as error:
            raise CorruptEvent(
                f"Rows of {table.schema}.{table.table} cannot be read ({type(error).__name__}: {error})."
            ) from error

    def _foreign_rows(
        self, event_type: int, body: bytes, table_id: int
    ) -> list[tuple[Image | None, Image | None]]:
        packet = _Packet(event_type, body)
        foreign_class = (
            WriteRowsEvent
            if event_type in WRITES
            else UpdateRowsEvent
            if event_type in UPDATES
            else DeleteRowsEvent
        )
        table = ForeignTable(table_id, self._table.map.schema, self._table.map.table, self._columns)
        event = foreign_class(packet, len(body), {table_id: table}, _NoConnection, **_NO_FILTERS)
        rows = event.rows
        if packet.read_bytes != len(body):
            raise ValueError(f"{len(body)} bytes expected, {packet.read_bytes} read")
        if event_type in UPDATES:
            return [(self._image(row["before_values"]), self._image(row["after_values"])) for row in rows]
        if event_type in WRITES:
            return [(None, self._image(row["values"])) for row in rows]
        return [(self._image(row["values"]), None) for row in rows]

    def _image(self, values: dict[str, Any]) -> Image:
        image = list(values.values())
        for index in self._strings:
            if image[index] == "":  # no bytes are decoded without a look at the charset
                image[index] = b""
        for index in self._bits:
            if image[index] is not None:
                image[index] = int(image[index], 2)
        return tuple(image)


def _foreign(index: int, column: Column) -> Any:  # noqa: PLR0911 - one branch a type
    """Return mysql-replication's description of a column, such that it hands on what is stored."""
    common = {
        "name": str(index),
        "unsigned": column.unsigned,
        "is_primary": False,
        "character_set_name": _RAW_CHARSET,
        "enum_values": None,
        "set_values": None,
    }
    kind, size = column.type, column.size
    match kind:
        case ColumnType.BLOB | ColumnType.JSON | ColumnType.GEOMETRY | ColumnType.VECTOR:
            return ForeignColumn(**common, type=FIELD_TYPE.BLOB, length_size=size)
        case ColumnType.VARCHAR | ColumnType.STRING | ColumnType.VAR_STRING:
            return ForeignColumn(**common, type=FIELD_TYPE.STRING, max_length=size)
        case ColumnType.NEWDECIMAL:
            return ForeignColumn(
                **common, type=int(kind), precision=column.precision, decimals=column.decimals
            )
        case ColumnType.BIT:
            return ForeignColumn(**common, type=FIELD_TYPE.BIT, bits=size, bytes=(size + 7) // 8)
        case ColumnType.TIME2 | ColumnType.DATETIME2 | ColumnType.TIMESTAMP2:
            stored = _WHOLE_SIZE[kind] + fraction_size(column.decimals)
            return ForeignColumn(**common, type=FIELD_TYPE.BIT, bits=8 * stored, bytes=stored)
        case ColumnType.ENUM | ColumnType.SET:
            return ForeignColumn(**{**common, "unsigned": True}, type=_UNSIGNED_BY_SIZE[size])
        case ColumnType.YEAR | ColumnType.DATE | ColumnType.TIMESTAMP | ColumnType.DATETIME:
            return ForeignColumn(**{**common, "unsigned": True}, type=_UNSIGNED_BY_SIZE[_STORED_SIZE[kind]])
        case ColumnType.TIME:
            return ForeignColumn(**{**common, "unsigned": False}, type=FIELD_TYPE.INT24)
        case _:
            return ForeignColumn(**common, type=int(kind), size=size)


class _Bytes:
    """What mysql-replication needs of a PyMySQL packet; reading past the end is an error."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read(self, size: int) -> bytes:
        begin, self._position = self._position, self._position + size
        if self._position > len(self._data):
            raise IndexError(f"{self._position} bytes wanted of {len(self._data)}")
        return self._data[begin : self._position]

    def advance(self, size: int) -> None:
        self.read(size)


class _Packet(BinLogPacketWrapper):  # type: ignore[misc]
    """mysql-replication's reader over one event's body; its own constructor would read a header first."""

    def __init__(self, event_type: int, body: bytes) -> None:
        self.read_bytes = 0
        self._BinLogPacketWrapper__data_buffer = b""
        self.packet = _Bytes(body)
        self.event_type = int(event_type)
        self.timestamp = 0


class _NoConnection:
    """Stands for the control connection: asked for the kind of server only."""

    @staticmethod
    def _get_dbms() -> str:
        return "mysql"


_NO_FILTERS: dict[str, Any] = {
    "only_tables": None,
    "ignored_tables": None,
    "only_schemas": None,
    "ignored_schemas": None,
}
