"""A routed table whose shards define it differently: one schema, or a conflict that a command resolves."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually
from support.instance.schema_command import command

import canal_group
from canal_group.merge.errors import SchemaMismatch, UsageError
from canal_group.operator import Operator, calls
from playground.database.server_process import DatabaseServer

TABLE = "shop.orders"


def next_batch(consumer: canal_group.Consumer) -> canal_group.Batch:
    """Return the next batch that has rows of the table; acknowledge those before it."""
    while True:
        batch = consumer.get_without_ack(timeout=DEADLINE_S)
        assert batch is not None
        if any(row["op"] == "INSERT" for row in batch.envelope().to_pylist()):
            return batch
        consumer.ack(batch.batch_id)


def test_a_table_has_the_columns_of_all_shards_and_conflicts_are_resolved(shop: Shop, tmp_path: Path) -> None:
    """1. What only one shard has is a column of a batch without a row of that shard; the wider type is taken.
    2. A type that cannot be joined is named with the command, and the envelope has the rows.
    3. The command lets the same batch be read; also after a restart, until it is taken back.
    """
    folder = str(tmp_path / "kept")
    options: dict[str, Any] = {
        "coordination": {"kind": "local", "folder": folder},
        "cursor": {"kind": "file", "folder": folder},
    }
    first, second = shop.servers
    second.execute(
        "ALTER TABLE shop_1.orders ADD COLUMN Extra SMALLINT, MODIFY id BIGINT UNSIGNED, MODIFY price INT"
    )
    with shop.serve(**options) as instance, shop.connect(instance) as consumer:
        first.execute("INSERT INTO shop_0.orders VALUES (1, 'one', 0.25)")
        batch = next_batch(consumer)
        rows = batch.table(TABLE)
        assert {field.name: field.type for field in rows.schema if not field.name.startswith("_")} == {
            "id": pa.decimal128(20, 0),
            "note": pa.utf8(),
            "price": pa.decimal128(12, 2),
            "Extra": pa.int16(),
        }
        assert rows.select(["id", "price", "Extra"]).to_pylist() == [
            {"id": Decimal(1), "price": Decimal("0.25"), "Extra": None}
        ]
        consumer.ack(batch.batch_id)

        first.execute(
            "CREATE DATABASE shop_7", "CREATE TABLE shop_7.orders (id BIGINT PRIMARY KEY, note DOUBLE)"
        )
        together(first, 2)
        batch = next_batch(consumer)
        with pytest.raises(SchemaMismatch) as told:
            batch.table(TABLE)
        assert "double in shard s0" in str(told.value)
        assert "varchar(200) in shard s0" in str(told.value)
        assert batch.envelope().column("op").to_pylist()[-2:] == ["INSERT", "INSERT"]
        assert "note: no type takes the values of all" in command(instance, shop.destination, "joined", TABLE)
        with pytest.raises(UsageError, match="has no column nte"):
            Operator(instance.uri, shop.destination).ask(calls.Resolve(TABLE, "nte", "text"))
        said = command(instance, shop.destination, "resolve", TABLE, "Note", "--type", "text")
        assert "note: string, chosen as text" in said
        assert batch.table(TABLE).column("note").to_pylist() == ["two", "2.5"]
        consumer.ack(batch.batch_id)
    with shop.serve(**options) as instance, shop.connect(instance) as consumer:
        together(first, 3)
        batch = next_batch(consumer)
        assert batch.table(TABLE).column("note").to_pylist() == ["two", "2.5"]
        (found,) = command(instance, shop.destination, "joined", TABLE, "--json").splitlines()
        (note,) = (each for each in json.loads(found)["columns"] if each["name"] == "note")
        assert (note["chosen"], set(note["shards"])) == ("text", {"s0", "s1"})
        command(instance, shop.destination, "resolve", TABLE, "note", "--undo")

        def torn() -> bool:
            try:
                batch.table(TABLE)
            except SchemaMismatch:
                return True
            return False

        eventually(torn, "the choice to be taken back")


def together(server: DatabaseServer, number: int) -> None:
    """Write to both tables of the first shard in one transaction, which is never split."""
    connection = server.connect("shop_0")
    try:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO shop_0.orders VALUES ({number}, 'two', 1)")
            cursor.execute(f"INSERT INTO shop_7.orders VALUES ({number}, 2.5)")
            cursor.execute("COMMIT")
    finally:
        connection.close()
