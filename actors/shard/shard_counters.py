"""Shard counters: what a shard has stored and waited for since its process started, for metrics.

They outlive an intake: a rewind begins a new one, and what is read again is counted again. One thread counts,
any thread may read.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import numpy as np

from canal_group.binlog.columns.read_counts import ReadCounts
from canal_group.merge.errors import CanalGroupError, DefinitionContradicted, UnsupportedEvent
from canal_group.merge.values.chunk import Chunk, Op
from canal_group.merge.values.header import Flag

#: chunks whose delays are remembered; a busy source fills some thousand chunks a minute at most
CHUNKS_MAX = 1_024
#: quantiles of the delay, by their names in a status
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: what stands for the type of an event if the error does not tell it
OTHER = "other"


class ShardCounters:
    """Counts chunks as they are stored; see the module."""

    def __init__(self) -> None:
        self._transactions = 0
        self._statements = 0
        self._rows = np.zeros(max(Op) + 1, dtype=np.int64)
        #: bytes of decoded rows in memory
        self._bytes = 0
        self._reconnects = 0
        #: times that it stopped at an event that this version does not read, by the name of the event's type
        self._unsupported: Counter[str] = Counter()
        #: times that it stopped because the source shows a table otherwise, by the table's name
        self._contradicted: Counter[str] = Counter()
        #: of readers that have ended
        self._read = ReadCounts()
        #: of the last chunks: delay of the first transaction that ends there, microseconds, and how many end
        self._delays: deque[tuple[int, int]] = deque(maxlen=CHUNKS_MAX)
        self._delay_sum_us = 0
        self._delay_count = 0

    def stored(self, chunk: Chunk, source_us: int | None) -> None:
        """Count a chunk that the ring has taken.

        Args:
            chunk: what was stored.
            source_us: time of the clock that stamped its commits, microseconds since 1970 UTC; None: unknown.
        """
        headers = chunk.headers
        flags = headers["flags"]
        ends = flags & Flag.END != 0
        count = int(np.count_nonzero(ends))
        self._transactions += count
        self._statements += int(np.count_nonzero(flags & Flag.DDL))
        self._bytes += int(headers["bytes"].sum())
        for table in chunk.tables:
            if "_op" in table.rows.schema.names:
                ops = table.rows.column("_op").to_numpy()
                for op in Op:
                    self._rows[op] += np.count_nonzero(ops == op)
        if count and source_us is not None:
            delays_us = np.maximum(source_us - headers["commit_us"][ends], 0)
            self._delays.append((int(delays_us[0]), count))
            self._delay_sum_us += int(delays_us.sum())
            self._delay_count += count

    def disconnected(self) -> None:
        """Count a connection that was lost, or could not be opened."""
        self._reconnects += 1

    def stopped_at(self, error: CanalGroupError) -> None:
        """Count a stop at what this version does not read, or understood otherwise than the source."""
        if isinstance(error, UnsupportedEvent):
            self._unsupported[str(error.details.get("event", OTHER))] += 1
        elif isinstance(error, DefinitionContradicted):
            self._contradicted[str(error.details.get("table", OTHER))] += 1

    def ended(self, counts: ReadCounts) -> None:
        """Add the counts of a reader that has ended."""
        self._read = self._read + counts

    def describe(self, reading: ReadCounts) -> dict[str, Any]:
        """Return the counts as a JSON object.

        Args:
            reading: what the reader has read that has not ended.
        """
        counts = self._read + reading
        return {
            "transactions": self._transactions,
            "statements": self._statements,
            "rows": {op.name.lower(): int(self._rows[op]) for op in Op},
            "decoded_bytes": self._bytes,
            "read_bytes": counts.read_bytes,
            "zero_dates": counts.zero_dates,
            "invalid_text": counts.invalid_text,
            "ignored_events": dict(counts.ignored_events),
            "skipped_events": dict(counts.skipped_events),
            "long_statements": counts.long_statements,
            "unsupported_events": dict(self._unsupported),
            "contradicted_definitions": dict(self._contradicted),
            "reconnects": self._reconnects,
            "delay_s": {
                **self._quantiles(),
                "sum": self._delay_sum_us / 1e6,
                "count": self._delay_count,
            },
        }

    def _quantiles(self) -> dict[str, float | None]:
        """Return the delays that parts of the last transactions did not exceed, seconds; None: not known."""
        delays = np.array(list(self._delays), dtype=np.int64).reshape(-1, 2)
        if not len(delays):
            return dict.fromkeys(QUANTILES)
        delays = delays[np.argsort(delays[:, 0])]
        upto = np.cumsum(delays[:, 1])
        indexes = np.searchsorted(upto, np.array(list(QUANTILES.values())) * upto[-1])
        return {name: float(delays[index, 0] / 1e6) for name, index in zip(QUANTILES, indexes, strict=True)}
