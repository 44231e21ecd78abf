"""Scale: the cost of merging per transaction, by number of shards; headers only, no rows, no servers.

The same transactions in the same time come from 4, 16, 64 or 256 shards. Each shard reports in turn, as its
polls are answered. A report is a run of headers whose times overlap those of all other shards, and after each
report the timeline releases what may go out. So with more shards each report releases a few headers of every
shard, which is the most expensive case.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from canal_group.conf.stream_settings import MergeSettings
from canal_group.merge.order.timeline import Timeline
from canal_group.merge.values.header import HEADER, WHOLE, HeaderRun

SHARDS = (4, 16, 64, 256)
#: transactions merged for each number of shards
_TRANSACTIONS = 1 << 19
#: headers of a report
_RUN = 256
#: measurements of each, taken in turn; the fastest counts
_ROUNDS = 3
_NAMES = ("mysql-bin.000001", "0-1")


def measure(size: float) -> dict[str, Any]:
    """Return microseconds per transaction for each number of shards, and the last divided by the first."""
    total = max(int(_TRANSACTIONS * size), 2 * _RUN * SHARDS[-1])
    best = dict.fromkeys(SHARDS, float("inf"))
    for _ in range(_ROUNDS):
        for shards in SHARDS:
            best[shards] = min(best[shards], _merged_us(shards, total))
    return {
        "ratio_256_to_4": round(best[SHARDS[-1]] / best[SHARDS[0]], 2),
        "us_per_transaction": {str(shards): round(took_us, 3) for shards, took_us in best.items()},
        "transactions": total,
        "headers_per_report": _RUN,
    }


def _merged_us(shards: int, total: int) -> float:
    """Merge once; return microseconds per transaction."""
    reports = _reports(shards, total)
    timeline = Timeline(shards, MergeSettings().ahead_max_us)
    out = 0
    began_s = time.perf_counter()
    for shard, run in reports:
        timeline.append(shard, run)
        out += len(timeline.advance())
    took_s = time.perf_counter() - began_s
    expected = sum(len(run) for _, run in reports)
    for shard in range(shards):
        timeline.low_watermark(shard, 1 << 60)
    out += len(timeline.advance())
    if out != expected:
        raise RuntimeError(f"{out} of {expected} transactions came out")
    return took_s / expected * 1e6


def _reports(shards: int, total: int) -> list[tuple[int, HeaderRun]]:
    """Return the shards' reports in the order in which they come.

    There is one transaction per microsecond, from a random shard. Each shard's runs start at a phase of its
    own, so that its reports fall between those of the others.
    """
    chance = np.random.default_rng(1)
    home = chance.integers(0, shards, total)
    reports: list[tuple[int, int, HeaderRun]] = []
    for shard in range(shards):
        times = np.flatnonzero(home == shard) + 1
        headers = np.zeros(len(times), dtype=HEADER)
        headers["commit_us"] = times
        headers["flags"] = WHOLE
        headers["rows"], headers["row_end"], headers["bytes"] = 1, 1, 200
        headers["sequence"] = np.arange(len(times))
        headers["gtid_source"], headers["gtid_number"] = 1, np.arange(1, len(times) + 1)
        cuts = np.arange(_RUN * (shard + 1) // shards, len(times), _RUN)
        runs = [run for run in np.split(headers, cuts) if len(run)]
        reports += [(int(run["commit_us"][-1]), shard, HeaderRun(run, _NAMES)) for run in runs]
    reports.sort(key=lambda report: report[:2])
    return [(shard, run) for _, shard, run in reports]
