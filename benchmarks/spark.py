"""Spark: how fast a streaming query drains the backlog of four servers, compared with the Arrow client.

Both read the same binlogs through an instance of their own, whose rings are full when they begin. Both are
measured after their first batch: the client until it has acknowledged the last row, the query until the
commit of the last micro-batch into Spark's `noop` sink. Spark runs as `local[2]` with its default settings.
Rings and micro-batches are as docs/spark.md advises for a large backlog. The JVM compiles while the first
queries run, so there are several: one to warm it up, which writes rows to Parquet, two with selected columns,
and one for all other figures. Beside each one Spark reads the same rows from these Parquet files, and as
ready Arrow batches (`_spark_bounds`).

Then the query continues with micro-batches of few rows and of none. Their time, less the wait for rows, is
the cost of a micro-batch.
"""

from __future__ import annotations

import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from benchmarks._load import BULK_ROWS, NAME, SCHEMA, SHARDS, await_until, cpus, fill, servers
from benchmarks._pipeline import DESTINATION, OUTSTANDING, consumer, instance
from benchmarks._spark_bounds import bounds
from benchmarks._spark_session import CORES, Clock, Reading, memory_mib, session
from canal_group.actors.driver.instance import Instance
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Describe, Status
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.position import GroupPosition
from canal_group.spark import read_stream
from playground.database.server_process import DatabaseServer

_ROWS = 8_000_000
_CLIENT = "spark"
_READY_S, _END_S, _SILENCE_S = 60.0, 240.0, 60.0
#: micro-batches of few rows, and of none
_SMALL = 10
_ALL = "20_columns"
#: columns as in real queries: a few, without most of the added columns, and all of them
_SELECTIONS = {
    "4_columns": "id,amount,_change_type,_seq",
    "8_columns": "id,customer,amount,state,quantity,changed_at,_change_type,_seq",
    _ALL: "",
}
#: rings that hold the next micro-batches while Spark processes one, and 0.7 of a backlog of `_ROWS`, KiB
_RING_KIB = 1 << 17
_MICRO_BATCH_ROWS, _MICRO_BATCH_BYTES = 2_000_000, 1 << 29
#: micro-batches of a backlog at least, of which the first one is not measured
_MICRO_BATCHES = 4


def measure(size: float) -> dict[str, Any]:
    """Return the cost of each selection of columns, here and beside it; of a micro-batch; and memory."""
    with servers() as made, tempfile.TemporaryDirectory(prefix="cg-spark-") as folder:
        backlog = fill(made, "bulk", int(_ROWS * size) // SHARDS // BULK_ROWS)
        client = _client(made, backlog.rows)
        parquet = Path(folder, "rows")
        _save(made, parquet, backlog.rows)
        figures: dict[str, Any] = {}
        for name, columns in _SELECTIONS.items():
            reading, micro_batches = _spark(made, backlog.rows, columns, then_small=name == _ALL)
            others = {"arrow_client": client, **bounds(parquet, columns)}
            figures[name] = reading.figures()
            for other, beside in others.items():
                figures[name][f"ratio_to_{other}"] = round(reading.rows_per_s / beside.rows_per_s, 3)
                figures[name][other] = beside.figures()
            figures |= micro_batches if name == _ALL else {}
    return {**figures, "rows": backlog.rows, "cpus": cpus()}


def _rings(rows: int) -> dict[str, int]:
    """Return the settings of rings that hold about the same part of any backlog up to `_ROWS`."""
    return {"size": min(_RING_KIB, 1 << (_RING_KIB * rows // _ROWS).bit_length() - 1)}


def _client(made: Sequence[DatabaseServer], rows: int) -> Reading:
    with instance(made, store=_rings(rows)) as running:
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
            return Reading(seen - first, time.monotonic() - since_s, clock.spent_s())


def _save(made: Sequence[DatabaseServer], parquet: Path, rows: int) -> None:
    """Write the rows of a micro-batch to Parquet files."""
    with _query(made, rows, "", parquet) as (_, query):
        _until(query, bool)


def _spark(
    made: Sequence[DatabaseServer], rows: int, columns: str, *, then_small: bool
) -> tuple[Reading, dict[str, float]]:
    """Return how a query drained the backlog into `noop`, its micro-batches and the memory."""
    with _query(made, rows, columns, None) as (running, query):
        first = _until(query, bool)[0]
        clock = _clock(running)
        batches = _until(query, lambda batches: _rows_until(batches[-1]) >= rows)
        spent, count = clock.spent_s(), _rows_until(batches[-1])
        if count != rows:
            raise RuntimeError(f"{count} of {rows} rows came")
        reading = Reading(rows - _rows_until(first), _end_s(batches[-1]) - _end_s(first), spent)
        figures = {"micro_batches": len(batches), "micro_batch_ms": median(map(_cost_ms, batches))}
        small = _small(made, query, len(batches)) if then_small else {}
        return reading, figures | small | memory_mib()


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


def _rows_until(progress: Mapping[str, Any]) -> int:
    """Return the number of rows up to the end of a micro-batch."""
    return GroupPosition.from_json(progress["sources"][0]["endOffset"]).sequence


def _end_s(progress: Mapping[str, Any]) -> float:
    begun = datetime.fromisoformat(progress["timestamp"])
    return float(begun.timestamp()) + float(progress["durationMs"]["triggerExecution"]) / 1000


def _wait_for_rows(running: Instance) -> None:
    """Wait until every shard has read rows of the table."""
    with closing(GatewayClient(running.uri, DESTINATION)) as client:

        def full() -> bool:
            try:
                pa.ipc.read_schema(pa.py_buffer(b64decode(client.ask(Describe(NAME)))))
                return all(shard["rows"] > 0 for shard in client.ask(Status())["shards"])
            except (CanalGroupError, KeyError):
                return False

        await_until(full, "no rows came", _READY_S)


@contextmanager
def _query(
    made: Sequence[DatabaseServer], rows: int, columns: str, parquet: Path | None
) -> Iterator[tuple[Instance, Any]]:
    """Run an instance and a query of it into `noop` or Parquet files."""
    options = {"destination": DESTINATION, "client": _CLIENT, "table": NAME, "partitions": str(CORES)}
    options |= {"maxRowsPerBatch": str(min(_MICRO_BATCH_ROWS, rows // _MICRO_BATCHES))}
    options |= {"maxBytesPerBatch": str(_MICRO_BATCH_BYTES), **({"columns": columns} if columns else {})}
    with (
        instance(made, store=_rings(rows)) as running,
        tempfile.TemporaryDirectory(prefix="cg-spark-") as folder,
    ):
        _wait_for_rows(running)
        with session() as spark:
            frame = read_stream(spark, {"gateway": running.uri, **options})
            writing = frame.writeStream.option("checkpointLocation", folder)
            writing = writing.format("parquet" if parquet else "noop")
            query = writing.start(str(parquet)) if parquet else writing.start()
            try:
                yield running, query
            finally:
                query.stop()


def _clock(running: Instance) -> Clock:
    with closing(GatewayClient(running.uri, DESTINATION)) as client:
        status = client.ask(Status())
    kinds = {shard["pid"]: "shards" for shard in status["shards"]}
    return Clock(kinds | {status["group"]["pid"]: "group", status["gateway"]["pid"]: "gateway"})
