"""Measures: the latency of rows to the consumer, and the throughput.

Latency is the time from just before an INSERT is sent to the arrival of its row: it holds the statement, the
commit, the way through the pipeline and the consumer's fetch. The times are the client's own on both ends,
because MariaDB stamps commits in whole seconds. Only transactions of one row count, only those of the gentle
beginning, and of each its first arrival: with a backlog, the length of the queue would be measured.

Throughput is measured in the rush that follows: rows in a second, each counted once, from when the first
writer went as fast as it could to the last arrival.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from canal_group.programs.demo.delivered import IDENTITY

#: what was sent so shortly before the gentle beginning ended may have met the rush, microseconds
_MARGIN_US = 300_000
_TRANSACTION = ["shard", "gtid", "run"]


def latency_ms(stream: pa.Table, gentle_until_us: int) -> tuple[float | None, float | None]:
    """Return the median and the 99th percentile, milliseconds; None: nothing could be measured.

    Args:
        stream: (n,) of `delivered.DELIVERED` in the order of delivery.
        gentle_until_us: when the first writer left the gentle beginning, microseconds since 1970 UTC.
    """
    sizes = stream.group_by(_TRANSACTION).aggregate([([], "count_all")])
    single = sizes.filter(pc.equal(sizes.column("count_all"), 1)).select(_TRANSACTION)
    gentle = pc.less(stream.column("written_us"), gentle_until_us - _MARGIN_US)
    inserted = stream.filter(pc.and_(pc.equal(stream.column("op"), "INSERT"), gentle))
    measured = inserted.join(single, _TRANSACTION, join_type="inner")
    first = measured.group_by(["shard", "gtid"]).aggregate([("arrived_us", "min"), ("written_us", "min")])
    if not len(first):
        return None, None
    took_us = pc.subtract(first.column("arrived_us_min"), first.column("written_us_min")).to_numpy()
    p50, p99 = np.percentile(took_us / 1000, [50, 99])
    return round(float(p50), 1), round(float(p99), 1)


def rows_per_s(stream: pa.Table, since_us: int) -> float:
    """Return how many distinct rows arrived in a second, 0 if none.

    Args:
        stream: (n,) of `delivered.DELIVERED`.
        since_us: what arrived earlier does not count, microseconds since 1970 UTC.
    """
    arrivals = stream.group_by(list(IDENTITY)).aggregate([("arrived_us", "min")]).column("arrived_us_min")
    times_us = arrivals.to_numpy()
    times_us = times_us[times_us > since_us]
    if not len(times_us):
        return 0.0
    return round(float(len(times_us) / (times_us.max() - since_us) * 1e6), 1)
