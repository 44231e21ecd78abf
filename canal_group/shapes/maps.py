"""Maps: what Arrow does not say of a column of maps from column name to text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def row_of_entries(maps: Any) -> NDArray[np.int64]:
    """Return the row of each entry of (n,) maps: (entries,) int64, ascending.

    The maps begin at the first of their entries, as `tidy` makes them.
    """
    return np.repeat(np.arange(len(maps)), np.diff(maps.offsets.to_numpy()))


def tidy(maps: Any) -> Any:
    """Return one MapArray whose entries are those of its rows and no others; null maps have none.

    A slice of a MapArray shares the entries of the whole.
    """
    array = maps.combine_chunks() if isinstance(maps, pa.ChunkedArray) else maps
    offsets = array.offsets.to_numpy()
    if not array.offset and not int(offsets[0]) and len(array.keys) == int(offsets[-1]):
        return array
    return array.take(pa.array(np.arange(len(array))))


def tidied(rows: pa.Table) -> pa.Table:
    """Return a table in one chunk, whose maps are tidy."""
    rows = rows.unify_dictionaries().combine_chunks()
    for index, field in enumerate(rows.schema):
        if pa.types.is_map(field.type):
            rows = rows.set_column(index, field, tidy(rows.column(index)))
    return rows


def value_of(maps: Any, name: str) -> Any:
    """Return the value of a column by name, whatever its case, in each of (n,) maps: utf8, null if missing.

    Args:
        maps: a tidy MapArray.
        name: the column.
    """
    distinct = pc.dictionary_encode(maps.keys)
    matches = np.array([key.lower() == name.lower() for key in distinct.dictionary.to_pylist()], np.bool_)
    entries = np.flatnonzero(matches[distinct.indices.to_numpy()]) if len(matches) else np.empty(0, np.int64)
    entry_of_row = np.full(len(maps), -1, np.int64)
    entry_of_row[row_of_entries(maps)[entries]] = entries
    return maps.items.take(pa.array(entry_of_row, mask=entry_of_row < 0))
