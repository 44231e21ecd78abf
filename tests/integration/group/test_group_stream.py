"""Whole instances on real servers: what a consumer gets."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S, Reading, Shop
from typer.testing import CliRunner

import canal_group
from canal_group.actors.driver.instance import Instance
from canal_group.programs.command.cli import app
from canal_group.shared_memory.rows import SharedMemoryRows


def test_shards_become_one_ordered_stream(served: SharedShop):
    with served.connect() as consumer:
        served.write_everywhere(40, rows=3)
        reading = Reading(consumer)
        reading.until(served.rows)
    reading.check(served)
    assert reading.rollbacks == 0
    assert served.rows == 240


def test_rows_are_shared_with_local_consumers_and_sent_to_remote_ones(
    served: SharedShop, monkeypatch: pytest.MonkeyPatch
):
    """1. a batch's rows are read in memory that the gateway has written; 2. so they are while others are;
    3. where no shared-memory server is found they are sent, and are the same.
    """
    with served.connect() as consumer:
        served.write_everywhere(3, rows=50)
        held: list[canal_group.Batch] = []
        while sum(batch.rows for batch in held) < served.rows:
            batch = consumer.get_without_ack(120, timeout=20)
            assert batch is not None
            held.append(batch)
        tables = [batch.table("shop.orders") for batch in held]
        assert [_is_lent(table) for table in tables] == [True] * len(tables)
        monkeypatch.setattr(SharedMemoryRows, "borrow", lambda *_: None)
        for batch, lent in zip(held, tables, strict=True):
            sent = batch.table("shop.orders")
            assert not _is_lent(sent)
            assert sent.equals(lent)


def _is_lent(table: pa.Table) -> bool:
    """Return whether a table's rows are in shared memory."""
    positions = [
        [int(end, 16) for end in line.split()[0].split("-")]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "canal-group rows" in line
    ]
    ids = table["id"].chunk(0).buffers()[1].address
    return any(begin <= ids < end for begin, end in positions)


def test_a_table_comes_with_its_own_types_under_its_routed_name(served: SharedShop):
    with served.connect() as consumer:
        served.write(0, 1, rows=2)
        served.servers[0].execute(
            "UPDATE shop_0.orders SET price = 9.99 WHERE id = 0", "DELETE FROM shop_0.orders WHERE id = 1"
        )
        tables = []
        while sum(table.num_rows for table in tables) < 4:
            batch = consumer.get_without_ack(timeout=20)
            assert batch is not None
            tables.append(batch.table("shop.orders", before=True))
            consumer.ack(batch.batch_id)
        orders = pa.concat_tables(tables)
    assert orders.schema.field("price").type == pa.decimal128(10, 2)
    assert orders["_op"].to_pylist() == ["INSERT", "INSERT", "UPDATE", "DELETE"]
    assert orders["id"].to_pylist() == [0, 1, 0, 1]
    assert [str(price) for price in orders["price"].to_pylist()] == ["0.00", "0.25", "9.99", "0.25"]
    assert str(orders["_before"].to_pylist()[2]["price"]) == "0.00"
    assert set(orders["_shard"].to_pylist()) == {"s0"}


def test_what_table_maps_leave_open_is_asked_of_the_source(served: SharedShop):
    """A UUID is a BINARY(16) in the binlog; a consumer gets its text, in both formats."""
    values = ("6ccd780c-baba-4026-9564-5b8c65600000", "1.2.0.0", "1:2:3:4::")
    with served.connect() as consumer:
        served.servers[0].execute(
            "CREATE TABLE shop_0.hosts (id INT PRIMARY KEY, u UUID, i4 INET4, i6 INET6)",
            f"INSERT INTO shop_0.hosts VALUES (1, {', '.join(map(repr, values))})",
        )
        batch = consumer.get_without_ack(timeout=20)
        while "INSERT" not in batch.envelope()["op"].to_pylist():
            consumer.ack(batch.batch_id)
            batch = consumer.get_without_ack(timeout=20)
        row = batch.envelope().to_pylist()[-1]
        assert dict(row["after"]) == {"id": "1", **dict(zip(("u", "i4", "i6"), values, strict=True))}
        (typed,) = batch.table("shop.hosts").to_pylist()
        assert (typed["u"], typed["i4"], typed["i6"]) == values


def test_a_statement_stands_where_it_happened(served: SharedShop):
    with served.connect() as consumer:
        served.write(0, 1)
        served.servers[0].execute("ALTER TABLE shop_0.orders ADD COLUMN extra INT")
        served.servers[0].execute("INSERT INTO shop_0.orders VALUES (1000, 'x', 1, 7)")
        rows: list[dict[str, object]] = []
        while len(rows) < 3:
            batch = consumer.get(timeout=20)
            assert batch is not None
            rows += batch.envelope().to_pylist()
    assert [row["op"] for row in rows] == ["INSERT", "ALTER", "INSERT"]
    assert rows[1]["sql"] == "ALTER TABLE shop_0.orders ADD COLUMN extra INT"
    assert (rows[1]["schema"], rows[1]["table"]) == ("shop", "orders")
    assert dict(rows[2]["after"])["extra"] == "7"


def test_a_consumer_goes_on_over_a_column_that_is_added_shard_by_shard(served: SharedShop):
    """1. A consumer and a command read. 2. One shard's table gains a column, then the other's. 3. Both go on:
    rows have the column from their shard's ALTER on, and none is missing.
    """
    with served.connect(client_id="printed"):
        pass
    with served.connect() as consumer:
        expected: list[tuple[int, str | None]] = []

        def insert(shard: int, number: int, *colour: str) -> None:
            values = ", ".join(map(repr, (number, "n", 1, *colour)))
            served.servers[shard].execute(f"INSERT INTO shop_{shard}.orders VALUES ({values})")
            expected.append((number, colour[0] if colour else None))
            while len(found) < len(expected):
                batch = consumer.get_without_ack(timeout=DEADLINE_S)
                assert batch is not None, "the consumer goes on"
                rows = batch.table("shop.orders").to_pylist()
                found.extend((row["id"], row.get("colour")) for row in rows)
                consumer.ack(batch.batch_id)

        found: list[tuple[int, str | None]] = []
        insert(0, 1)
        for shard in (0, 1):
            served.servers[shard].execute(f"ALTER TABLE shop_{shard}.orders ADD COLUMN colour VARCHAR(10)")
            insert(shard, 10 + shard, "red")
            insert(1, 20 + shard, *(["blue"] if shard else []))
    assert found == expected == [(1, None), (10, "red"), (20, None), (11, "red"), (21, "blue")]
    where = ["-d", served.destination, "-g", served.instance.uri]
    printed = CliRunner().invoke(
        app, ["consume", *where, "--client", "printed", "--rows", "7", "--timeout", str(DEADLINE_S)]
    )
    rows = [json.loads(line) for line in printed.stdout.splitlines()]
    inserted = [row["after"] for row in rows if row["op"] == "INSERT"]
    assert sorted((int(row["id"]), row.get("colour")) for row in inserted) == sorted(expected)
    assert [row["op"] for row in rows].count("ALTER") == 2


@pytest.mark.soak
def test_earliest_begins_before_what_was_there_and_latest_after_it(shop: Shop):
    for server in shop.servers:
        server.execute("RESET MASTER")
    shop.write_everywhere(3)
    with shop.serve(start="earliest") as instance, shop.connect(instance) as consumer:
        reading = Reading(consumer)
        reading.until(shop.rows)
    reading.check(shop)
    with shop.serve() as instance, shop.connect(instance, client_id="late") as consumer:
        shop.write(0, 1)
        batch = consumer.get(timeout=20)
        assert batch is not None
        assert [dict(row)["id"] for row in batch.envelope()["after"].to_pylist()] == ["6"]


def test_rollback_delivers_again_from_a_batch_or_from_the_cursor(served: SharedShop):
    with served.connect() as consumer:
        served.write(0, 30)
        batches = []
        while sum(batch.rows for batch in batches) < 30:
            batch = consumer.get_without_ack(5, timeout=20)
            assert batch is not None
            batches.append(batch)
        first, second = batches[0], batches[1]
        rows = [row for batch in batches for row in batch.envelope().to_pylist()]
        assert consumer.outstanding() == [batch.batch_id for batch in batches]

        assert consumer.rollback(second.batch_id) == len(batches) - 1
        assert consumer.outstanding() == [first.batch_id]
        again = consumer.get_without_ack(5, timeout=20)
        assert again is not None
        assert again.batch_id > batches[-1].batch_id
        assert again.envelope().to_pylist() == rows[first.rows : first.rows + again.rows]

        assert consumer.rollback() == 2
        again = consumer.get_without_ack(5, timeout=20)
        assert again is not None
        assert again.envelope().to_pylist() == rows[: again.rows]


def test_acks_are_taken_in_order_and_a_refused_one_changes_nothing(served: SharedShop):
    with served.connect() as consumer:
        served.write(0, 10)
        first, second = (consumer.get_without_ack(2, timeout=20) for _ in range(2))
        assert first is not None
        assert second is not None
        cursor = consumer.cursor
        with pytest.raises(canal_group.AckOutOfOrder, match=str(first.batch_id)):
            consumer.ack(second.batch_id)
        with pytest.raises(canal_group.UnknownBatch, match="never delivered"):
            consumer.ack(second.batch_id + 100)
        assert consumer.outstanding() == [first.batch_id, second.batch_id]
        moved = consumer.ack(first.batch_id)
        with pytest.raises(canal_group.UnknownBatch):
            first.envelope()
        assert moved != cursor
        assert moved == first.ack_position
        with pytest.raises(canal_group.UnknownBatch):
            consumer.ack(first.batch_id)
        consumer.rollback()
        with pytest.raises(canal_group.RolledBack):
            consumer.ack(second.batch_id)


def test_a_subscription_keeps_its_filter_and_others_do_not_see_it(served: SharedShop):
    with (
        served.connect(client_id="orders", filter=r"shop\.orders") as orders,
        served.connect(client_id="all") as everything,
    ):
        served.servers[0].execute(
            "CREATE TABLE shop_0.items (id INT PRIMARY KEY)", "INSERT INTO shop_0.items VALUES (1)"
        )
        served.write(0, 1)
        seen: dict[str, list[str]] = {"orders": [], "all": []}
        for name, consumer, wanted in (("orders", orders, 1), ("all", everything, 3)):
            while len(seen[name]) < wanted:
                batch = consumer.get(timeout=20)
                assert batch is not None
                seen[name] += batch.envelope()["table"].to_pylist()
    assert seen == {"orders": ["orders"], "all": ["items", "items", "orders"]}, "a statement, and two rows"


def test_an_undecodable_change_is_reported_to_waiting_clients(shop: Shop):
    """Statement-based DML has no rows: its shard stops there, and the consumer hears file, offset and why."""
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 1)
        batch = consumer.get(timeout=20)
        assert batch is not None
        shop.servers[0].execute(
            "SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO shop_0.orders VALUES (77, 'x', 1)"
        )
        with pytest.raises(canal_group.UnsupportedEvent) as caught:
            _read_for_ever(consumer)
        assert caught.value.details["shard"] == "s0"
        assert str(caught.value.details["file"]).startswith("mysql-bin.")
        assert caught.value.hint
        assert "stopped" in {shard["state"] for shard in consumer.status()["shards"]}


@pytest.mark.soak
def test_a_client_that_subscribes_too_early_learns_the_missing_shard(shop: Shop):
    """A shard whose source is down, and never was reached, keeps everybody from a beginning: it is named."""
    shop.servers[1].stop()
    try:
        with shop.serve() as instance:
            refusal = _refusal_about(shop, instance, "waits for shard s1")
            assert "refused" in refusal.hint
            shop.servers[1].start()
            with shop.connect(instance) as consumer:
                shop.write(1, 1)
                assert consumer.get(timeout=20) is not None
    finally:
        shop.servers[1].start()


def test_requests_that_cannot_be_are_refused_with_a_sentence(served: SharedShop):
    with pytest.raises(canal_group.UsageError, match="is not served here; served: "):
        canal_group.connect(served.instance.uri, destination="elsewhere", wait_s=0)
    with pytest.raises(canal_group.ConfigError, match="regular expression"):
        served.connect(filter="shop.(")
    with pytest.raises(canal_group.ConfigError, match="gateway address"):
        canal_group.connect("nowhere", destination=served.destination, wait_s=0)


def test_a_token_opens_the_door_and_nothing_else_does(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_TOKEN", "open sesame")
    with shop.serve(gateway={"port": 0, "token_env": "SHOP_TOKEN"}) as instance:
        for token in (None, "sesame"):
            with pytest.raises(canal_group.AccessDenied, match="token"):
                shop.connect(instance, token=token)
        with shop.connect(instance, token="open sesame") as consumer:
            shop.write(0, 1)
            assert consumer.get(timeout=20) is not None


def _refusal_about(shop: Shop, instance: Instance, words: str) -> canal_group.ServerUnavailable:
    """Subscribe until the refusal is about `words`; before that, the server is not elected yet."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        with pytest.raises(canal_group.ServerUnavailable) as caught:
            shop.connect(instance, wait_s=0)
        if words in caught.value.message:
            return caught.value
        assert time.monotonic() < deadline, f"no refusal was about {words!r}, the last one: {caught.value}"


def _read_for_ever(consumer: canal_group.Consumer) -> None:
    while True:
        consumer.get_without_ack(timeout=0.5)
