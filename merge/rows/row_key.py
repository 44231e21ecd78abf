"""Row keys: which row changes of a table concern the row of a primary key, given as text."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.merge.errors import UsageError
from canal_group.merge.rows.text import text
from canal_group.merge.values.chunk import PRIMARY_KEY, TableName, mysql_type_of

_EXPECTED = "Expected TABLE:KEY, such as shop.orders:42, or shop.items:42,7 for a key of two columns."


@dataclass(frozen=True, slots=True)
class RowKey:
    """A row of a table, by its primary key."""

    table: TableName
    #: the key's value; of a key of several columns, their values in its order, separated by commas
    value: str

    @classmethod
    def parse(cls, argument: str) -> RowKey:
        """Return the row that `schema.table:value` names.

        Raises:
            UsageError: the text names none.
        """
        name, _, value = argument.partition(":")
        schema, _, table = name.partition(".")
        if not (schema and table and value):
            raise UsageError(f"{argument!r} names no row of a table.", hint=_EXPECTED)
        return cls(TableName(schema, table), value)

    def changes(self, rows: pa.RecordBatch) -> NDArray[np.bool_] | None:
        """Return which row changes concern the row: its image before or after has the key.

        Args:
            rows: (n,) row changes of the table in one schema version, see
                `canal_group.merge.values.chunk.rows_schema`.

        Returns:
            (n,) values; None if the primary key of that version is unknown.

        Raises:
            UsageError: the table's key has another number of columns.
        """
        columns = json.loads((rows.schema.metadata or {}).get(PRIMARY_KEY, b"[]"))
        if not columns:
            return None
        values = [self.value] if len(columns) == 1 else self.value.split(",")
        if len(values) != len(columns):
            raise UsageError(
                f"The primary key of {self.table} has {len(columns)} columns ({', '.join(columns)}), and "
                f"{self.value!r} has {len(values)} values.",
                hint=_EXPECTED,
            )
        matches = np.zeros(rows.num_rows, dtype=bool)
        for image in ("before", "after"):
            same = np.ones(rows.num_rows, dtype=bool)
            for column, value in zip(columns, values, strict=True):
                field = rows.schema.field(image).type.field(column)
                texts = text(pc.struct_field(rows.column(image), [column]), mysql_type_of(field))
                same &= np.asarray(pc.fill_null(pc.equal(texts, value), fill_value=False))
            matches |= same
        return matches
