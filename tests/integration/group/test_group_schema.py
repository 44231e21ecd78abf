"""What an instance knows of its sources' tables outlives it, and operators see and rebuild it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from integration.shop import Shop
from support.deadline import await_true
from support.instance.inserted_rows import rows_until
from support.instance.schema_command import command
from support.soak import first_quick

from canal_group.merge.errors import UsageError
from canal_group.operator import Operator, calls


@pytest.mark.parametrize("kept", first_quick(1, ["file", "zookeeper"]))
def test_an_alter_while_nothing_runs_is_read_with_the_table_as_it_was(shop: Shop, tmp_path: Path, kept: str):
    options: dict[str, Any] = {}
    if kept == "file":
        folder = str(tmp_path / "kept")
        options = {
            "coordination": {"kind": "local", "folder": folder},
            "cursor": {"kind": "file", "folder": folder},
        }
    source, unread = shop.servers
    with shop.serve(**options) as instance, shop.connect(instance) as consumer:
        source.execute("INSERT INTO shop_0.orders VALUES (1000, 'first', 1)")
        assert len(rows_until(consumer, 1)) == 1
    for shard, server in enumerate((source, unread)):
        table = f"shop_{shard}.orders"
        server.execute(
            f"INSERT INTO {table} VALUES ({shard}001, 'before', 1)",
            f"ALTER TABLE {table} ADD COLUMN extra INT FIRST, DROP COLUMN price",
            f"INSERT INTO {table} VALUES (7, {shard}002, 'after')",
        )
    with shop.serve(**options) as instance, shop.connect(instance) as consumer:
        assert sorted(rows_until(consumer, 4), key=lambda row: row["id"]) == [
            {"id": "1", "note": "before", "price": "1.00"},
            {"id": "1001", "note": "before", "price": "1.00"},
            {"extra": "7", "id": "1002", "note": "after"},
            {"extra": "7", "id": "2", "note": "after"},
        ]
        shown = command(instance, shop.destination, "show", "--shard", "s0")
        assert "shop_0.orders, primary key (id)\n    extra int\n    id bigint not null" in shown
        (line,) = command(
            instance, shop.destination, "show", "--table", "shop_0.orders", "--json"
        ).splitlines()
        assert [column["name"] for column in json.loads(line)["columns"]] == ["extra", "id", "note"]
        command(instance, shop.destination, "rebuild", "s0", said="n\n", code=1)
        assert "begins a new schema history" in command(instance, shop.destination, "rebuild", "s0", "--yes")
        await_true(
            lambda: "s0: 1 table" in command(instance, shop.destination, "show", "--shard", "s0"),
            "the new history begins",
        )
        source.execute(
            "ALTER TABLE shop_0.orders DROP COLUMN extra", "INSERT INTO shop_0.orders VALUES (1003, 'x')"
        )
        assert rows_until(consumer, 1) == [{"id": "1003", "note": "x"}]
        with pytest.raises(UsageError, match="has no shard nobody"):
            Operator(instance.uri, shop.destination).ask(calls.RebuildSchema("nobody"))
