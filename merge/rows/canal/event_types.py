"""Event types: canal's names of row changes. canal's clients know no rows of snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.merge.values.chunk import Op


def numbers_of(rows: pa.Table) -> NDArray[np.uint8]:
    """Return the EventType of each row change: (n,); see `canal_group.merge.values.chunk`."""
    ops = rows.column("_op").to_numpy()
    return np.where(ops == Op.READ, np.uint8(Op.INSERT), ops)


def names_of(ops: Any) -> Any:
    """Return the name of each EventType.

    Args:
        ops: (n,) Array, `op` of `canal_group.merge.rows.envelope.ENVELOPE`.
    """
    return pc.if_else(pc.equal(ops, Op.READ.name), Op.INSERT.name, ops)
