"""Joined schemas of four shards whose tables are altered by random DDL, at lags of their own.

The model keeps, for each shard, the definitions that its table has had; it knows Arrow's types, and not how
they are joined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from support.rows.batch_rows import batch, column, headers, table
from support.soak import cases

from canal_group.actors.gateway.joined_schemas import JoinedSchemas
from canal_group.merge.errors import SchemaMismatch
from canal_group.merge.rows.assemble import BatchRows, ShardRows
from canal_group.merge.rows.chosen_types import TypeOverrides
from canal_group.merge.rows.joined import Definition
from canal_group.merge.values.chunk import Op, TableName

ORDERS = TableName("shop", "orders")
SHARDS = 4
#: a column's type in MySQL, in Arrow, and a value that no narrower type holds
KINDS: dict[str, tuple[Any, Any]] = {
    "tinyint": (pa.int8(), -128),
    "int": (pa.int32(), -(2**31)),
    "int unsigned": (pa.uint32(), 2**32 - 1),
    "bigint": (pa.int64(), -(2**63)),
    "bigint unsigned": (pa.uint64(), 2**64 - 1),
    "decimal(9,3)": (pa.decimal128(9, 3), Decimal("-999999.999")),
    "float": (pa.float32(), 0.5),
    "varchar(20)": (pa.utf8(), "twenty"),
    "datetime": (pa.timestamp("us"), None),
}
NUMBERS = ["tinyint", "int", "int unsigned", "bigint", "bigint unsigned", "decimal(9,3)"]
NAMES = ("a", "b", "c", "d", "e")


@dataclass
class Shard:
    """A table of one shard: what it is now, and what was written to it and not delivered yet."""

    name: str
    columns: dict[str, str] = field(default_factory=lambda: {"id": "bigint"})
    #: definition, and the row
    waiting: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)

    def write(self, number: int) -> None:
        row = {name: KINDS[kind][1] for name, kind in self.columns.items()} | {"id": number}
        self.waiting.append((dict(self.columns), row))


def alter(shard: Shard, data: st.DataObject, kinds: list[str]) -> None:
    """Do one of ADD, DROP, MODIFY, RENAME and a change of a name's case."""
    others = [name for name in shard.columns if name != "id"]
    absent = [name for name in NAMES if name not in {each.lower() for each in others}]
    change = data.draw(st.sampled_from(["add", "drop", "modify", "rename", "case"]))
    if change == "add" and absent:
        shard.columns[data.draw(st.sampled_from(absent))] = data.draw(st.sampled_from(kinds))
    elif others and change != "add":
        name = data.draw(st.sampled_from(others))
        if change == "drop":
            del shard.columns[name]
            return
        new = {"rename": absent[0] if absent else name, "case": name.swapcase()}.get(change, name)
        kind = data.draw(st.sampled_from(kinds)) if change == "modify" else shard.columns[name]
        shard.columns = {
            new if each == name else each: kind if each == name else said
            for each, said in shard.columns.items()
        }


def defined(name: str, columns: dict[str, str]) -> Definition:
    return Definition(name, pa.schema([column(each, KINDS[kind][0], kind) for each, kind in columns.items()]))


def delivered(parts: list[tuple[Shard, list[tuple[dict[str, str], dict[str, Any]]]]]) -> BatchRows:
    """Return a batch of some waiting rows of each shard, each a transaction, one shard after another."""
    records, contents = [], []
    for index, (_, rows) in enumerate(parts):
        tables = []
        for sequence, (columns, row) in enumerate(rows):
            records.append({"shard": index, "sequence": sequence})
            kinds = [column(name, KINDS[kind][0], kind) for name, kind in columns.items()]
            tables.append(table(ORDERS, kinds, [(sequence, 0, Op.INSERT, None, row)]))
        contents.append(ShardRows(tuple(tables)))
    made = batch(headers(*records), *contents[:0])
    return BatchRows(made.order, tuple(contents), tuple(shard.name for shard, _ in parts), made.names, 0)


def joinable(kinds: set[str]) -> bool:
    """Whether one type takes the values of all: numbers without a float, floats and integers, or one type."""
    if len(kinds) == 1 or kinds <= set(NUMBERS):
        return True
    return kinds <= {*NUMBERS, "float"} - {"decimal(9,3)"}


def check(result: pa.Table, rows: list[dict[str, Any]], expected: set[str]) -> None:
    """Compare a typed table with the rows of the model, and its columns' names with the expected ones."""
    result.validate(full=True)
    own = [name for name in result.schema.names if not name.startswith("_")]
    assert sorted(name.lower() for name in own) == sorted(expected)
    for name in own:
        wanted = [{key.lower(): value for key, value in row.items()}.get(name.lower()) for row in rows]
        assert result.column(name).to_pylist() == wanted, name


@settings(max_examples=cases(500))
@given(st.data())
def test_the_joined_schema_is_what_all_delivered_rows_and_definitions_need(data: st.DataObject) -> None:
    """Only numbers: their differences are compatible, so nothing may stop the stream."""
    shards = [Shard(f"s{index}") for index in range(SHARDS)]
    shown = [defined(shard.name, shard.columns) for shard in shards]
    gateway = JoinedSchemas(TypeOverrides, lambda _: shown)
    names = {"id"}
    for number in range(data.draw(st.integers(1, 12))):
        shard = data.draw(st.sampled_from(shards))
        alter(shard, data, NUMBERS)
        shard.write(number)
        if data.draw(st.booleans()):
            continue
        counts = [data.draw(st.integers(0, len(each.waiting))) for each in shards]
        parts = [(each, each.waiting[:count]) for each, count in zip(shards, counts, strict=True)]
        for each, count in zip(shards, counts, strict=True):
            del each.waiting[:count]
        rows = [row for _, part in parts for _, row in part]
        if not rows:
            continue
        names |= {name.lower() for row in rows for name in row}
        result = gateway.typed(delivered(parts), ORDERS, before=False, columns=None, added=None)
        check(result, rows, names)


@settings(max_examples=cases(500))
@given(st.data())
def test_a_conflict_stops_only_rows_that_conflict_until_a_type_is_chosen(data: st.DataObject) -> None:
    shards = [Shard(f"s{index}") for index in range(SHARDS)]
    chosen = TypeOverrides()
    gateway = JoinedSchemas(lambda: chosen, lambda _: [])
    for number in range(data.draw(st.integers(1, 12))):
        shard = data.draw(st.sampled_from(shards))
        alter(shard, data, list(KINDS))
        shard.write(number)
    parts = [(shard, shard.waiting) for shard in shards]
    kinds: dict[str, set[str]] = {}
    for _, rows in parts:
        for columns, _ in rows:
            for name, kind in columns.items():
                kinds.setdefault(name.lower(), set()).add(kind)
    torn = {name for name, found in kinds.items() if not joinable(found)}
    inexact = {
        name for name, found in kinds.items() if "float" in found and found & {"bigint", "bigint unsigned"}
    }
    made, rows = delivered(parts), [row for _, part in parts for _, row in part]
    how: dict[str, Any] = {"before": False, "columns": None, "added": None}
    if torn | inexact:
        with pytest.raises(SchemaMismatch) as told:
            gateway.typed(made, ORDERS, **how)
        assert str(told.value.details["column"]).lower() in torn | inexact
        for name in torn | inexact:
            chosen = chosen.changed(ORDERS, name, "text")
    result = gateway.typed(made, ORDERS, **how)
    for name in torn | inexact:
        column = next(each for each in result.schema.names if each.lower() == name)
        assert result.schema.field(column).type == pa.utf8()
        wanted = [{key.lower(): value for key, value in row.items()}.get(name) for row in rows]
        assert result.column(column).to_pylist() == [None if each is None else str(each) for each in wanted]
    others = [name for name in result.schema.names if name.lower() not in torn | inexact]
    check(result.select(others), rows, kinds.keys() - torn - inexact)
