"""Checksum: what the CRC32 of every event costs, by ours and by zlib's.

Speed is by processor time, of messages of the sizes that events have, without what Python needs to call
either function: each also sums up nothing, and that time is taken off.

`parse` is of the events that the benchmark `parse` decodes in memory. `part_of_parsing` is by how much sooner
they are decoded if they have no checksums; `longer_with_zlib` is by how much decoding would last longer with
zlib's, from the time that both need for these events, which fit into the processor's cache as they do there.
"""

from __future__ import annotations

import random
import statistics
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks._events import events_of
from benchmarks.parse import IN_MEMORY, packets_of, run_ours
from canal_group.binlog.native.fast_path import checksum_of

_ROUNDS = 9
#: bytes of a message
_SIZES = (100, 1_000, 8_000, 1_000_000)
#: bytes that are summed up in a round for each size
_BYTES = 64_000_000
_CALLS_MIN, _CALLS_MAX = 20, 200_000
_CHECKSUM_SIZE = 4
#: bytes of events that are summed up again and again: they fit into a cache
_CACHED_BYTES = 1 << 18
_FUNCTIONS: dict[str, Callable[[bytes], int]] = {"ours": checksum_of, "zlib": zlib.crc32}


def measure(size: float) -> dict[str, Any]:
    """Return gigabytes a second by size of message, and parts of the time that decoding takes."""
    return {
        "gb_per_s": {str(each): _speed(each, size) for each in _SIZES},
        "parse": {name: _of_parsing(name, size) for name in IN_MEMORY},
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
    }


def _speed(message: int, size: float) -> dict[str, float]:
    count = min(max(int(_BYTES * size) // message, _CALLS_MIN), _CALLS_MAX)
    data = [random.Random(1).randbytes(message)] * count
    rounds = [{name: _took_s(call, data) for name, call in _FUNCTIONS.items()} for _ in range(_ROUNDS)]
    speeds = {
        name: round(message * count / statistics.median(each[name] for each in rounds) / 1e9, 3)
        for name in _FUNCTIONS
    }
    return speeds | {"ratio": round(statistics.median(each["zlib"] / each["ours"] for each in rounds), 2)}


def _of_parsing(name: str, size: float) -> dict[str, float]:
    an_event, a_transaction, ours, _ = IN_MEMORY[name]
    rows = max(an_event, int(ours * size)) // an_event * an_event
    shape = rows, an_event, a_transaction or rows
    events = events_of(*shape)
    packets, bare = packets_of(events), packets_of(events_of(*shape, checksums=False))
    bodies = _cached(events)
    _parse_s(packets, rows, 1)  # it is warm then
    parts: list[float] = []
    longer: list[float] = []
    for _ in range(_ROUNDS):
        parse_s = _parse_s(packets, rows, 1)
        parts.append(1 - _parse_s(bare, rows, 0) / parse_s)
        longer.append((_took_s(zlib.crc32, bodies) - _took_s(checksum_of, bodies)) / parse_s)
    return {
        "bytes_per_event": round(sum(map(len, events)) / len(events)),
        "part_of_parsing": round(statistics.median(parts), 4),
        "longer_with_zlib": round(statistics.median(longer), 4),
    }


def _parse_s(packets: bytes, rows: int, checksum: int) -> float:
    """Return the processor time of decoding events, seconds."""
    began_s = time.thread_time()
    count = run_ours(packets, checksum)
    took_s = time.thread_time() - began_s
    assert count == rows, f"{count} rows of {rows}"
    return took_s


def _cached(events: Sequence[bytes]) -> list[bytes]:
    """Return as many bodies to sum up as events; the first ones are repeated."""
    first, size = list[bytes](), 0
    for event in events:
        if size + len(event) > _CACHED_BYTES:
            break
        first.append(event[:-_CHECKSUM_SIZE])
        size += len(event)
    return (first * (len(events) // len(first) + 1))[: len(events)]


def _took_s(call: Callable[[bytes], int], data: Sequence[bytes]) -> float:
    """Return the processor time of the checksums themselves, seconds."""
    nothing = [b""] * len(data)
    begun_s = time.thread_time()
    for each in nothing:
        call(each)
    between_s = time.thread_time()
    for each in data:
        call(each)
    return max(time.thread_time() - between_s - (between_s - begun_s), 1e-9)
