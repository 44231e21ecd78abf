"""Joined schemas spelled out, and typed rows with them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.rows.batch_rows import batch, column, headers, table

from canal_group.merge.errors import SchemaMismatch
from canal_group.merge.rows.assemble import BatchRows, ShardRows
from canal_group.merge.rows.joined import Definition, conflicts, joined, types_by_shard
from canal_group.merge.rows.typed import typed
from canal_group.merge.values.chunk import Op, TableName

ORDERS = TableName("shop", "orders")


def defined(shard: str, **columns: Any) -> Definition:
    return Definition(shard, pa.schema([column(name, kind, said) for name, (kind, said) in columns.items()]))


NORTH = defined("north", id=(pa.int32(), "int"), Total=(pa.int32(), "int"))
SOUTH = defined("south", TOTAL=(pa.int64(), "bigint"), id=(pa.int32(), "int"), extra=(pa.utf8(), "text"))
TORN = defined("west", total=(pa.utf8(), "varchar(20)"))


def names_and_types(schema: Any) -> dict[str, Any]:
    return {field.name: field.type for field in schema}


def test_names_compare_without_case_and_the_newest_spelling_stays() -> None:
    schema = joined(ORDERS, [NORTH], [SOUTH])
    assert names_and_types(schema) == {"id": pa.int32(), "Total": pa.int64(), "extra": pa.utf8()}
    assert schema.field("Total").metadata == {b"mysql_type": b"int"}
    assert schema.field("extra").nullable


def test_what_no_row_has_widens_and_adds_and_never_conflicts() -> None:
    assert names_and_types(joined(ORDERS, [NORTH], [TORN, SOUTH]))["Total"] == pa.int64()
    assert names_and_types(joined(ORDERS, [TORN], [NORTH, SOUTH]))["total"] == pa.utf8()
    both = joined(ORDERS, [NORTH], [TORN, SOUTH], {"total": pa.float64()})
    assert names_and_types(both)["Total"] == pa.float64()


def test_a_conflict_names_both_definitions_and_the_command() -> None:
    with pytest.raises(SchemaMismatch) as told:
        joined(ORDERS, [NORTH, SOUTH, TORN])
    assert str(told.value).startswith(
        "Column Total of shop.orders is int in shard north and varchar(20) in shard west"
    )
    assert "canal-group schema resolve shop.orders Total --type text" in told.value.hint
    ((name, candidates),) = conflicts([NORTH, SOUTH, TORN])
    assert (name, [str(each) for each in candidates]) == (
        "Total",
        ["int in shard north", "bigint in shard south", "varchar(20) in shard west"],
    )
    assert types_by_shard([NORTH, SOUTH], "ID") == {"north": "int", "south": "int"}


def two_shards() -> BatchRows:
    """An int in north and a varchar in south, of which north's row is updated."""
    north = table(
        ORDERS,
        [column("id", pa.int32(), "int"), column("Total", pa.int32(), "int")],
        [(0, 0, Op.UPDATE, {"id": 1, "Total": 4}, {"id": 1, "Total": 5})],
    )
    south = table(
        ORDERS,
        [column("total", pa.utf8(), "varchar(20)"), column("at", pa.timestamp("us"), "datetime(3)")],
        [(0, 0, Op.INSERT, None, {"total": "1e3", "at": 1_500_000})],
    )
    order = headers({"sequence": 0}, {"shard": 1, "sequence": 0})
    return batch(order, ShardRows((north,)), ShardRows((south,)))


def test_a_chosen_type_takes_the_values_of_all_shards() -> None:
    rows = two_shards()
    with pytest.raises(SchemaMismatch, match="varchar"):
        typed(rows, ORDERS)
    as_text = typed(rows, ORDERS, before=True, chosen={"total": pa.utf8(), "at": pa.utf8()})
    assert as_text.column("total").to_pylist() == ["5", "1e3"]
    assert as_text.column("at").to_pylist() == [None, "1970-01-01 00:00:01.500"]
    assert as_text.column("_before").to_pylist()[0]["total"] == "4"
    as_number = typed(rows, ORDERS, chosen={"total": pa.float64()})
    assert as_number.column("total").to_pylist() == [5.0, 1000.0]


def test_a_value_that_does_not_fit_is_named_without_being_shown() -> None:
    with pytest.raises(SchemaMismatch) as told:
        typed(two_shards(), ORDERS, chosen={"total": pa.int64()})
    assert str(told.value).startswith(
        "A value of column total of shop.orders does not fit int64. The column is varchar(20) in shard south."
    )
    assert "1e3" not in str(told.value)
    assert "--type text" in told.value.hint
