"""Memory: what each process takes while a backlog passes through rings of 16 MiB, and its processor time.

The backlog is first many transactions of a hundred rows, then one transaction on a single shard that is far
larger than its ring. With `--size 8` that is 2 GB of binlogs and 5 million rows. The figures are the kernel's
peaks (VmHWM). They include 150 to 200 MiB of an idle Ray actor with its libraries. Processor time is in
microseconds a row that passes through the process, of a shard a row of that shard.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from benchmarks._load import BULK_ROWS, SHARDS, cpu_s, fill, paused, peak_rss_mib, servers
from benchmarks._pipeline import await_followed, consumer, instance, processes, read_all
from canal_group.client.consumer import Consumer

_BACKLOG_ROWS = 2_000_000
_HUGE_ROWS = 625_000
_RING_MIB = 16
#: processes through which the rows of all shards pass
_SHARED = ("group", "gateway", "consumer")
_RING = {"mode": "memory", "size": _RING_MIB * 1024, "memunit_bytes": 1024}


def measure(size: float) -> dict[str, Any]:
    """Return the peaks of every process after the backlog and after the huge transaction."""
    with servers() as made:
        many = fill(made, "bulk", int(_BACKLOG_ROWS * size) // SHARDS // BULK_ROWS)
        huge = fill(made[:1], "huge", int(_HUGE_ROWS * size) // BULK_ROWS, anew=False)
        with ExitStack() as pause:
            pause.enter_context(paused(made))
            with instance(made, store=_RING) as running:
                await_followed(running)
                pause.close()
                since_s = time.monotonic()
                with consumer(running) as reader:
                    before, spent = _peaks(reader), _spent(reader)
                    passage = read_all(reader, many.rows + huge.rows, since_s)
                    peaks, after = _peaks(reader), _spent(reader)
    # The huge transaction is the first server's; the rest is spread evenly.
    rows = dict.fromkeys(after, many.rows + huge.rows)
    shards = [name for name in rows if name not in _SHARED]
    rows |= {name: many.rows // SHARDS + (huge.rows if name == shards[0] else 0) for name in shards}
    return {
        "peak_mib_max": max(peaks.values()),
        **{f"peak_mib_{name}": peak for name, peak in peaks.items()},
        "peak_mib_when_connected": before,
        "cpu_us_per_row": {name: round((after[name] - spent[name]) / rows[name] * 1e6, 3) for name in rows},
        "ring_mib": _RING_MIB,
        "backlog_mib": round((many.bytes + huge.bytes) / (1 << 20), 1),
        "rows": passage.rows,
        "huge_transaction_rows": huge.rows,
        "rows_per_s": round(passage.rows / passage.took_s),
    }


def _peaks(reader: Consumer) -> dict[str, float]:
    """Return the peak of every process of the instance, and of this one, which consumes."""
    return {name: peak_rss_mib(pid) for name, pid in processes(reader).items()}


def _spent(reader: Consumer) -> dict[str, float]:
    """Return the processor time of each process until now, seconds."""
    return {name: cpu_s(pid) for name, pid in processes(reader).items()}
