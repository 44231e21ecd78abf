"""What Spark does with the same rows if nothing has to be read from a stream: the bounds of the figures.

    parquet   Spark's own vectorised reader, which decodes into columns and makes each row once
    ready     a Python data source whose workers yield Arrow batches from a file: no Python source is faster
    mapped    the same batches from a function of `mapInArrow`

Each is a batch query into Spark's `noop` sink.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from benchmarks._spark_session import CORES, Clock, Reading, session
from canal_group.spark.source import BATCH_ROWS

#: the first ones compile
_RUNS = 3


def bounds(parquet: Path, columns: str) -> dict[str, Reading]:
    """Return how fast Spark reads rows, by the way of reading.

    Args:
        parquet: a folder with the rows, written by Spark.
        columns: names of the columns to read, separated by commas; empty: all.
    """
    with session() as spark:
        spark.dataSource.register(_Ready)
        rows = spark.read.parquet(str(parquet))
        count = rows.count()
        frame = rows.select(*columns.split(",")) if columns else rows
        batches = parquet / "_batches.arrow"
        saved = _save(rows.inputFiles()[0].removeprefix("file://"), frame.schema, batches)
        times = max(1, round(count / saved / CORES))
        ready = spark.read.format("ready").schema(frame.schema).options(path=str(batches), times=times)
        parts = spark.range(0, CORES, 1, CORES)
        mapped = parts.mapInArrow(partial(_mapped, str(batches), times), frame.schema)
        yielded = saved * times * CORES
        return {
            "parquet": _timed(frame, count),
            "ready": _timed(ready.load(), yielded),
            "mapped": _timed(mapped, yielded),
        }


def _save(parquet: str, schema: StructType, target: Path) -> int:
    """Write the rows of a file as Arrow batches; return how many there are."""
    kind = to_arrow_schema(schema, timezone="UTC")
    table = pq.read_table(parquet, columns=kind.names).cast(kind)
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, kind) as writer:
        writer.write_table(table.combine_chunks(), BATCH_ROWS)
    return len(table)


def _batches(path: str, times: int) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as file:
        table = pa.ipc.open_file(file).read_all()
        for _ in range(times):
            yield from table.to_batches()


def _mapped(path: str, times: int, partition: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in partition:
        yield from _batches(path, times)


class _Ready(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """Batches of a file, as often as `times` says."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return _ReadyReader(self.options["path"], int(self.options["times"]))


class _ReadyReader(DataSourceReader):  # type: ignore[misc]  # likewise
    def __init__(self, path: str, times: int) -> None:
        self._path = path
        self._times = times

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(index) for index in range(CORES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        del partition
        return _batches(self._path, self._times)


def _timed(frame: Any, count: int) -> Reading:
    for _ in range(_RUNS):
        clock, since_s = Clock({}), time.monotonic()
        frame.write.format("noop").mode("overwrite").save()
        reading = Reading(count, time.monotonic() - since_s, clock.spent_s())
    return reading
