"""The router: topic and partition of each change, by canal's rules.

Topic, with `dynamic_topic`: the first rule that is for the table, else the first one for its schema, else
`topic`. A dot becomes an underscore; what a rule does not name is called as the table or schema, in lower
case. Statements on a schema as a whole go to `topic`. A statement on several tables goes to the topic of each
of them that is kept and read, once.

Partition, with `partition_hash`: the first rule that is for the table says what is hashed. Columns: their
values in the row after the change, for a delete in the row before it, each hashed as Java does and joined by
exclusive or; the schema's name as well with `database_hash`. The remainder of the division by the number of
partitions is the partition. Tables without a rule and statements go to partition 0. Without `partition_hash`
all go to `partition`.

An update that changes a hashed column goes to the partition of the new value, after what that partition has
already. What the old partition has of the row came before it in the merged stream, and nothing of the row
follows there under the old value. `Routes.moved_from` names that partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.conf.relay.relay_settings import RouteSettings
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.values.chunk import TableName, names_of
from canal_group.programs.output.routing.java_hash import java_hash, java_modulus
from canal_group.programs.output.routing.name_rule import TopicRule, split_rules
from canal_group.programs.output.routing.partition_rule import CountRule, PartitionRule
from canal_group.shapes.maps import value_of

#: tables whose routes are remembered
_TABLES_KEPT = 65_536


@dataclass(frozen=True, slots=True)
class Routes:
    """Where n changes go."""

    #: names of topics
    topics: tuple[str, ...]
    #: (n,) index into `topics`
    topic: NDArray[np.int32]
    #: (n,)
    partition: NDArray[np.int32]
    #: (n,) where a change would have gone by the row before it, if that is another partition; else -1
    moved_from: NDArray[np.int32]

    def take(self, indexes: NDArray[np.int64]) -> Routes:
        """Return where some of the changes go."""
        columns = self.topic[indexes], self.partition[indexes], self.moved_from[indexes]
        return Routes(self.topics, *columns)


@dataclass(frozen=True, slots=True)
class TableRoute:
    """What the rules say of one table."""

    topic: str
    #: partitions of the topic
    count: int
    #: what is hashed, see `PartitionRule.columns`
    columns: tuple[str, ...] | None
    #: the partition of all its changes; None: they are hashed
    fixed: int | None


class Router:
    """Rules of topics and partitions.

    Args:
        settings: topics and partitions.
        table_filter: which tables are read; empty: every table.

    Raises:
        ConfigError: a rule is none.
    """

    def __init__(self, settings: RouteSettings, *, table_filter: str = "") -> None:
        #: which tables are read: statements name others as well
        self._filter = TableFilter(table_filter)
        self._settings = settings
        self._topic_rules = [TopicRule.of(rule) for rule in split_rules(settings.dynamic_topic)]
        self._partition_rules = [PartitionRule.of(rule) for rule in split_rules(settings.partition_hash)]
        self._count_rules = [CountRule.of(rule) for rule in split_rules(settings.dynamic_topic_partitions)]
        #: the first table that was seen of each topic
        self._tables: dict[str, TableName] = {}
        self._route_of: Callable[[str, str], TableRoute] = lru_cache(_TABLES_KEPT)(self._table_route)

    def routes(self, rows: pa.Table) -> Routes:
        """Return where changes go.

        Args:
            rows: (n,) Table of `canal_group.merge.rows.envelope.ENVELOPE` with tidy maps
                (`canal_group.shapes.maps`).
        """
        count = len(rows)
        topics: dict[str, int] = {}
        topic, partition = np.zeros(count, np.int32), np.zeros(count, np.int32)
        moved_from = np.full(count, -1, np.int32)
        for name, indexes in _by_table(rows):
            route = self._route_of(*name)
            topic[indexes] = topics.setdefault(route.topic, len(topics))
            if route.fixed is not None:
                partition[indexes] = route.fixed
                continue
            changes = indexes[pc.is_null(rows.column("sql").take(pa.array(indexes))).to_numpy()]
            if len(changes):
                theirs = rows if len(changes) == count else rows.take(pa.array(changes))
                partition[changes], moved_from[changes] = self._hashed(theirs, name.schema, route)
        return Routes(tuple(topics), topic, partition, moved_from)

    def table_of(self, topic: str) -> TableName | None:
        """Return a table whose changes go to a topic; None: none is remembered."""
        return self._tables.get(topic)

    def addressed(self, rows: pa.Table) -> tuple[pa.Table, Routes]:
        """Return changes and where they go; a statement comes once for each topic of its tables.

        Args:
            rows: see `routes`.
        """
        indexes = np.flatnonzero(pc.is_valid(rows.column("sql")).to_numpy())
        if not len(indexes):
            return rows, self.routes(rows)
        counts, names = np.ones(len(rows), np.int64), list[TableName]()
        statements = rows.select(["schema", "table", "tables"]).take(pa.array(indexes))
        for index, statement in zip(indexes, statements.to_pylist(), strict=True):
            addresses = self._one_of_each_topic(statement)
            counts[index] = len(addresses)
            names += addresses
        rows = rows.take(pa.array(np.repeat(np.arange(len(rows)), counts))).combine_chunks()
        addressed, is_said = rows, pc.is_valid(rows.column("sql").combine_chunks())
        for column in ("schema", "table"):
            texts = pa.array([getattr(name, column) for name in names], pa.utf8())
            replaced = pc.replace_with_mask(rows.column(column).combine_chunks(), is_said, texts)
            addressed = addressed.set_column(addressed.schema.get_field_index(column), column, replaced)
        return rows, self.routes(addressed)

    def _one_of_each_topic(self, statement: Mapping[str, Any]) -> list[TableName]:
        names = names_of(statement)
        by_topic: dict[str, TableName] = {}
        # What names no table that is read came all the same: it is for every reader, as a mark is.
        for name in [name for name in names if self._filter.matches(name)] or names:
            by_topic.setdefault(self._route_of(*name).topic, name)
        return list(by_topic.values())

    def _table_route(self, schema: str, table: str) -> TableRoute:
        topic = self._topic_of(schema, table)
        if len(self._tables) < _TABLES_KEPT:
            self._tables.setdefault(topic, TableName(schema, table))
        count = next(
            (rule.count for rule in self._count_rules if rule.names.matches(topic)), self._settings.partitions
        )
        if not self._partition_rules:
            return TableRoute(topic, count, (), self._settings.partition)
        name = f"{schema}.{table}"
        rule = next((rule for rule in self._partition_rules if rule.names.matches(name)), None)
        if rule is None:
            return TableRoute(topic, count, (), 0)
        return TableRoute(topic, count, rule.columns, None)

    def _topic_of(self, schema: str, table: str) -> str:
        if not self._topic_rules:
            return self._settings.topic
        if not schema or not table:
            return self._settings.topic.replace(".", "_")
        for name, is_table in ((f"{schema}.{table}", True), (schema, False)):
            for rule in self._topic_rules:
                if rule.matches(name, is_table=is_table):
                    return (rule.topic or name.lower()).replace(".", "_")
        return self._settings.topic.replace(".", "_")

    def _hashed(
        self, rows: pa.Table, schema: str, route: TableRoute
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the partitions of one table's row changes, and where they would have gone before."""
        rows = rows.combine_chunks()
        if route.columns == ():
            table = java_hash(rows.column("table").combine_chunks())
            return java_modulus(table, route.count).astype(np.int32), np.full(len(rows), -1, np.int32)
        before, after = (_image(rows, side) for side in ("before", "after"))
        names = route.columns
        if names is None:
            names = tuple(dict.fromkeys(_image(rows, "key").keys.to_pylist()))
        now = self._partitions_of(after, schema, names, route.count)
        was = self._partitions_of(before, schema, names, route.count)
        op = rows.column("op").combine_chunks()
        deleted = pc.equal(op, "DELETE").to_numpy(zero_copy_only=False)
        updated = pc.equal(op, "UPDATE").to_numpy(zero_copy_only=False)
        return np.where(deleted, was, now), np.where(updated & (was != now), was, np.int32(-1))

    def _partitions_of(
        self, images: Any, schema: str, names: tuple[str, ...], count: int
    ) -> NDArray[np.int32]:
        hashes = np.zeros(len(images), np.int32)
        if self._settings.database_hash:
            hashes ^= java_hash(pa.array([schema], pa.utf8()))
        for name in names:
            hashes ^= java_hash(value_of(images, name))
        return java_modulus(hashes, count).astype(np.int32)


def _by_table(rows: pa.Table) -> list[tuple[TableName, NDArray[np.int64]]]:
    """Return the row indexes of each table's changes, ascending, by its name."""
    codes = [pc.dictionary_encode(rows.column(name).combine_chunks()) for name in ("schema", "table")]
    schema, table = (code.indices.to_numpy().astype(np.int64) for code in codes)
    width = max(1, len(codes[1].dictionary))
    both = schema * width + table
    distinct, inverse = np.unique(both, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(distinct) + 1))
    schemas, tables = (code.dictionary.to_pylist() for code in codes)
    return [
        (TableName(schemas[code // width], tables[code % width]), order[bounds[index] : bounds[index + 1]])
        for index, code in enumerate(distinct.tolist())
    ]


def _image(rows: pa.Table, side: str) -> Any:
    return rows.column(side).combine_chunks()
