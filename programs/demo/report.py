"""What a demo found out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The result of a demo; its fields, in their order, are the JSON object that `--json` prints."""

    shards: int
    #: distinct transactions that arrived, statements that change definitions included
    transactions: int
    #: distinct row changes and statements that arrived
    rows: int
    #: row changes per second from when the writers went as fast as they could to the last arrival
    rows_per_s: float
    #: from just before an INSERT was sent to its row's arrival at the consumer, milliseconds: over the
    #: one-row transactions of the slow beginning; None: no such transaction
    latency_ms_p50: float | None
    latency_ms_p99: float | None
    #: rows where a key, a number or a shard's own order goes back
    order_violations: int
    #: transactions whose rows do not stand together in their order
    split_transactions: int
    #: row changes that were written and did not arrive
    missing: int
    #: row changes that arrived twice without reason, or were never written
    duplicates: int
    #: whether the stream, applied to empty tables, gave what the servers hold
    tables_equal: bool
    #: distinct rows from before the start of the stream, read by a snapshot
    snapshot_rows: int

    @property
    def ok(self) -> bool:
        """Whether the stream was right in every respect."""
        faults = self.order_violations + self.split_transactions + self.missing + self.duplicates
        return self.tables_equal and not faults

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return asdict(self)
