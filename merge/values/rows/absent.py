"""Absent columns: what an image does not say.

A server may log less of a row than the whole of it: with `binlog_row_image` MINIMAL or NOBLOB. Such rows come
all the same. A column that an image does not say is null in it and marked as absent, because null would be a
value. What absent means:

    after an UPDATE    it was not changed, and the image before does not say it either
    before an UPDATE   it is not needed to find the row
    a DELETE           likewise
    an INSERT          the statement gave no value: it has its default

A VIRTUAL column says nothing by being absent: MariaDB does not log it with MINIMAL, whatever becomes of it.
`canal_group.merge.values.chunk` says how it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from canal_group.merge.values.chunk import ABSENT

#: (rows, columns) whether a row's image does not say the column; None: it says all of them, in every row
Absent: TypeAlias = NDArray[np.bool_] | None

NAMES = pa.list_(pa.utf8())


def absent_in(rows: Any, image: str) -> Absent:
    """Return the columns that the images `before` or `after` of n row changes lack.

    Args:
        rows: (n,) RecordBatch or Table, see `canal_group.merge.values.chunk`.
        image: which of them.
    """
    name = ABSENT[image]
    if name not in rows.schema.names or not len(rows):
        return None
    column = rows.column(name)
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    width, columns = array.type.byte_width, len(rows.schema.field("after").type)
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width :][: len(array) * width]
    absent = np.unpackbits(data.reshape(-1, width), axis=1, count=columns, bitorder="little").astype(np.bool_)
    return absent if absent.any() else None


def absent_names(absent: Absent, columns: Sequence[str], count: int) -> Any:
    """Return the names of the columns that each of `count` rows does not say.

    Returns:
        (count,) ListArray of utf8; null where every column is known.
    """
    if absent is None:
        return pa.nulls(count, NAMES)
    ends = np.cumsum(absent.sum(axis=1), dtype=np.int32)
    offsets = np.concatenate((np.zeros(1, np.int32), ends))
    names = pa.array(columns, pa.utf8()).take(pa.array(np.nonzero(absent)[1]))
    return pa.ListArray.from_arrays(pa.array(offsets), names, mask=pa.array(~absent.any(axis=1)))
