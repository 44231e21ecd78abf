"""The consumer's view of a table: which of the columns and rows that a source logs a consumer sees.

MariaDB adds columns of its own to what a statement defines, and logs them like the others. It also logs what
becomes of the rows of a system-versioned table in the table with its history: a row that is updated gives an
update and an insert of the row as it was, one that is deleted an update of the end of its period.

- No consumer sees hashes of UNIQUE keys: no query shows them.
- Without history, consumers have what SELECT * returns: current rows, and no columns of an implicit period. A
  row that ends is a delete, and the end of its period does not belong to the key.
- With history they have what SELECT FOR SYSTEM_TIME ALL returns, with the columns of an implicit period.

Ordinals are the parser's, see `processing`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.actors.sink.images import Images, put_together, within
from canal_group.actors.sink.processing import counted
from canal_group.merge.errors import DataError
from canal_group.merge.values.chunk import ABSENT, PRIMARY_KEY, Chunk, SpecialColumns, TableRows, rows_schema

#: the end of the period of a current row: the greatest TIMESTAMP(6), before MariaDB 11.5 and since, in
#: microseconds since 1970
_NEVER_US = np.array([2**31 * 10**6 - 1, 2**32 * 10**6 - 1])
#: the same where a period is of transaction ids, as an int64
_NEVER_ID = np.array([-1])


class History(StrEnum):
    """What becomes of the history of system-versioned tables."""

    DROP = "drop"
    KEEP = "keep"


class ConsumerView:
    """Which columns and rows consumers see.

    Args:
        history: whether they see the history of system-versioned tables.
    """

    def __init__(self, history: History) -> None:
        self._history = history

    def indexes(self, columns: Sequence[str], special: SpecialColumns | None) -> list[int]:
        """Return the indexes of a table's columns that a consumer sees.

        Args:
            columns: names of the columns that the source logs.
            special: those of them that MariaDB fills itself.
        """
        if special is None:
            return list(range(len(columns)))
        unseen = {*special.hashes, *(() if self._history is History.KEEP else special.implicit_period)}
        return [index for index, name in enumerate(columns) if name not in unseen]

    def columns(self, columns: pa.Schema, special: SpecialColumns | None) -> pa.Schema:
        """Return the logged columns that a consumer sees."""
        return pa.schema([columns.field(index) for index in self.indexes(columns.names, special)])

    def apply(self, chunk: Chunk) -> Chunk:
        """Return a chunk with what a consumer sees of its rows; its headers count only that.

        Raises:
            DataError: an image does not say whether its row is current.
        """
        if all(table.special is None for table in chunk.tables):
            return chunk
        tables = tuple(self._of_table(table) for table in chunk.tables)
        return replace(
            chunk,
            headers=counted(chunk.headers, tables, chunk.statements),
            tables=tuple(table for table in tables if table.rows.num_rows),
        )

    def _of_table(self, table: TableRows) -> TableRows:
        special, rows = table.special, table.rows
        if special is None:
            return table
        columns = list(rows.schema.field("after").type)
        names = [column.name for column in columns]
        op: NDArray[np.uint8] = rows.column("_op").to_numpy()
        images = {side: Images.of(rows, side) for side in ABSENT}
        key = json.loads(rows.schema.metadata[PRIMARY_KEY])
        if special.row_end and self._history is History.DROP:
            end = names.index(special.row_end)
            inside = {side: _current(image, end, table) for side, image in images.items()}
            rows, op, images = within(rows, op, images, inside)
            key = [name for name in key if name != special.row_end]
        indexes = self.indexes(names, special)
        schema = rows_schema([columns[index] for index in indexes], json.dumps(key).encode())
        before, after = (images[side].only(indexes) for side in ABSENT)
        rows = put_together(rows, pa.array(op, pa.uint8()), schema, before, after)
        return replace(table, rows=rows, special=None)


def _current(image: Images, end: int, table: TableRows) -> NDArray[np.bool_]:
    """Return which images are of current rows: (n,) bool. `end` is the index of their period's end."""
    if image.absent is not None and (image.absent[:, end] & image.present).any():
        name = table.source or table.name
        raise DataError(
            f"A row image of {name} lacks the end of the row's period: it may be current, or history.",
            hint="SET GLOBAL binlog_row_image = FULL; and start after what is logged already, or set "
            "filter.history to keep.",
            table=str(name),
        )
    if image.missing:
        return image.present
    ends = image.columns[end]
    never = _NEVER_US if pa.types.is_timestamp(ends.type) else _NEVER_ID
    current: NDArray[np.bool_] = np.isin(ends.cast(pa.int64(), safe=False).fill_null(0).to_numpy(), never)
    return current & image.present
