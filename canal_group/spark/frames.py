"""DataFrames of the stream whose rows the JVM makes once: tasks read them in `mapInArrow`.

What a data source yields is made into rows twice, from Arrow to Spark's row, and from that row to one of the
query. What a function of `mapInArrow` returns is made into rows once. So the data source here yields the
partitions of a micro-batch, a row each, and the function reads their rows. Offsets, partitions and rows are
those of `CanalGroupDataSource`.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from canal_group.spark.source import CanalGroupDataSource, RangeReader, StreamReader

_FORMAT: Final = "canal_group_partitions"
#: option with the schema of the rows, JSON; the source's own schema is `_PARTITIONS`
_ROW_SCHEMA: Final = "row_schema"
_PARTITIONS = StructType([StructField("partition", BinaryType(), nullable=False)])
_ARROW = pa.schema([pa.field("partition", pa.binary(), nullable=False)])


def read_stream(spark: Any, options: Mapping[str, str], *, schema: StructType | None = None) -> Any:
    """Return the stream's DataFrame: the rows of `spark.readStream.format("canal_group")`, for less.

    A query's progress counts partitions where it counts rows (`numInputRows`).

    Args:
        spark: the session.
        options: of the source, see docs/spark.md.
        schema: what the query wants to see; None: what the sources have now.

    Raises:
        AnalysisException: the source refused the options, or found no such table; the message says which.
    """
    return _frame(spark, lambda: spark.readStream, options, schema)


def read(spark: Any, options: Mapping[str, str], *, schema: StructType | None = None) -> Any:
    """Return the DataFrame of a bounded read: the rows of `spark.read.format("canal_group")`, for less.

    Args:
        spark: see `read_stream`.
        options: see `read_stream`.
        schema: see `read_stream`.

    Raises:
        AnalysisException: see `read_stream`.
    """
    return _frame(spark, lambda: spark.read, options, schema)


def _frame(
    spark: Any, reader: Callable[[], Any], options: Mapping[str, str], schema: StructType | None
) -> Any:
    for source in (CanalGroupDataSource, _PartitionSource):
        spark.dataSource.register(source)
    if schema is None:
        schema = reader().format(CanalGroupDataSource.name()).options(**options).load().schema
    partitions = reader().format(_FORMAT).options(**options, **{_ROW_SCHEMA: schema.json()}).load()
    return partitions.mapInArrow(_rows, schema)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for value in batch.column(0).to_pylist():
            reader, partition = pickle.loads(value)  # noqa: S301 - written by `_packed` of the same query
            yield from reader.read(partition)


def _packed(reader: RangeReader | StreamReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield a partition and what reads it as a row."""
    yield pa.record_batch([pa.array([pickle.dumps((reader, partition))], pa.binary())], schema=_ARROW)


class _PartitionSource(CanalGroupDataSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({name: text for name, text in options.items() if name.lower() != _ROW_SCHEMA})
        self._rows = StructType.fromJson(json.loads(options[_ROW_SCHEMA]))

    @classmethod
    def name(cls) -> str:
        super().name()
        return _FORMAT

    def schema(self) -> StructType:
        return _PARTITIONS

    def reader(self, schema: StructType) -> RangeReader:
        assert schema == _PARTITIONS
        return _RangePartitions(self._options, self._rows)

    def streamReader(self, schema: StructType) -> StreamReader:
        assert schema == _PARTITIONS
        return _StreamPartitions(self._options, self._rows)


class _RangePartitions(RangeReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _packed(RangeReader(self._options, self._schema), partition)


class _StreamPartitions(StreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _packed(StreamReader(self._options, self._schema), partition)
