"""A query that goes on over new columns: it is started again with them, from its checkpoint.

Spark fixes a query's schema at its start, so a running query cannot gain a column. With `newColumns=evolve`
the source ends the query between two micro-batches, before it plans the first one whose rows have a column
that the schema lacks: nothing of that micro-batch was read, and the checkpoint does not know it. The query
that is started from this checkpoint with the wider schema reads it whole.

A schema only grows here. A column that was dropped stays and is null; a column whose type was changed keeps
the type that it had, and a value that does not fit ends the query with `SchemaMismatch`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.types import StructType

from canal_group.merge.errors import ConfigError, SchemaGrown, SchemaMismatch, UsageError
from canal_group.spark.frames import read_stream
from canal_group.spark.options import EVOLVE
from canal_group.spark.shapes import CHANGE

#: restarts in succession of a query that finishes no micro-batch between them
RESTARTS_MAX: Final = 10

#: what the text of an ended query has if the source ended it because of a new column
_GROWN = f"{SchemaGrown.__module__}.{SchemaGrown.__qualname__}: "

_log = logging.getLogger(__name__)


def run_evolving(
    spark: Any,
    options: Mapping[str, str],
    start: Callable[[Any], Any],
    *,
    schema: StructType | None = None,
) -> None:
    """Run a query until it ends, and start it again with a wider schema whenever its table gains a column.

    Nothing is lost or repeated over such a restart, beyond what the checkpoint guarantees over any restart.

    Args:
        spark: the session.
        options: of the source, see docs/spark.md; `newColumns` is set to `evolve`.
        start: starts the query on the DataFrame of `read_stream`, and returns the `StreamingQuery`. It is
            called again for each restart, and has to name the same `checkpointLocation` each time.
        schema: columns that the query has even if the table in the sources does not: such that rows may still
            have, but were dropped since. Their types win over those of the sources.

    Raises:
        StreamingQueryException: the query failed for any other reason.
        SchemaMismatch: a column of the rows is not in the sources any more; or the query finished no
            micro-batch between `RESTARTS_MAX` restarts.
        UsageError: the query was started again from another checkpoint, or from none.
        ConfigError: `newColumns` is given, and is not `evolve`.
    """
    texts = _evolving(options)

    def described() -> StructType:
        return read_stream(spark, texts).schema

    columns = described() if schema is None else widened(schema, described())
    restarts = Restarts(texts.get("table", ""), columns)
    while True:
        query = None
        try:
            query = start(read_stream(spark, texts, schema=restarts.schema))
            restarts.check_id(query)
            query.awaitTermination()
        except StreamingQueryException as error:
            restarts.decide(error, query, described)
        else:
            return


class Restarts:
    """Decides whether a query that has ended is started again, and with which schema.

    Args:
        table: "schema.table" that it reads, for messages.
        schema: what it begins with.
    """

    def __init__(self, table: str, schema: StructType) -> None:
        #: of the next run
        self.schema = schema
        self._table = table
        #: Spark's id of the query, which is in the checkpoint; empty before the first run
        self._query_id = ""
        #: restarts since a micro-batch was finished
        self._idle = 0

    def check_id(self, query: Any) -> None:
        """Check that a query was started from the checkpoint of its earlier runs; stop it if not.

        Raises:
            UsageError: it was not.
        """
        if self._query_id not in ("", query.id):
            query.stop()
            raise UsageError(
                f"The query on {self._table} was started again without the checkpoint that it had before.",
                hint="start must set the same checkpointLocation each time, or rows are lost or repeated.",
            )
        self._query_id = query.id

    def decide(
        self, error: StreamingQueryException, query: Any | None, described: Callable[[], StructType]
    ) -> None:
        """Widen the schema for the next run, or raise if there is to be none.

        Args:
            error: how the query ended.
            query: the query; None if it ended before it was returned.
            described: returns the schema that the sources tell now.

        Raises:
            StreamingQueryException: the query did not end because of a new column.
            SchemaMismatch: another run would not get any further.
        """
        if _GROWN not in str(error):
            raise error
        self._idle = 0 if query is not None and _advanced(query) else self._idle + 1
        if self._idle > RESTARTS_MAX:
            raise SchemaMismatch(
                f"The query on {self._table} was started again {RESTARTS_MAX} times for new columns without"
                " finishing a micro-batch.",
                hint="Start it again when the table is no longer being altered.",
                table=self._table,
            ) from error
        wider = widened(self.schema, described())
        added = [each for each in wider if each not in self.schema.fields]
        if not added:
            raise SchemaMismatch(
                f"Rows of {self._table} have a column that neither the query nor the table in the sources"
                " has.",
                hint="The query's error names it. It was dropped after these rows were written: give it to"
                " run_evolving as part of schema, or set newColumns to ignore until these rows are read.",
                table=self._table,
            ) from error
        names = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in added)
        _log.info("%s has new columns: %s; its query is started again", self._table, names)
        self.schema = wider


def widened(schema: StructType, described: StructType) -> StructType:
    """Insert the columns that only another schema has, in front of the columns that canal-group adds.

    Names that differ only in case are one column, as in MySQL and in Spark.
    """
    has = {each.name.lower() for each in schema}
    fields = [*schema, *(each for each in described if each.name.lower() not in has)]
    return StructType(sorted(fields, key=lambda each: each.name in CHANGE.names))


def _evolving(options: Mapping[str, str]) -> dict[str, str]:
    others = {name: value for name, value in options.items() if name.lower() != "newcolumns"}
    values = [str(value) for name, value in options.items() if name not in others]
    if any(value.lower() != EVOLVE for value in values):
        raise ConfigError(
            f"run_evolving cannot run a query with newColumns={values[0]}.",
            hint="Leave newColumns out, or start the query without run_evolving.",
        )
    return {**others, "newColumns": EVOLVE}


def _advanced(query: Any) -> bool:
    return any(
        source.startOffset != source.endOffset
        for progress in query.recentProgress
        for source in progress.sources
    )
