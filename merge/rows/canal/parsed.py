"""Parsed: which statements canal delivers.

canal's parser drops statements on accounts, views, routines, triggers and events, and maintenance such as
ANALYZE and FLUSH. It knows those that name a table, and CREATE and DROP DATABASE. Marks are delivered in any
case.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.merge.values.marks.mark import BEGIN


def is_parsed(changes: pa.Table) -> Any:
    """Return which of n changes canal delivers: row changes, and the statements that its parser knows.

    Args:
        changes: (n,) with `tables` and `sql` as in `canal_group.merge.rows.envelope.ENVELOPE`.

    Returns:
        (n,) bool.
    """
    concerns_one = pc.fill_null(pc.greater(pc.list_value_length(changes.column("tables")), 0), True)
    return pc.or_(concerns_one, pc.fill_null(pc.starts_with(changes.column("sql"), BEGIN), False))
