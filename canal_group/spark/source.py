"""The data source: answer Spark's calls with a session, a schema and parts to read.

Spark takes PYSPARK_PYTHON, or else `python3`, which is often another interpreter than that of a virtual
environment. Its workers then fail one after the other, with tracebacks of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from canal_group.gateway.retry import keep_trying
from canal_group.merge.calls.consumers import Describe
from canal_group.merge.errors import ConfigError, RetryableError
from canal_group.merge.values.position import GroupPosition
from canal_group.spark.bounded import Bounds, bounded
from canal_group.spark.options import EVOLVE, Options, as_offset, first_of, from_offset
from canal_group.spark.reading import RangePart, parts, read_part
from canal_group.spark.session import UNBOUNDED, Session
from canal_group.spark.shapes import (
    FIXED,
    check_columns,
    envelope_rows,
    spark_fields,
    table_schema,
    typed_rows,
)

_VARIABLE: Final = "PYSPARK_PYTHON"
#: imports of workers beyond Spark's own
_NEEDED: Final = ("canal_group", "numpy", "pyarrow")
#: prints an interpreter's version, and what it lacks; runs on any Python 3
_ASK: Final = (
    "import importlib.util as u, json, sys; "
    f"print(json.dumps(['%d.%d' % sys.version_info[:2], [n for n in {_NEEDED!r} if u.find_spec(n) is None]]))"
)
#: how long an interpreter may take to answer, seconds
_ANSWER_S: Final = 30.0


def choose_interpreter() -> None:
    """Let the workers of a local Spark use this interpreter; check the one that PYSPARK_PYTHON names.

    It does nothing on a cluster, whose machines have paths of their own, and where no Spark runs in this
    process, as in the workers themselves.

    Raises:
        ConfigError: the interpreter of PYSPARK_PYTHON does not run, has another version, or lacks a package.
    """
    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - the public way starts one
    if context is None or not context.master.startswith("local"):
        return
    if _VARIABLE not in os.environ:
        context.pythonExec = sys.executable
    elif context.pythonExec != sys.executable:
        _check(context.pythonExec)


def _check(program: str) -> None:
    hint = f"Unset {_VARIABLE}, or set it to {sys.executable}."
    try:
        done = subprocess.run(  # noqa: S603 - Spark runs it next
            [program, "-c", _ASK], capture_output=True, timeout=_ANSWER_S, check=True
        )
        version, missing = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ConfigError(f"Spark's workers cannot run {program}: {error}.", hint=hint) from error
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != ours:
        raise ConfigError(f"Spark's workers run {program}, Python {version}, the driver {ours}.", hint=hint)
    if missing:
        raise ConfigError(f"Spark's workers run {program}, which lacks {', '.join(missing)}.", hint=hint)


#: rows of one Arrow batch that is passed to Spark
BATCH_ROWS = 32_768


class CanalGroupDataSource(DataSource):  # type: ignore[misc]  # pyspark is not followed
    """Spark's `canal_group`: register it with `spark.dataSource.register`.

    Args:
        options: see `canal_group.spark.options.Options`; Spark passes them as text.

    Raises:
        ConfigError: an option is missing, unknown or invalid.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._options = Options.from_spark(options)

    @classmethod
    def name(cls) -> str:
        """Return the source's name, for `format`; registering asks for it, and so chooses the interpreter.

        Raises:
            ConfigError: see `choose_interpreter`.
        """
        choose_interpreter()
        return "canal_group"

    def schema(self) -> StructType:
        """Return the schema: that of the table in its sources now, or that of the format.

        Raises:
            UsageError: no shard has such a table.
            SchemaMismatch: the shards' columns cannot be merged.
            ConfigError: TLS to the gateway is misconfigured.
        """
        fixed = FIXED.get(self._options.format)
        return _spark(fixed if fixed is not None else self._typed_schema())

    def _typed_schema(self) -> pa.Schema:
        options = self._options
        table = options.table
        with closing(options.gateway_client()) as gateway_client:
            columns = keep_trying(
                lambda: gateway_client.ask_for(Describe(table, options.client), _columns),
                (RetryableError,),
                time.monotonic() + options.retry_s,
                threading.Event().wait,
            )
        return table_schema(spark_fields(columns, options.unsigned_bigint), table, options.columns)

    def reader(self, schema: StructType) -> RangeReader:
        """Return a reader of the rows between `startingPosition` and `endingPosition`."""
        return RangeReader(self._options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return a reader of the stream."""
        return StreamReader(self._options, schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # likewise
    """Plans micro-batches on the driver and reads their parts on executors.

    Args:
        options: of the query.
        schema: what the query wants to see.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._session = Session(options)
        #: the query's start, during its first micro-batch
        self._first: GroupPosition | None = None
        #: end of the last micro-batch whose columns were checked
        self._checked: GroupPosition | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options, self._schema)

    # ---- on the driver ---------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a query without a checkpoint."""
        self._first = self._session.begin()
        return as_offset(self._first)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the row limit of a micro-batch; `maxBytesPerBatch` limits it too."""
        return ReadMaxRows(self._options.max_rows_per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch; `start` if there are no rows yet.

        Raises:
            SchemaGrown: with `newColumns=evolve`, its rows have a column that the query lacks. Nothing of it
                was read, and the checkpoint does not know it.
        """
        rows_max, bytes_max = self._options.max_rows_per_batch, self._options.max_bytes_per_batch
        match limit:
            case ReadAllAvailable():
                rows_max = bytes_max = UNBOUNDED
            case ReadMaxRows(max_rows=rows):
                rows_max = rows
            case ReadMaxBytes(max_bytes=size):
                bytes_max = size
        begin = from_offset(start)
        end = self._session.next(begin, rows_max, bytes_max)
        if end == begin:
            return start
        self._check_columns(begin, end)
        first, self._first = self._first, None
        return as_offset(end, first if first == begin else None)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the sources' binlogs end, for the query's progress."""
        latest = self._session.latest()
        return None if latest is None else as_offset(latest)

    def prepareForTriggerAvailableNow(self) -> None:
        """Plan nothing that is committed after now."""
        self._session.end_here()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return contiguous runs of the rows between two offsets."""
        begin, until = first_of(end) or from_offset(start), from_offset(end)
        if start == end:
            return []
        epoch, batch = self._session.plan(begin, until)
        self._check_columns(begin, until)
        return parts(self._options, epoch, batch, self._options.partitions)

    def _check_columns(self, begin: GroupPosition, end: GroupPosition) -> None:
        """Check that the query has every column of a micro-batch's rows, if it is to evolve.

        Raises:
            SchemaGrown: it lacks one.
        """
        options = self._options
        if options.new_columns != EVOLVE or self._checked == end:
            return
        check_columns(self._session.columns(begin, end, options.table), options.table, self._schema.names)
        self._checked = end

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge what ends at `end`, unless the request for the next micro-batch has done so."""
        self._session.finish(from_offset(end))

    def stop(self) -> None:
        """Release the client id."""
        self._session.close()

    # ---- on executors ----------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part in merged order."""
        assert isinstance(partition, RangePart), "Spark hands back what `partitions` returned"
        for rows in read_part(partition, partial(shape, self._options, self._schema)):
            yield from rows.to_batches(BATCH_ROWS)


class RangeReader(DataSourceReader):  # type: ignore[misc]  # likewise
    """Reads the rows between two positions; tasks take turns in stretches of the merged order.

    Args:
        options: of the query.
        schema: what the query wants to see.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partition of each task. It is fixed here, so that a repeated task has the same rows."""
        with bounded(self._options) as session:
            return Bounds.of(session, self._options).shared(session, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task in merged order."""
        assert isinstance(partition, Bounds), "Spark hands back what `partitions` returned"
        clients = partition.clients(self._options)
        options = replace(self._options, client=clients[partition.task])
        with bounded(options, frozenset(clients) - {options.client}) as session:
            for part in partition.walk(session, options):
                for rows in read_part(part, partial(shape, options, self._schema)):
                    yield from rows.to_batches(BATCH_ROWS)


def shape(options: Options, schema: StructType, rows: pa.Table) -> pa.Table:
    """Return rows from the gateway in a query's schema."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    if options.format == "typed":
        return typed_rows(rows, options.table, arrow_schema, new_columns=options.new_columns)
    return envelope_rows(rows, options.format, arrow_schema)


def _columns(text: str) -> pa.Schema:
    """Return a table's columns, as the gateway describes them.

    Raises:
        ValueError, TypeError, pa.ArrowException: the text does not hold columns.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))
    except OSError as error:
        raise ValueError("these are not columns") from error


def _spark(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


__all__ = ["CanalGroupDataSource", "GroupPosition", "StreamReader"]
