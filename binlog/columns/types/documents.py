"""Documents: values with a length and a format of their own: JSON, lists of numbers, geometries."""

from __future__ import annotations

from collections.abc import Callable

from canal_group.binlog.columns.types.column import Extra, Stored, sized
from canal_group.binlog.columns.types.strings import LENGTHS
from canal_group.merge.values.types.kinds import Storage
from canal_group.merge.values.types.table import TABLE, TypeRow

#: names of the geometry types, by their number in a table map
GEOMETRY_NAMES = {row.geometry: row.name for row in reversed(TABLE) if row.geometry is not None}


def _document(kind: str) -> Callable[[TypeRow], Stored]:
    """Return the function of a kind of `ColumnPlan`."""

    def stored(row: TypeRow) -> Stored:
        return Stored(
            row.code,
            lambda column: (column.geometry or row.name) + row.comment,
            lambda _: row.arrow,
            lambda column: (kind, column.size, row.unit, ()),
            meta_size=1,
            read=sized,
            possible=lambda column: column.size in LENGTHS,
            extra=Extra.NOTHING if row.geometry is None else Extra.GEOMETRY,
        )

    return stored


#: storage -> how values of a row of it are stored
STORED = {
    Storage.JSON: _document("json"),
    Storage.LIST: _document("list"),
    Storage.BYTES: _document("string"),
}
