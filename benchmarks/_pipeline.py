"""The pipeline under measurement: a whole instance, and a consumer that reads typed rows and acknowledges."""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.launch import Instance, launch
from benchmarks._load import NAME, SCHEMA
from canal_group.client import Batch, Consumer, connect
from canal_group.demo.server_process import CANAL_PASSWORD, DatabaseServer
from conf.load import build_instance

DESTINATION = "bench"
#: batches that the consumer has delivered and not acknowledged, at most
OUTSTANDING = 3
_BATCH_ROWS = 50_000
_WAIT_S = 60.0
_SILENCE_S = 60.0


@contextmanager
def instance(made: Sequence[DatabaseServer], **overrides: Any) -> Iterator[Instance]:
    """Run an instance with the settings of preset `memory` from the earliest binlog on."""
    with tempfile.TemporaryDirectory(prefix="cg-bench-") as name:
        password = Path(name, "password")
        password.write_text(CANAL_PASSWORD)
        shards = [
            {
                "name": f"s{index}",
                "host": server.address().host,
                "port": server.address().port,
                "user": server.address().user,
                "password_file": str(password),
            }
            for index, server in enumerate(made)
        ]
        value: dict[str, Any] = {
            "preset": "memory",
            "destination": DESTINATION,
            "shards": shards,
            "start": "earliest",
            "filter": {"white": rf"{SCHEMA}\..*"},
            "gateway": {"port": 0},
            **overrides,
        }
        with launch(build_instance(value, source="the benchmark's settings")) as running:
            yield running


def consumer(running: Instance) -> Consumer:
    """Return a consumer of an instance."""
    return connect(running.uri, destination=DESTINATION, wait_s=_WAIT_S)


def processes(reader: Consumer) -> dict[str, int]:
    """Return the process of every shard, the group and the gateway, and ours, which consumes."""
    status = reader.status()
    pids = {shard["shard"]: shard["pid"] for shard in status["shards"]}
    return pids | {
        "group": status["group"]["pid"],
        "gateway": status["gateway"]["pid"],
        "consumer": os.getpid(),
    }


@dataclass(slots=True)
class Passage:
    """What passed through to a consumer."""

    rows: int = 0
    batches: int = 0
    took_s: float = 0.0


def read_all(reader: Consumer, rows: int, since_s: float, outstanding: int = OUTSTANDING) -> Passage:
    """Read and acknowledge typed rows until so many came.

    While the rows of some batches are on their way, the next batch is asked for, as any consumer may do whose
    work should not wait; batches are acknowledged in order, each when its rows are there.

    Args:
        reader: a subscribed consumer.
        rows: how many will come.
        since_s: when the clock started, `time.monotonic`.
        outstanding: batches that are delivered and not acknowledged, at most; 1: one after the other.
    """
    passage, asked = Passage(), 0
    waiting: deque[tuple[Batch, Future[pa.Table]]] = deque()
    with ThreadPoolExecutor(max_workers=outstanding) as pool:
        while passage.rows < rows:
            if asked < rows and len(waiting) < outstanding:
                batch = reader.get_without_ack(_BATCH_ROWS, timeout=_SILENCE_S)
                if batch is None:
                    raise RuntimeError(f"{asked} of {rows} rows came, then none for {_SILENCE_S:g} s")
                asked += batch.rows
                waiting.append((batch, pool.submit(batch.table, NAME)))
                continue
            batch, coming = waiting.popleft()
            passage.rows += coming.result().num_rows
            reader.ack(batch.batch_id)
            passage.batches += 1
    passage.took_s = time.monotonic() - since_s
    return passage
