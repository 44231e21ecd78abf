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

Partitions are chosen by hash codes as Java's String.hashCode computes them: h = 31 * h + c over the UTF-16
code units c of the text, in signed integers of 32 bits that overflow. So h = sum of c[i] * 31^(length - 1 -
i), which needs no loop over the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from canal_group.conf.relay.relay_settings import RouteSettings
from canal_group.merge.errors import ConfigError
from canal_group.merge.rows.table_filter import TableFilter
from canal_group.merge.values.chunk import TableName, names_of
from canal_group.programs.output.routing.name_rule import NameRule, TopicRule, split_rules
from canal_group.shapes.maps import value_of

#: stands for the columns of the primary key
_PRIMARY_KEY = "$pk$"


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """An expression of `partition_hash` and what it hashes.

    `table`: the table's name. `table:$pk$`: the primary key's columns. `table:a^b`: these columns.
    """

    names: NameRule
    #: the columns; None: the primary key's; empty: no column, but the table's name
    columns: tuple[str, ...] | None

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the rule that a text says.

        Raises:
            ConfigError: it has an empty part, or no regular expression where one has to be.
        """
        expression, colon, names = (part.strip() for part in text.rpartition(":"))
        if not colon:
            return cls(NameRule(names, "partition_hash"), ())
        columns = tuple(part.strip() for part in names.split("^") if part.strip())
        if not expression or not columns:
            raise ConfigError(
                f"{text!r} in partition_hash has an empty part.",
                hint=r"Expected shop\.orders:id^buyer, shop\.orders:$pk$, or shop\.orders to hash the name.",
                setting="partition_hash",
            )
        key = None if names.lower() == _PRIMARY_KEY else columns
        return cls(NameRule(expression, "partition_hash"), key)


@dataclass(frozen=True, slots=True)
class CountRule:
    """An expression of `dynamic_topic_partitions`: how many partitions topics have."""

    names: NameRule
    count: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the rule that a text says.

        Raises:
            ConfigError: it is not `topic:number`.
        """
        expression, _, number = (part.strip() for part in text.rpartition(":"))
        if not expression or not number.isdecimal() or not int(number):
            raise ConfigError(
                f"{text!r} in dynamic_topic_partitions is not a topic and its number of partitions.",
                hint="Expected shop_orders:6, or a regular expression on topics: shop_.*:6.",
                setting="dynamic_topic_partitions",
            )
        return cls(NameRule(expression, "dynamic_topic_partitions"), int(number))


_ASCII_END, _FOLLOWING, _FOLLOWING_END, _FOUR_BYTES = 0x80, 0x80, 0xC0, 0xF0


def java_hash(texts: Any) -> NDArray[np.int32]:
    """Return the hash code of each text; 0 for null and for empty text.

    Args:
        texts: (n,) utf8 Array.

    Returns:
        (n,) int32.
    """
    units, ends = _code_units(texts.fill_null(""))
    lengths = np.diff(ends)
    hashes = np.zeros(len(lengths), np.uint32)
    filled = np.flatnonzero(lengths)
    if len(filled):
        exponents = np.repeat(ends[1:] - 1, lengths) - np.arange(len(units))
        terms = units.astype(np.uint32) * _powers(int(lengths.max()).bit_length())[exponents]
        hashes[filled] = np.add.reduceat(terms, ends[:-1][filled])
    return hashes.view(np.int32)


def java_modulus(hashes: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Return canal's partition of each hash code: Math.abs(Math.abs(hash) % count).

    Math.abs of the least integer is that integer itself; the second one makes its remainder positive.
    """
    wide = hashes.astype(np.int64)
    return np.abs(wide) % count


@lru_cache(maxsize=32)
def _powers(bits: int) -> NDArray[np.uint32]:
    """Return 31^0, 31^1, ... of 2^bits texts' lengths, modulo 2^32."""
    powers = np.full(1 << bits, 31, np.uint32)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32)


def _code_units(texts: Any) -> tuple[NDArray[np.uint8 | np.uint16], NDArray[np.int64]]:
    """Return the UTF-16 code units of all texts one after the other, and (n + 1,) where each begins."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1].astype(np.int64)
    begin, end = int(ends[0]), int(ends[-1])
    octets = np.frombuffer(data, np.uint8)[begin:end] if end > begin else np.empty(0, np.uint8)
    ends -= begin
    if not (octets >= _ASCII_END).any():
        return octets, ends
    # A character's first byte counts one unit, of a four-byte character two; its other bytes count zero.
    following = (octets >= _FOLLOWING) & (octets < _FOLLOWING_END)
    counts = np.where(following, 0, np.where(octets >= _FOUR_BYTES, 2, 1))
    before = np.concatenate(([0], np.cumsum(counts)))
    return np.frombuffer(octets.tobytes().decode().encode("utf-16-le"), "<u2"), before[ends]


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
    """The rules' decision for one table."""

    topic: str
    #: partitions of the topic
    count: int
    #: what is hashed, see `PartitionRule.columns`
    columns: tuple[str, ...] | None
    #: partition of every change of the table; None: chosen by hash
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
