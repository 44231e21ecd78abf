"""Spark: how fast a streaming query drains the backlog of four servers, and the Arrow client beside it.

Both read the same binlogs through an instance of their own, whose rings are full when the clock starts, and
end with the last row: the client has acknowledged it, the query has committed its micro-batch into Spark's
`noop` sink. Spark runs as `local[2]`; starting it is not measured, starting the query is.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from actors.launch import Instance
from benchmarks._load import BULK_ROWS, NAME, SHARDS, cpus, fill, servers
from benchmarks._pipeline import DESTINATION, consumer, instance, read_all
from canal_group.demo.server_process import DatabaseServer
from canal_group.door import GatewayDoor
from merge.errors import CanalGroupError

_ROWS = 2_000_000
_CLIENT = "spark"
_READY_S, _END_S = 60.0, 240.0


def measure(size: float) -> dict[str, Any]:
    """Return rows a second of the query, and over the Arrow client's."""
    with servers() as made, tempfile.TemporaryDirectory(prefix="cg-spark-") as folder:
        backlog = fill(made, "bulk", int(_ROWS * size) // SHARDS // BULK_ROWS)
        client_rows_per_s = _client(made, backlog.rows)
        with instance(made) as running:
            _wait_for_rows(running)
            done = _query(running, Path(folder))
    rows = sum(progress["numInputRows"] for progress, _ in done)
    if rows != backlog.rows:
        raise RuntimeError(f"{rows} of {backlog.rows} rows came")
    took_s = done[-1][1]
    return {
        "rows_per_s": round(rows / took_s),
        "ratio_to_arrow_client": round(rows / took_s / client_rows_per_s, 3),
        "arrow_client_rows_per_s": round(client_rows_per_s),
        "rows": rows,
        "micro_batches": len(done),
        "micro_batch_ms": round(median(progress["durationMs"]["triggerExecution"] for progress, _ in done)),
        "plan_ms": round(median(progress["durationMs"]["latestOffset"] for progress, _ in done)),
        "cpus": cpus(),
    }


def _client(made: Sequence[DatabaseServer], rows: int) -> float:
    with instance(made) as running:
        _wait_for_rows(running)
        since_s = time.monotonic()
        with consumer(running) as reader:
            passage = read_all(reader, rows, since_s)
    return passage.rows / passage.took_s


def _wait_for_rows(running: Instance) -> None:
    """Wait until every shard has read rows of the table."""
    door, deadline_s = GatewayDoor(running.uri, DESTINATION), time.monotonic() + _READY_S
    while time.monotonic() < deadline_s:
        try:
            full = all(shard["rows"] > 0 for shard in door.ask("status")["shards"])
            pa.ipc.read_schema(pa.py_buffer(b64decode(door.ask("describe", table=NAME))))
        except (CanalGroupError, KeyError):
            full = False
        if full:
            door.close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"no rows within {_READY_S:g} s")


def _query(running: Instance, folder: Path) -> list[tuple[dict[str, Any], float]]:
    """Return the progress of each micro-batch with rows, and when it had ended, seconds from the start."""
    # Only here: the other benchmarks do not wait for Spark to load.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from canal_group.spark import CanalGroupDataSource  # noqa: PLC0415

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .getOrCreate()
    )
    spark.dataSource.register(CanalGroupDataSource)
    given = {"gateway": running.uri, "destination": DESTINATION, "client": _CLIENT, "table": NAME}
    reader = spark.readStream.format("canal_group").options(**given, partitions=2, preimages="false")
    frame = reader.load()
    since_s = time.time()
    writing = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    ended = query.awaitTermination(_END_S)
    progress = [dict(each) for each in query.recentProgress if each["numInputRows"]]
    spark.stop()
    if not ended:
        raise RuntimeError(f"the query has not ended within {_END_S:g} s")
    return [(each, _ended_s(each) - since_s) for each in progress]


def _ended_s(progress: dict[str, Any]) -> float:
    begun = datetime.fromisoformat(progress["timestamp"])
    return float(begun.timestamp()) + float(progress["durationMs"]["triggerExecution"]) / 1000
