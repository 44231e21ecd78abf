"""Joined schemas are kept from batch to batch: what they are made of decides, and there is a bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support.rows.batch_rows import batch, column, headers, one_shard, table

from canal_group.actors.gateway import joined_schemas
from canal_group.actors.gateway.joined_schemas import JoinedSchemas
from canal_group.merge.rows.assemble import BatchRows, ShardRows
from canal_group.merge.rows.chosen_types import TypeOverrides
from canal_group.merge.rows.joined import joined
from canal_group.merge.values.chunk import Op, TableName

ORDERS = TableName("shop", "orders")


def rows_of(*notes: str, keyless: int | None = None) -> BatchRows:
    """A row of each shard, whose column `note` has such a type in the source; one may have no primary key."""
    parts = [
        ShardRows(
            (
                table(
                    ORDERS,
                    [column("id", pa.int32(), "int"), column("note", pa.utf8(), said)],
                    [(0, 0, Op.INSERT, None, {"id": shard, "note": said})],
                    key=() if shard == keyless else ("id",),
                ),
            )
        )
        for shard, said in enumerate(notes)
    ]
    return batch(headers(*({"shard": shard} for shard in range(len(notes)))), *parts)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[TableName]:
    """The tables whose columns were joined, each time."""
    tables: list[TableName] = []

    def counted(name: TableName, *more: Any) -> Any:
        tables.append(name)
        return joined(name, *more)

    monkeypatch.setattr(joined_schemas, "joined", counted)
    return tables


def read(gateway: JoinedSchemas, rows: BatchRows) -> pa.Table:
    return gateway.typed(rows, ORDERS, before=False, columns=None, added=None)


def test_the_columns_of_alike_batches_are_joined_once(made: list[TableName]) -> None:
    gateway = JoinedSchemas(TypeOverrides, lambda _: [])
    for _ in range(3):
        assert read(gateway, rows_of("text", "text")).column("note").to_pylist() == ["text", "text"]
    assert made == [ORDERS]


def test_shards_may_differ_in_the_primary_key_only() -> None:
    gateway = JoinedSchemas(TypeOverrides, lambda _: [])
    assert read(gateway, rows_of("text", "text", keyless=1)).column("id").to_pylist() == [0, 1]


def test_a_column_that_only_its_source_describes_otherwise_is_joined_anew() -> None:
    gateway = JoinedSchemas(TypeOverrides, lambda _: [])
    for said in ("varchar(20)", "varchar(30)", "varchar(20)"):
        field = read(gateway, rows_of(said, said)).schema.field("note")
        assert field.metadata == {b"mysql_type": said.encode()}
    told = read(gateway, rows_of("varchar(20)", "varchar(30)"))
    assert told.column("note").to_pylist() == ["varchar(20)", "varchar(30)"]
    assert told.schema.field("note").metadata == {b"mysql_type": b"varchar(30)"}, "the newest describes it"


def test_shards_with_the_same_columns_may_differ_in_key_and_images() -> None:
    """The rows of a shard without a delete have no images before the change."""
    columns = [column("id", pa.int32(), "int"), column("note", pa.utf8(), "text")]
    changes = [(0, 0, Op.INSERT, None, {"id": 1, "note": "a"})]
    inserted, of_other_key = table(ORDERS, columns, changes), table(ORDERS, columns, changes, key=("note",))
    thin = replace(inserted, rows=inserted.rows.drop_columns(["before"]))
    shards = [ShardRows((each,)) for each in (inserted, of_other_key, thin)]
    rows = batch(headers(*({"shard": shard} for shard in range(3))), *shards)
    gateway = JoinedSchemas(TypeOverrides, lambda _: [])
    assert read(gateway, rows).column("note").to_pylist() == ["a", "a", "a"]


def test_a_column_that_was_delivered_before_stays_in_a_kept_schema() -> None:
    gateway = JoinedSchemas(TypeOverrides, lambda _: [])
    few = table(ORDERS, [column("id", pa.int32(), "int")], [(0, 0, Op.INSERT, None, {"id": 1})])
    for rows, note in ((one_shard(few), False), (rows_of("text"), True), (one_shard(few), True)):
        assert ("note" in read(gateway, rows).column_names) == note


def test_a_chosen_type_takes_effect_on_a_kept_schema() -> None:
    chosen = TypeOverrides()
    gateway = JoinedSchemas(lambda: chosen, lambda _: [])
    assert read(gateway, rows_of("text")).schema.field("id").type == pa.int32()
    chosen = chosen.changed(ORDERS, "id", "text")
    gateway._chosen_at_s -= joined_schemas.CHOSEN_FOR_S
    assert read(gateway, rows_of("text")).column("id").to_pylist() == ["0"]


def test_only_so_many_joined_schemas_are_kept(made: list[TableName], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_schemas, "JOINED_MAX", 2)
    gateway = JoinedSchemas(TypeOverrides, lambda _: [])
    for size in range(1, 6):
        read(gateway, rows_of(f"varchar({size})"))
        assert len(gateway._joined) <= 2
    assert len(made) == 5
