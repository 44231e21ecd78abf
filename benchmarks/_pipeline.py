"""The pipeline under measurement: a whole instance, and a consumer that reads typed rows and acknowledges."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.launch import Instance, launch
from benchmarks._load import NAME, SCHEMA
from canal_group.client import Consumer, connect
from canal_group.demo.server_process import CANAL_PASSWORD, DatabaseServer
from conf.load import build_instance

DESTINATION = "bench"
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


@dataclass(slots=True)
class Passage:
    """What passed through to a consumer."""

    rows: int = 0
    batches: int = 0
    took_s: float = 0.0
    #: how long the consumer's calls took, seconds
    get_s: float = 0.0
    rows_s: float = 0.0
    ack_s: float = 0.0


def read_all(reader: Consumer, rows: int, since_s: float, batch_rows: int = 10_000) -> Passage:
    """Read and acknowledge typed rows until so many came.

    Args:
        reader: a subscribed consumer.
        rows: how many will come.
        since_s: when the clock started, `time.monotonic`.
        batch_rows: rows asked for at once.
    """
    passage = Passage()
    while passage.rows < rows:
        began_s = time.monotonic()
        batch = reader.get_without_ack(batch_rows, timeout=_SILENCE_S)
        if batch is None:
            raise RuntimeError(f"{passage.rows} of {rows} rows came, then none for {_SILENCE_S:g} s")
        got_s = time.monotonic()
        passage.rows += batch.table(NAME).num_rows
        read_s = time.monotonic()
        reader.ack(batch.batch_id)
        passage.batches += 1
        passage.get_s += got_s - began_s
        passage.rows_s += read_s - got_s
        passage.ack_s += time.monotonic() - read_s
    passage.took_s = time.monotonic() - since_s
    return passage
