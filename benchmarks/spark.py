"""Spark: how fast a streaming query drains the backlog of four servers, compared with the Arrow client.

Both read the same binlogs through an instance of their own, whose rings are full when they begin. Both are
measured after their first batch: the client until it has acknowledged the last row, the query until the
commit of the last micro-batch into Spark's `noop` sink. Spark runs as `local[2]` with its default settings.
Rings and micro-batches are as docs/spark.md advises for a large backlog. The JVM compiles while the first
queries run, so there are several: one to warm it up, two with selected columns, and one for all other
figures.

Then the query continues with micro-batches of few rows and of none. Their time, less the wait for rows, is
the cost of a micro-batch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from benchmarks._load import BULK_ROWS, NAME, SCHEMA, SHARDS, cpu_s, cpus, fill, peak_rss_mib, servers
from benchmarks._pipeline import DESTINATION, OUTSTANDING, consumer, instance
from canal_group.actors.driver.instance import Instance
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Describe, Status
from canal_group.merge.errors import CanalGroupError
from playground.database.server_process import DatabaseServer

_ROWS = 8_000_000
_CLIENT = "spark"
_READY_S, _END_S, _SILENCE_S = 60.0, 240.0, 60.0
#: micro-batches of few rows, and of none
_SMALL = 10
#: selected columns as in real queries: without most of the added columns, and a smaller selection
_CHOSEN = "id,customer,amount,state,quantity,changed_at,_change_type,_seq"
_FEW = "id,amount,_change_type,_seq"
#: rings that hold the next micro-batches while Spark processes one
_RINGS = {"size": 1 << 17}
_MICRO_BATCH = {"partitions": 2, "maxRowsPerBatch": 1_000_000}


@dataclass(frozen=True, slots=True)
class _Drained:
    """How a backlog was read, after the first batch."""

    rows: int
    took_s: float
    #: processor time of each kind of process, seconds
    cpu_s: Mapping[str, float]

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.took_s

    def cpu_us_per_row(self) -> dict[str, float]:
        return {kind: round(spent * 1e6 / self.rows, 3) for kind, spent in self.cpu_s.items()}


def measure(size: float) -> dict[str, Any]:
    """Return the query's rows per second, its ratio to the Arrow client, a micro-batch's cost, and memory."""
    with servers() as made:
        backlog = fill(made, "bulk", int(_ROWS * size) // SHARDS // BULK_ROWS)
        client = _client(made, backlog.rows)
        cold = _spark(made, backlog.rows)[0]
        few = _spark(made, backlog.rows, columns=_FEW)[0]
        two_columns = _spark(made, backlog.rows, columns=_CHOSEN)[0]
        drained, batches, small, memory = _spark(made, backlog.rows, then_small=True)
    return {
        "rows_per_s": round(drained.rows_per_s),
        "ratio_to_arrow_client": round(drained.rows_per_s / client.rows_per_s, 3),
        "arrow_client_rows_per_s": round(client.rows_per_s),
        "first_query_rows_per_s": round(cold.rows_per_s),
        "chosen_columns_rows_per_s": round(two_columns.rows_per_s),
        "chosen_columns_ratio_to_arrow_client": round(two_columns.rows_per_s / client.rows_per_s, 3),
        "few_columns_rows_per_s": round(few.rows_per_s),
        "few_columns_ratio_to_arrow_client": round(few.rows_per_s / client.rows_per_s, 3),
        "rows": backlog.rows,
        "micro_batches": len(batches),
        "micro_batch_ms": round(median(map(_cost_ms, batches))),
        **small,
        **memory,
        "cpu_us_per_row": drained.cpu_us_per_row(),
        "chosen_columns_cpu_us_per_row": two_columns.cpu_us_per_row(),
        "few_columns_cpu_us_per_row": few.cpu_us_per_row(),
        "arrow_client_cpu_us_per_row": client.cpu_us_per_row(),
        "cpus": cpus(),
    }


def _client(made: Sequence[DatabaseServer], rows: int) -> _Drained:
    with instance(made, store=_RINGS) as running:
        _wait_for_rows(running)
        with consumer(running) as reader:
            prefetch = reader.prefetch(lambda batch: batch.table(NAME), depth=OUTSTANDING, timeout=_SILENCE_S)
            batch, table = next(prefetch)
            reader.ack(batch.batch_id)
            seen = first = table.num_rows
            since_s, clock = time.monotonic(), _clock(running)
            while seen < rows:
                batch, table = next(prefetch)
                reader.ack(batch.batch_id)
                seen += table.num_rows
            return _Drained(seen - first, time.monotonic() - since_s, clock())


def _spark(
    made: Sequence[DatabaseServer], rows: int, *, then_small: bool = False, **query_options: str
) -> tuple[_Drained, list[dict[str, Any]], dict[str, int], dict[str, float]]:
    """Return how a query drained the backlog, its micro-batches, the cost of small ones, and the memory."""
    with instance(made, store=_RINGS) as running:
        _wait_for_rows(running)
        with _query(running, query_options) as query:
            first = _until(query, bool)[0]
            clock = _clock(running)
            batches = _until(query, lambda batches: sum(each["numInputRows"] for each in batches) >= rows)
            spent = clock()
            count = sum(each["numInputRows"] for each in batches)
            if count != rows:
                raise RuntimeError(f"{count} of {rows} rows came")
            drained = _Drained(rows - first["numInputRows"], _end_s(batches[-1]) - _end_s(first), spent)
            small = _small(made, query, len(batches)) if then_small else {}
            return drained, batches, small, _memory()


def _small(made: Sequence[DatabaseServer], query: Any, before: int) -> dict[str, int]:
    """Return the cost of a micro-batch with a transaction of the table, and of another table, ms."""
    costs_of: dict[str, int] = {}
    for name, statement in (
        ("small_batch_ms", "CALL bulk(1)"),
        ("empty_batch_ms", "UPDATE seeds SET quantity = quantity + 1"),
    ):
        costs = []
        for _ in range(_SMALL):
            made[0].execute(statement, database=SCHEMA)
            before += 1
            costs.append(_cost_ms(_until(query, partial(_as_many, before))[-1]))
        costs_of[name] = round(median(costs))
    return costs_of


def _until(query: Any, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Wait for enough micro-batches; return their progress."""
    deadline_s, seen = time.monotonic() + _END_S, ""
    while time.monotonic() < deadline_s:
        # All are requested only when there is a new one: a request costs time here and in the JVM.
        last = query.lastProgress
        if last is not None and last["timestamp"] != seen:
            seen = last["timestamp"]
            # Triggers that found nothing sometimes have a progress as well.
            batches = [dict(each) for each in query.recentProgress if "addBatch" in each["durationMs"]]
            if enough(batches):
                return batches
        query.awaitTermination(0.05)
    raise RuntimeError(f"the query did not get as far as expected within {_END_S:g} s")


def _as_many(least: int, batches: list[dict[str, Any]]) -> bool:
    return len(batches) >= least


def _cost_ms(progress: Mapping[str, Any]) -> float:
    """Return the duration of a micro-batch without the wait for its rows."""
    took = progress["durationMs"]
    return float(took["triggerExecution"] - took["latestOffset"])


def _end_s(progress: Mapping[str, Any]) -> float:
    begun = datetime.fromisoformat(progress["timestamp"])
    return float(begun.timestamp()) + float(progress["durationMs"]["triggerExecution"]) / 1000


def _wait_for_rows(running: Instance) -> None:
    """Wait until every shard has read rows of the table."""
    door, deadline_s = GatewayClient(running.uri, DESTINATION), time.monotonic() + _READY_S
    while time.monotonic() < deadline_s:
        try:
            full = all(shard["rows"] > 0 for shard in door.ask(Status())["shards"])
            pa.ipc.read_schema(pa.py_buffer(b64decode(door.ask(Describe(NAME)))))
        except (CanalGroupError, KeyError):
            full = False
        if full:
            door.close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"no rows within {_READY_S:g} s")


@contextmanager
def _query(running: Instance, query_options: Mapping[str, str]) -> Iterator[Any]:
    # Imported here, so that the other benchmarks do not wait for Spark to load.
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
    source_options = {"gateway": running.uri, "destination": DESTINATION, "client": _CLIENT, "table": NAME}
    frame = (
        spark.readStream.format("canal_group")
        .options(**source_options, **_MICRO_BATCH, **query_options)
        .load()
    )
    with tempfile.TemporaryDirectory(prefix="cg-spark-") as folder:
        writing = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writing.start()
        try:
            yield query
        finally:
            query.stop()
            spark.stop()


# ---- processes ---------------------------------------------------------------------------------------------


def _clock(running: Instance) -> Callable[[], dict[str, float]]:
    """Return a function that tells the processor time of each kind of process from now on, seconds."""
    door = GatewayClient(running.uri, DESTINATION)
    status = door.ask(Status())
    door.close()
    kinds = {shard["pid"]: "shards" for shard in status["shards"]}
    kinds |= {status["group"]["pid"]: "group", status["gateway"]["pid"]: "gateway"}
    begun = {pid: cpu_s(pid) for pid in kinds | _sparks()}

    def spent() -> dict[str, float]:
        seconds: dict[str, float] = {}
        for pid, kind in (kinds | _sparks()).items():
            seconds[kind] = seconds.get(kind, 0.0) + cpu_s(pid) - begun.get(pid, 0.0)
        return seconds

    return spent


def _memory() -> dict[str, float]:
    """Return the peak memory of the JVM, of its driver's Python and of the largest worker, MiB."""
    peaks: dict[str, float] = {}
    for pid, kind in _sparks().items():
        peaks[kind] = max(peaks.get(kind, 0.0), peak_rss_mib(pid))
    return {f"{kind}_mib": peak for kind, peak in peaks.items() if kind != "client"}


def _sparks() -> dict[int, str]:
    """Return this process, which is the client, and its descendants of Spark, by their role."""
    parents, kinds = {}, {os.getpid(): "client"}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] != os.getpid():
            line.append(parents[line[-1]])
        kind = _kind(pid) if line[-1] == os.getpid() else ""
        if kind:
            kinds[pid] = kind
    return kinds


def _kind(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    if "org.apache.spark.deploy.SparkSubmit" in words:
        return "jvm"
    if "pyspark.sql.streaming.python_streaming_source_runner" in words:
        return "driver_python"
    return "python_worker" if words[-2:-1] == ["pyspark.worker"] else ""
