"""The global ids that a shard's transactions write, for a group that is ordered by id (`merge.order_by`).

A row writes an id if it is inserted with one, or if an update gives it another one. A deleted row, an updated
one that keeps its id, and one that a snapshot read write none: that id was generated for an earlier
transaction. NULL is not an id. A header gets the greatest id that its rows write.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.actors.sink.sink import TABLES_MAX
from canal_group.merge.errors import DataError
from canal_group.merge.order.id_timeline import ID_MAX
from canal_group.merge.rows.pattern import Pattern
from canal_group.merge.values.chunk import Chunk, Op, TableName, TableRows
from canal_group.merge.values.rows.absent import absent_in


class OrderIds:
    """Sets the ids of headers.

    Args:
        shard: its name, for errors.
        columns: regular expression on `schema.table` as consumers see it -> the column that holds the ids;
            the first that matches applies.
    """

    def __init__(self, shard: str, columns: Mapping[str, str]) -> None:
        self._shard = shard
        self._columns = [(Pattern(pattern), column) for pattern, column in columns.items()]
        self._column_of = lru_cache(maxsize=TABLES_MAX)(self._find)

    def give(self, chunk: Chunk) -> None:
        """Set `order_id` of a chunk's headers, in place.

        Raises:
            DataError: a table lacks the column, the column is not an integer, or an id cannot order its row.
        """
        for table in chunk.tables:
            column = self._column_of(table.name)
            if column is None or not table.rows.num_rows:
                continue
            headers = table.rows.column("_header").to_numpy()
            ids, writes = self._written(chunk, table, column)
            order_ids = np.zeros(len(chunk.headers), dtype=np.int64)
            np.maximum.at(order_ids, headers[writes], ids[writes].astype(np.int64))
            chunk.headers["order_id"] = np.maximum(chunk.headers["order_id"], order_ids)

    def _find(self, name: TableName) -> str | None:
        matching = (column for pattern, column in self._columns if pattern.groups(str(name)) is not None)
        return next(matching, None)

    def _written(
        self, chunk: Chunk, table: TableRows, column: str
    ) -> tuple[NDArray[np.integer[Any]], NDArray[np.bool_]]:
        """Return for each row the value of the column, and whether the row writes it as an id."""
        rows = table.rows
        index = self._index(chunk, table, column)
        before, after = (pc.struct_field(rows.column(image), [index]) for image in ("before", "after"))
        op = rows.column("_op").to_numpy()
        absent = absent_in(rows, "after")
        if absent is not None and (lacking := (op == Op.INSERT) & absent[:, index]).any():
            raise self._error(
                chunk,
                table,
                f"a row is inserted into {table.name} whose {column} the source did not log",
                "Set binlog_row_image to FULL at the source, or let the statements give the column a value.",
                int(np.argmax(lacking)),
            )
        # What the image before does not say is null in it: then the update did write the column.
        unchanged = pc.fill_null(pc.equal(before, after), False).to_numpy(zero_copy_only=False)
        has_one = pc.is_valid(after).to_numpy(zero_copy_only=False)
        writes = has_one & ((op == Op.INSERT) | ((op == Op.UPDATE) & ~unchanged))
        ids = pc.fill_null(after, 0).to_numpy()
        wrong = writes & ((ids < 1) | (ids > ID_MAX))
        if wrong.any():
            first = int(np.argmax(wrong))
            raise self._error(
                chunk,
                table,
                f"{column} of a row in {table.name} is not an id, which is from 1 to {ID_MAX}",
                "Name a column of global ids in merge.order_by, or continue after this transaction.",
                first,
            )
        return ids, writes

    def _index(self, chunk: Chunk, table: TableRows, column: str) -> int:
        image = table.rows.schema.field("after").type
        index = image.get_field_index(column)
        hint = "Correct merge.order_by: it names a column of integers in each table that it matches."
        if index < 0:
            names = ", ".join(field.name for field in image)
            raise self._error(chunk, table, f"{table.name} has no column {column}, but {names}", hint, 0)
        if not pa.types.is_integer(image.field(index).type):
            kind = image.field(index).type
            raise self._error(
                chunk, table, f"column {column} of {table.name} is not an integer, but {kind}", hint, 0
            )
        return int(index)

    def _error(self, chunk: Chunk, table: TableRows, what: str, hint: str, row: int) -> DataError:
        header = chunk.headers[table.rows.column("_header")[row].as_py()]
        file, offset = chunk.names[header["file"]], int(header["begin_offset"])
        return DataError(
            f"Shard {self._shard} cannot be ordered by id at {file}:{offset}: {what}.",
            hint=hint,
            shard=self._shard,
            file=file,
            offset=offset,
        )
