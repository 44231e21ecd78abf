"""The pipeline under measurement: a whole instance, and a consumer that reads typed rows and acknowledges."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._load import NAME, SCHEMA, await_until, cpu_s
from canal_group.actors.driver.instance import Instance
from canal_group.actors.driver.launch import launch
from canal_group.client.client import connect
from canal_group.client.consumer import Consumer
from canal_group.conf.load import build_instance
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from playground.database.secret_file import secret_file
from playground.database.server_process import CANAL_PASSWORD, DatabaseServer

DESTINATION = "bench"
#: batches that the consumer prefetches
OUTSTANDING = 2
#: how long an instance may take to be ready, seconds
WAIT_S = 60.0
_SILENCE_S = 60.0


@contextmanager
def instance(made: Sequence[DatabaseServer], **overrides: Any) -> Iterator[Instance]:
    """Run an instance with preset `memory`, from the earliest binlog."""
    with tempfile.TemporaryDirectory(prefix="cg-bench-") as name:
        password = secret_file(Path(name, "password"), CANAL_PASSWORD)
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
            # It would start while the first rows are measured.
            "ray": {"spare_process": False},
            **overrides,
        }
        with launch(build_instance(value, source="the benchmark's settings")) as running:
            yield running


def paced(pace: str) -> dict[str, Any]:
    """Return the overrides of an instance with this `merge.latency`; empty: the default."""
    return {"merge": {"latency": pace}} if pace else {}


def await_followed(running: Instance) -> None:
    """Wait until the group has opened every shard, which then waits for its server."""
    with closing(GatewayClient(running.uri, DESTINATION)) as client:

        def followed() -> bool:
            return {shard["state"] for shard in client.ask(Status())["shards"]} == {"connecting"}

        await_until(followed, "the shards were not opened", WAIT_S)


def consumer(running: Instance) -> Consumer:
    """Return a consumer of an instance."""
    return connect(running.uri, destination=DESTINATION, wait_s=WAIT_S)


def processes(reader: Consumer | GatewayClient) -> dict[str, int]:
    """Return the process of every shard, the group and the gateway, and ours, which consumes."""
    status = reader.ask(Status()) if isinstance(reader, GatewayClient) else reader.status()
    pids = {shard["shard"]: shard["pid"] for shard in status["shards"]}
    return pids | {
        "group": status["group"]["pid"],
        "gateway": status["gateway"]["pid"],
        "consumer": os.getpid(),
    }


def spent_s(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the processor time of `processes` until now, seconds; that of all shards together."""
    spent = {name: cpu_s(pid) for name, pid in pids.items()}
    own = {name: spent.pop(name) for name in ("group", "gateway", "consumer")}
    return {"shards": sum(spent.values()), **own}


@dataclass(slots=True)
class Passage:
    """What a consumer received."""

    rows: int = 0
    batches: int = 0
    took_s: float = 0.0


def read_all(reader: Consumer, rows: int, since_s: float, outstanding: int = OUTSTANDING) -> Passage:
    """Read typed rows with `Consumer.prefetch` and acknowledge them, until `rows` have come.

    Args:
        reader: a subscribed consumer.
        rows: how many will come.
        since_s: when the clock started, `time.monotonic`.
        outstanding: most batches that are requested or read and not yet acknowledged.
    """
    passage = Passage()
    prefetch = reader.prefetch(lambda batch: batch.table(NAME), depth=outstanding, timeout=_SILENCE_S)
    for batch, table in prefetch:
        reader.ack(batch.batch_id)
        passage.rows += table.num_rows
        passage.batches += 1
        if passage.rows >= rows:
            break
    else:
        raise RuntimeError(f"{passage.rows} of {rows} rows came, then none for {_SILENCE_S:g} s")
    passage.took_s = time.monotonic() - since_s
    return passage
