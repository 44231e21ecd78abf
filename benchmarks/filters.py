"""Filters: what rules on rows and columns cost, on top of parsing.

The events of the benchmark `parse` are decoded in memory, once without rules and once with each of these:

    where      a condition on two columns, which half of the rows fulfil
    columns    two columns dropped, one renamed, one computed
    mask       the last characters of a text
    hash       HMAC-SHA256 of a text

`speed` is rows per second of processor time as a part of what it is without rules: the median of rounds in
which both run one after the other.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks._events import events_of
from benchmarks.parse import IN_MEMORY, packets_of, run_ours
from canal_group.actors.shard.rules import processing_of
from canal_group.conf.stream_settings import FilterSettings
from canal_group.merge.values.chunk import Chunk

_ROUNDS = 5
_SALT = "BENCHMARK_SALT"
_RULES: dict[str, dict[str, Any]] = {
    "where": {"where": "id % 2 = 0 AND customer IS NOT NULL"},
    "columns": {
        "black_columns": ["address", "score"],
        "rename": [{"column": "name", "to": "label"}],
        "computed": [{"name": "twice", "expression": "amount * 2"}],
    },
    "mask": {"masks": [{"column": "name", "kind": "last", "last": 4}]},
    "hash": {"masks": [{"column": "name", "kind": "hash"}]},
}


def measure(size: float) -> dict[str, Any]:
    """Return for large and for small transactions the speed with each rule, as a part of that without."""
    return {name: _speeds(name, size) for name in IN_MEMORY}


def _speeds(name: str, size: float) -> dict[str, float]:
    an_event, a_transaction, rows, _ = IN_MEMORY[name]
    count = max(an_event, int(rows * size)) // an_event * an_event
    packets = packets_of(events_of(count, an_event, a_transaction or count))
    return {rule: _speed(packets, _process(settings)) for rule, settings in _RULES.items()}


def _process(rule: dict[str, Any]) -> Callable[[Chunk], Chunk]:
    os.environ.setdefault(_SALT, "pepper")
    salted = {"salt_env": _SALT} if "masks" in rule else {}
    table = {"match": r"shop\.orders", **rule}
    return processing_of(FilterSettings.model_validate({"tables": [table], **salted})).apply


def _speed(packets: bytes, process: Callable[[Chunk], Chunk]) -> float:
    run_ours(packets, process=process)  # warm up
    ratios = [_took_s(packets, None) / _took_s(packets, process) for _ in range(_ROUNDS)]
    return round(statistics.median(ratios), 2)


def _took_s(packets: bytes, process: Callable[[Chunk], Chunk] | None) -> float:
    began_s = time.thread_time()
    run_ours(packets, process=process)
    return time.thread_time() - began_s
