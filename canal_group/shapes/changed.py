"""Changed columns: the entries of each before image that its after image has otherwise, canal's `old`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.shapes.maps import row_of_entries


def changed(before: Any, after: Any) -> Any:
    """Return the entries of each map `before` that differ in `after`, or are missing there.

    Each row is compared by itself. A null map has no entries.

    Args:
        before: (n,) MapArray of text by column name.
        after: (n,) MapArray of text by column name.

    Returns:
        (n,) MapArray without nulls.
    """
    rows = row_of_entries(before)
    same = _aligned(before, after) if _is_aligned(before, after) else _joined(before, after, rows)
    differs = ~same
    sizes = np.bincount(rows[differs], minlength=len(before))
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    indexes = pa.array(np.flatnonzero(differs))
    return pa.MapArray.from_arrays(pa.array(offsets), before.keys.take(indexes), before.items.take(indexes))


def _is_aligned(before: Any, after: Any) -> bool:
    """Return whether both sides have the same columns at the same indexes, as images of full rows do."""
    return bool(before.offsets.equals(after.offsets) and before.keys.equals(after.keys))


def _aligned(before: Any, after: Any) -> NDArray[np.bool_]:
    both_null = pc.and_(pc.is_null(before.items), pc.is_null(after.items))
    return _numpy(pc.or_(pc.fill_null(pc.equal(before.items, after.items), False), both_null))


def _joined(before: Any, after: Any, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    news = pa.table(
        {
            "row": row_of_entries(after),
            "key": after.keys,
            "now": after.items,
            "is": np.ones(len(after.keys), np.int8),
        }
    )
    olds = pa.table({"row": rows, "key": before.keys, "was": before.items, "index": np.arange(len(rows))})
    joined = olds.join(news, keys=["row", "key"], join_type="left outer").sort_by("index")
    both_null = pc.and_(pc.is_null(joined.column("was")), pc.is_null(joined.column("now")))
    same = pc.or_(
        pc.fill_null(pc.equal(joined.column("was"), joined.column("now")), False),
        pc.and_(both_null, pc.is_valid(joined.column("is"))),
    )
    return _numpy(same.combine_chunks())


def _numpy(values: Any) -> NDArray[np.bool_]:
    array: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return array
