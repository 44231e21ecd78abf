"""Rows: the images in rows events, gathered as columns.

`RowsBuilder` takes the rows events of one table version, one after the other, and returns their record batch.
`native.images` reads the bytes; this module turns its faults into errors, and its buffers into Arrow arrays.
"""

from __future__ import annotations

import sys
from typing import Any, Self

import pyarrow as pa

from canal_group.binlog.columns.columns import Losses, TableSchema, array_of
from canal_group.binlog.columns.types import moments
from canal_group.binlog.formats.event_types import ROWS, ROWS_V1, UPDATES, WRITES, EventType
from canal_group.binlog.native.images import Block, RowBuffers
from canal_group.binlog.native.shapes import SideBuffers
from canal_group.merge.errors import CorruptEvent, DataError, UnsupportedEvent
from canal_group.merge.values.chunk import Op, absent_type, partial_schema
from canal_group.merge.values.types.table import TABLE

#: event type -> operation of the event's rows, and version of the event's layout
_KINDS: dict[int, tuple[int, int]] = {
    int(each): (
        int(Op.INSERT if each in WRITES else Op.UPDATE if each in UPDATES else Op.DELETE),
        1 if each in ROWS_V1 else 3 if each is EventType.PARTIAL_UPDATE_ROWS else 2,
    )
    for each in ROWS
}
_CORRUPT = {
    "truncated": "end inside a value",
    "bad_head": "contradict themselves in their fixed part",
    "bad_decimal": "hold a DECIMAL with digits over 9",
    "bad_enum": "hold an ENUM index that its column does not have",
    "bad_json": "hold a JSON value that cannot be read",
    "bad_difference": "hold a JSON difference that cannot be read, or does not fit its document",
    "bad_moment": "hold a date or time with impossible digits",
    "bad_packed": "hold a compressed value that cannot be unpacked",
}
_OLD_POST_HEADER_SIZE = 6
_OLD_TEMPORAL_HINT = (
    "MariaDB may store fractions of its times in the old format (mysql56_temporal_format=OFF, or a table "
    "made before 10.1) and does not log their digits. With it ON, ALTER TABLE ... FORCE; rewrites the table. "
    "For files, name a server that has the table as lookup: it may know the digits."
)
_LIST_HINT = (
    "MariaDB logs a {list} as VARBINARY, and a lookup says which of the two a column is now. If it became a "
    "{list} after these rows were written, leave the table out, or read the files without lookup."
)
#: types of lists, of which each value is a whole number of elements
_LISTS = {row.code: row for row in TABLE if row.unit}


class RowsBuilder(RowBuffers):
    """Gathers the rows of one table version for one chunk. Not thread-safe.

    Args:
        table: the table as selected and described by its table map.
        losses: where values that do not fit their type are counted.
    """

    def __new__(cls, table: TableSchema, _losses: Losses) -> Self:  # noqa: D102 - see the class
        return super().__new__(cls, table.layout)

    def __init__(self, table: TableSchema, losses: Losses) -> None:
        self._table = table
        self._losses = losses
        #: bytes by which text has grown that became UTF-8, or was printed, in `finish`
        self.grown = 0

    def add(
        self,
        event_type: int,
        body: bytes,
        *,
        post_header_size: int,
        header: int,
        row_begin: int,
        skip: int = 0,
        held_max: int = sys.maxsize,
        rest_at: int = 0,
    ) -> int:
        """Read one rows event, or the beginning of one; `rest_at` says whether rows are left.

        Args:
            event_type: its type.
            body: the event without header and checksum.
            post_header_size: bytes of its fixed part, as the format description says.
            header: index of the transaction's header in the chunk.
            row_begin: ordinal of the event's first row in the transaction.
            skip: how many rows at its beginning were handed over before.
            held_max: it ends after the row that makes the added rows hold as many bytes.
            rest_at: `rest_at` of the call before, to read on; 0: from the first row on.

        Returns:
            How many rows were read, skipped ones too.

        Raises:
            UnsupportedEvent: a change inside a JSON document comes without the document, or the images are
                too large, or a row is; nothing was added.
            CorruptEvent: the images do not fill the event, or contradict the table map; nothing was added.
        """
        op, version = _KINDS[event_type]
        id_size = 4 if post_header_size == _OLD_POST_HEADER_SIZE else 6
        return self.append(body, op, version, id_size, header, row_begin, skip, held_max, rest_at)

    def refusal(self, fault: str, offset: int) -> DataError:
        """Return the error to raise for a fault at a byte of an event's body."""
        table = self._table.map
        rows = f"Rows of {table.schema}.{table.table}"
        if fault == "no_document":
            return UnsupportedEvent(
                f"{rows} say what changed inside a JSON document, but lack the document before the change.",
                hint="SET GLOBAL binlog_row_image = FULL; or SET GLOBAL binlog_row_value_options = ''; "
                "(any session may set them too), and start after what is logged already.",
            )
        if fault == "value_options":
            return UnsupportedEvent(
                f"{rows} are stored with an unknown binlog_row_value_options.",
                hint="SET GLOBAL binlog_row_value_options = ''; (any session may set it too), "
                "and start after what is logged already.",
            )
        if fault == "too_large":
            return _too_large(rows)
        if fault == "row_too_large":
            return UnsupportedEvent(
                f"A row of {table.schema}.{table.table} holds more than {self.row_bytes_max} bytes; its "
                f"value of column {table.columns[self.large_column].name} alone has {self.large_bytes} "
                f"(byte {offset} after the event's header).",
                hint="Skip the event, or leave the table out; store such values in smaller rows.",
                row_bytes=self.large_bytes,
                row_bytes_max=self.row_bytes_max,
            )
        if fault == "column_count":
            return CorruptEvent(
                f"{rows} do not have the {len(table.columns)} columns that their table map has."
            )
        if fault == "bad_list":
            row = next(_LISTS[column.type] for column in table.columns if column.type in _LISTS)
            what = f"hold a {row.name.upper()} whose size is not a multiple of {row.unit}"
            hint = _LIST_HINT.format(list=row.name.upper())
        else:
            vague = any(column.type in moments.OLD and not column.decimals for column in table.columns)
            what, hint = _CORRUPT[fault], _OLD_TEMPORAL_HINT if vague else ""
        return CorruptEvent(f"{rows} {what} (byte {offset} after the event's header).", hint=hint)

    def finish(self) -> Any:
        """Return the gathered rows as one record batch; call it once, at the end.

        See `canal_group.merge.values.chunk`.

        Raises:
            UnsupportedEvent: a column's text has more than 2 GiB.
        """
        try:
            return self._finish()
        except OverflowError as error:
            raise _too_large(f"Rows of {self._table.map.schema}.{self._table.map.table}") from error

    def _finish(self) -> Any:
        rows, schema = len(self), self._table.arrow
        self._losses.zero_dates += self.zero_dates
        absent = self._absent(self.take_absent())
        before = self._images(schema.field("before").type, self.take_side(after=False))
        after = self._images(schema.field("after").type, self.take_side(after=True))
        heads = [
            pa.Array.from_buffers(each.type, rows, [None, pa.py_buffer(block)], 0)
            for each, block in zip(schema, self.take_heads(), strict=False)
        ]
        arrays = [*heads, before, after, *absent]
        return pa.RecordBatch.from_arrays(arrays, schema=partial_schema(schema) if absent else schema)

    def _absent(self, bitmaps: tuple[Block, Block] | None) -> list[Any]:
        kind = absent_type(len(self._table.readings))
        return [
            pa.Array.from_buffers(kind, len(self), [None, pa.py_buffer(block)], 0) for block in bitmaps or ()
        ]

    def _images(self, struct_type: Any, side: SideBuffers | None) -> Any:
        rows = len(self)
        if side is None:
            return pa.nulls(rows, type=struct_type)
        present, absent, columns = side
        arrays = [
            array_of(reading, rows, buffers, self._losses)
            for reading, buffers in zip(self._table.readings, columns, strict=True)
        ]
        for reading, array, (*_, data) in zip(self._table.readings, arrays, columns, strict=True):
            if data is not None and (reading.text or reading.printer):
                self.grown += max(0, array.buffers()[2].size - len(data))
        validity = None if present is None else pa.py_buffer(present)
        return pa.Array.from_buffers(struct_type, rows, [validity], absent, children=arrays)


def _too_large(rows: str) -> UnsupportedEvent:
    return UnsupportedEvent(
        f"{rows} hold more than 2 GiB in one column.",
        hint="Change fewer rows with such values in one statement, or leave the table out.",
    )
