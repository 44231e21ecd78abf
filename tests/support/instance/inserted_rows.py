"""The rows that a consumer reads and acknowledges."""

from __future__ import annotations

from integration.shop import DEADLINE_S

import canal_group


def rows_until(consumer: canal_group.Consumer, count: int) -> list[dict[str, str]]:
    """Read and acknowledge rows; return them as they are after the change. What is taken back comes again."""
    found: list[dict[str, str]] = []
    while len(found) < count:
        try:
            batch = consumer.get_without_ack(timeout=DEADLINE_S)
            assert batch is not None, found
            rows = batch.envelope().to_pylist()
            consumer.ack(batch.batch_id)
        except canal_group.RolledBack:
            continue
        found += [dict(row["after"]) for row in rows if row["op"] == "INSERT"]
    return found
