"""When a query is started again for new columns, and when it is not; with a Spark that only says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from canal_group.merge.errors import ConfigError, SchemaMismatch, UsageError
from canal_group.spark import RESTARTS_MAX, run_evolving
from canal_group.spark.evolving import widened

GIVEN = {"gateway": "grpc://h:1", "destination": "shop", "client": "c", "table": "shop.orders"}
#: how Spark tells what the source raised
GROWN = StreamingQueryException(
    "[STREAM_FAILED] Query [id = 7] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR]"
    " Failed when Python streaming data source performs latestOffset: Traceback (most recent call last):\n"
    "canal_group.merge.errors.SchemaGrown: shop.orders has a column colour that the query's schema does not"
    " have.\n"
)


def schema(*names: str) -> StructType:
    return StructType([StructField(name, StringType()) for name in (*names, "_seq")])


@dataclass(frozen=True)
class Source:
    startOffset: str  # noqa: N815  Spark's names
    endOffset: str  # noqa: N815


@dataclass(frozen=True)
class Progress:
    sources: list[Source]


FINISHED, IDLE = Progress([Source("1", "2")]), Progress([Source("2", "2")])


@dataclass
class Query:
    """A query that ends with an error, or without."""

    error: Exception | None
    recentProgress: list[Progress] = field(default_factory=lambda: [IDLE, FINISHED])  # noqa: N815
    id: str = "7"
    stopped: bool = False

    def awaitTermination(self) -> None:  # noqa: N802
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Frame:
    schema: StructType

    def mapInArrow(self, _function: Any, schema: StructType) -> Frame:  # noqa: N802
        return Frame(schema)


class DataSources:
    def register(self, source: type[DataSource]) -> None:
        """Take a source, as Spark does."""


@dataclass
class Spark:
    """A Spark whose source describes one table after the other; the last one is described ever after."""

    tables: list[StructType]
    options_seen: list[dict[str, str]] = field(default_factory=list)
    described: int = 0
    dataSource: DataSources = field(default_factory=DataSources)  # noqa: N815

    @property
    def readStream(self) -> Reader:  # noqa: N802
        return Reader(self)


@dataclass
class Reader:
    spark: Spark
    name: str = ""

    def format(self, name: str) -> Reader:
        return replace(self, name=name)

    def options(self, **options: str) -> Reader:
        options.pop("row_schema", None)
        self.spark.options_seen.append(options)
        return self

    def load(self) -> Frame:
        if self.name == "canal_group_partitions":
            return Frame(StructType())
        assert self.name == "canal_group"
        self.spark.described += 1
        return Frame(self.spark.tables[min(self.spark.described, len(self.spark.tables)) - 1])


def starting(*queries: Query) -> tuple[list[list[str]], Callable[[Frame], Query]]:
    """Return the names of the columns of each run, and what starts one query after the other."""
    runs: list[list[str]] = []

    def start(frame: Frame) -> Query:
        runs.append(frame.schema.names)
        return queries[len(runs) - 1]

    return runs, start


def test_a_query_restarts_with_each_new_column_until_it_ends():
    spark = Spark([schema("id"), schema("id", "colour"), schema("size", "colour")])
    runs, start = starting(Query(GROWN), Query(GROWN), Query(None))
    run_evolving(spark, GIVEN, start)
    assert runs == [["id", "_seq"], ["id", "colour", "_seq"], ["id", "colour", "size", "_seq"]]
    assert all(options == {**GIVEN, "newColumns": "evolve"} for options in spark.options_seen)


def test_any_other_error_is_raised_as_it_is():
    error = StreamingQueryException(
        "canal_group.merge.errors.SchemaMismatch: Column price of shop.orders does not fit"
    )
    runs, start = starting(Query(error))
    with pytest.raises(StreamingQueryException) as caught:
        run_evolving(Spark([schema("id"), schema("id", "colour")]), GIVEN, start)
    assert caught.value is error
    assert len(runs) == 1
    runs, start = starting(Query(KeyError("theirs")))
    with pytest.raises(KeyError):
        run_evolving(Spark([schema("id"), schema("id", "colour")]), GIVEN, start)
    assert len(runs) == 1


def test_a_start_that_awaits_the_query_itself_is_restarted_too():
    tables, runs = Spark([schema("id"), schema("id", "colour")]), []

    def start(frame: Frame) -> Query:
        runs.append(frame.schema.names)
        if len(runs) == 1:
            raise GROWN
        return Query(None)

    run_evolving(tables, GIVEN, start)
    assert runs[-1] == ["id", "colour", "_seq"]


def test_a_column_that_the_sources_do_not_tell_ends_it_with_a_sentence():
    runs, start = starting(Query(GROWN))
    with pytest.raises(SchemaMismatch, match=r"Rows of shop\.orders have a column that neither") as caught:
        run_evolving(Spark([schema("id")]), GIVEN, start)
    assert caught.value.__cause__ is GROWN
    assert len(runs) == 1


def test_restarts_without_a_finished_micro_batch_are_bounded():
    tables = [schema("id", *(f"c{n}" for n in range(count))) for count in range(3 * RESTARTS_MAX)]
    runs, start = starting(*[Query(GROWN, [IDLE])] * len(tables))
    with pytest.raises(SchemaMismatch, match=f"was started again {RESTARTS_MAX} times for new columns"):
        run_evolving(Spark(tables), GIVEN, start)
    assert len(runs) == 1 + RESTARTS_MAX
    idle = [Query(GROWN, [])] * RESTARTS_MAX
    runs, start = starting(*idle, Query(GROWN), *idle, Query(None))
    run_evolving(Spark(tables), GIVEN, start)
    assert len(runs) == 2 + 2 * RESTARTS_MAX, "a finished micro-batch begins the count anew"


def test_a_query_that_is_started_from_another_checkpoint_is_stopped():
    other = Query(None, id="8")
    _, start = starting(Query(GROWN), other)
    with pytest.raises(UsageError, match="without the checkpoint that it had before"):
        run_evolving(Spark([schema("id"), schema("id", "colour")]), GIVEN, start)
    assert other.stopped


def test_a_schema_that_is_given_has_its_columns_in_every_run():
    own_schema = StructType([StructField("gone", LongType()), StructField("id", IntegerType())])
    runs, start = starting(Query(GROWN), Query(None))
    run_evolving(Spark([schema("id"), schema("id", "colour")]), GIVEN, start, schema=own_schema)
    assert runs == [["gone", "id", "_seq"], ["gone", "id", "colour", "_seq"]]


def test_other_treatments_of_new_columns_are_refused():
    with pytest.raises(ConfigError, match="cannot run a query with newColumns=ignore"):
        run_evolving(Spark([]), {**GIVEN, "NewColumns": "ignore"}, lambda _: None)
    runs, start = starting(Query(None))
    run_evolving(Spark([schema("id")]), {**GIVEN, "newcolumns": "Evolve"}, start)
    assert len(runs) == 1


def test_a_schema_only_grows_and_columns_keep_their_types():
    before = StructType([StructField("id", IntegerType()), StructField("gone", LongType()), *schema()])
    now = StructType([StructField("ID", LongType()), StructField("new", LongType()), *schema()])
    wider = widened(before, now)
    assert [(each.name, type(each.dataType)) for each in wider] == [
        ("id", IntegerType),
        ("gone", LongType),
        ("new", LongType),
        ("_seq", StringType),
    ]
    assert widened(wider, now) == wider
