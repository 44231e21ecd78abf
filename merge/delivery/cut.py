"""How many headers leave together."""

from __future__ import annotations

import numpy as np

from canal_group.merge.values.header import Flag, Headers


def cut(
    headers: Headers,
    *,
    rows_max: int,
    bytes_max: int,
    ddl_isolation: bool = False,
) -> int:
    """Return how many of the first headers leave together: at least one where there is one.

    A header is never split, so the first one leaves even if it alone is above a bound.

    Args:
        headers: candidates in order.
        rows_max: bound on the sum of `rows`.
        bytes_max: bound on the sum of `bytes`.
        ddl_isolation: let a DDL leave alone, and what stands before it without it.
    """
    count = int(np.searchsorted(np.cumsum(headers["rows"]), rows_max, side="right"))
    count = min(count, int(np.searchsorted(np.cumsum(headers["bytes"][:count]), bytes_max, side="right")))
    count = min(max(count, 1), len(headers))
    if ddl_isolation:
        ddls = np.flatnonzero(headers["flags"][:count] & Flag.DDL)
        if len(ddls):
            count = max(int(ddls[0]), 1)
    return count
