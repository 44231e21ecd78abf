"""Whole instances on real servers: what fails, and what a consumer notices of it."""

from __future__ import annotations

import contextlib
import json
import re
import time

import pytest
import ray
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S, Reading, Shop, in_background, kill
from integration.zookeeper_fixtures import eventually
from support.deadline import await_true
from typer.testing import CliRunner

import canal_group
from canal_group.merge.rows.canal.entries import EVENTS
from canal_group.operator import Operator, calls
from canal_group.programs.command.cli import app
from canal_group.shapes.flat_message import flat_messages
from canal_group.shapes.maps import tidied


def until_rolled_back(consumer: canal_group.Consumer) -> None:
    """Get until a loss is heard of: until it is found out, what had gone out is delivered."""
    try:
        while True:
            consumer.get_without_ack(100, timeout=20)
    except canal_group.RolledBack:
        return


def test_a_killed_shard_actor_comes_back_and_reads_on_from_the_cursor(served: SharedShop):
    """1. rows flow; 2. a shard is killed, a batch outstanding; 3. the consumer hears of it; 4. all comes."""
    with served.connect() as consumer:
        writing = in_background(lambda: served.write_everywhere(150))
        reading = Reading(consumer)
        reading.until(60)
        outstanding = consumer.get_without_ack(5, timeout=20)
        assert outstanding is not None
        kill(consumer.status()["shards"][0]["pid"])
        writing.join()
        until_rolled_back(consumer)
        reading.rolled_back()
        reading.until(served.rows)
        with pytest.raises(canal_group.RolledBack):
            consumer.ack(outstanding.batch_id)
    reading.check(served)


def test_a_killed_group_actor_continues_at_the_cursor(served: SharedShop):
    with served.connect() as consumer:
        writing = in_background(lambda: served.write_everywhere(150))
        reading = Reading(consumer)
        reading.until(60)
        before = consumer.status()["group"]
        kill(before["pid"])
        writing.join()
        reading.until(served.rows)
        after = consumer.status()["group"]
    reading.check(served)
    assert after["pid"] != before["pid"]
    assert after["epoch"] > before["epoch"]


def test_a_killed_gateway_changes_nothing_but_a_moment(served: SharedShop):
    with served.connect() as consumer:
        writing = in_background(lambda: served.write_everywhere(150))
        reading = Reading(consumer)
        reading.until(60)
        kill(consumer.status()["gateway"]["pid"])
        writing.join()
        reading.until(served.rows)
    reading.check(served)


@pytest.mark.soak
def test_a_consumer_keeps_its_batch_while_the_gateway_is_down(shop: Shop):
    """1. a batch is outstanding; 2. the gateway is killed as often as it comes back, for twice a lease;
    3. the batch is the consumer's still, and what follows comes.
    """
    lease_s = 3.0
    with shop.serve(consumer={"lease_s": lease_s}) as instance, shop.connect(instance) as consumer:
        shop.write_everywhere(20)
        reading, epoch = Reading(consumer), consumer.epoch
        reading.until(shop.rows)
        shop.write_everywhere(20)
        batch = consumer.get_without_ack(5, timeout=20)
        assert batch is not None
        until_s = time.monotonic() + 2 * lease_s
        while time.monotonic() < until_s:
            with contextlib.suppress(ray.exceptions.RayError):
                kill(ray.get(instance.gateway.actor.pid.remote()))
        reading.take(batch.envelope())
        consumer.ack(batch.batch_id)
        reading.until(shop.rows)
        assert consumer.epoch == epoch
    reading.check(shop)
    assert reading.rollbacks == 0


def test_a_killed_source_returns_without_loss_or_duplicates(shop: Shop):
    """1. rows flow; 2. one MariaDB is killed and restarted; 3. what it committed comes once."""
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write_everywhere(40)
        reading = Reading(consumer)
        reading.until(50)
        shop.servers[0].kill()
        shop.write(1, 10)
        shop.servers[0].start()
        shop.write_everywhere(40)
        reading.until(shop.rows)
        assert consumer.status()["shards"][0]["counters"]["reconnects"] > 0
    reading.check(shop)
    assert reading.rollbacks == 0, "no ring was lost"


@pytest.mark.soak
def test_a_source_that_can_send_nothing_for_long_does_not_hang_up(shop: Shop):
    """A consumer takes longer than the source's net_write_timeout.

    1. more is written than rings and sockets hold, and nobody reads; 2. the source waits to send for several
    times as long as it would on its own; 3. all is read, over the one connection.
    """
    source, rows, transactions = shop.servers[0], 100, 20
    source.execute("SET GLOBAL net_write_timeout = 1", "ALTER TABLE shop_0.orders MODIFY note MEDIUMTEXT")
    try:
        with shop.serve(store={"size": 4, "mode": "items"}) as instance, shop.connect(instance) as consumer:
            for number in range(transactions):
                first = number * rows
                source.execute(
                    "INSERT INTO shop_0.orders SELECT seq, REPEAT('x', 20000), 1"
                    f" FROM seq_{first}_to_{first + rows - 1}",
                    database="shop_0",
                )
                shop.written["s0"] += range(first, first + rows)

            def stuck() -> bool:
                found = source.execute(
                    "SELECT STATE FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'"
                )
                return any("has sent all" not in state for (state,) in found)

            eventually(stuck, "the source to wait")
            since = time.monotonic()
            eventually(lambda: time.monotonic() > since + 3 and stuck(), "several times its own timeout")
            reading = Reading(consumer)
            reading.until(shop.rows, batch_size=10_000)
            assert [shard["counters"]["reconnects"] for shard in consumer.status()["shards"]] == [0, 0]
        reading.check(shop)
    finally:
        source.execute("SET GLOBAL net_write_timeout = 60")


@pytest.mark.soak
def test_cursors_in_a_file_survive_a_restart_of_everything(shop: Shop, tmp_path):
    """Local coordination, cursor in a folder: nothing of the first run is left but the folder."""
    kept = {
        "coordination": {"kind": "local", "folder": str(tmp_path / "kept")},
        "cursor": {"kind": "file", "folder": str(tmp_path / "kept")},
    }
    with shop.serve(**kept) as instance, shop.connect(instance) as consumer:
        shop.write_everywhere(20)
        first = Reading(consumer)
        first.until(25)
        cursor = consumer.cursor
    shop.write_everywhere(20)
    with shop.serve(**kept) as instance, shop.connect(instance) as consumer:
        assert consumer.cursor == cursor
        second = Reading(consumer)
        second.ids, second.runs = first.ids, [*first.runs, []]
        second.until(shop.rows)
    second.check(shop)


@pytest.mark.soak
def test_a_standby_server_takes_over_with_a_higher_epoch(shop: Shop):
    """1. two instances for one destination; 2. the active one ends; 3. the other serves what is left."""
    with shop.serve() as standby_later, shop.connect(standby_later) as consumer:
        first_epoch = consumer.status()["group"]["epoch"]
        with shop.serve() as other:
            with pytest.raises(canal_group.ServerUnavailable, match="not the active one"):
                shop.connect(other, wait_s=0)
            shop.write_everywhere(10)
            reading = Reading(consumer)
            reading.until(12)
            consumer.close()
            standby_later.stop()
            with shop.connect(other) as successor:
                reading.consumer = successor
                reading.rolled_back()
                reading.until(shop.rows)
                assert successor.status()["group"]["epoch"] > first_epoch
    reading.check(shop)


def command(shop: SharedShop, *words: str) -> str:
    result = CliRunner().invoke(app, [*words, "-d", shop.destination, "-g", shop.instance.uri])
    assert result.exit_code == 0, result.output or result.exception
    return result.output


def test_the_command_in_its_error_takes_a_shard_past_a_statement(unshared: SharedShop):
    shop, (server, _) = unshared, unshared.servers
    operator = Operator(shop.instance.uri, shop.destination)
    with (
        shop.connect(client_id="all") as consumer,
        shop.connect(client_id="one", filter=r"shop\.none") as other,
    ):
        server.execute(
            "SET SESSION binlog_format = 'STATEMENT'",
            "INSERT INTO shop_0.orders VALUES (1, 'a secret', 1)",
            "SET SESSION binlog_format = 'ROW'",
            "ALTER TABLE shop_0.orders ADD COLUMN extra INT FIRST",
            "INSERT INTO shop_0.orders VALUES (7, 2, 'after', 2)",
        )

        def state() -> dict[str, object]:
            return next(each for each in operator.status()["shards"] if each["shard"] == "s0")

        await_true(lambda: state()["state"] == "stopped", "the statement stops its shard")
        named = re.search(r"canal-group (shard skip-event .*--at \S+:\d+)$", str(state()["error"]))
        assert named is not None, state()["error"]
        words = named[1].split()
        assert words[2:4] == ["-d", shop.destination]
        words = [*words[:2], *words[4:]]
        at = words[-1]
        with pytest.raises(canal_group.UsageError, match=f"has not stopped at .*, but at {at}"):
            operator.ask(calls.SkipEvent("s0", f"{at}1"))
        assert "each consumer gets a mark" in command(shop, *words)
        assert "already" in command(shop, *words)
        found: list[dict[str, object]] = []
        while not any(row["op"] == "INSERT" for row in found):
            batch = consumer.get_without_ack(timeout=DEADLINE_S)
            assert batch is not None, found
            rows = batch.envelope(definitions=True)
            found += rows.to_pylist()
            flat = [json.loads(each) for each in flat_messages(tidied(rows), 0).to_pylist()]
            entries = batch.canal_entries().to_pylist()
            consumer.ack(batch.batch_id)
            if any(canal_group.SkipMark.of_sql(each["sql"]) for each in flat):
                said = next(each for each in flat if canal_group.SkipMark.of_sql(each["sql"]))
                assert (said["type"], said["data"], said["table"]) == ("QUERY", None, "")
                assert any(each["event_type"] == EVENTS.index("QUERY") for each in entries)
        marks = [mark for row in found if (mark := canal_group.SkipMark.of_sql(row["sql"]))]
        assert [row["op"] for row in found] == ["QUERY", "ALTER", "INSERT"]
        (mark,) = marks
        assert (mark.shard, f"{mark.file}:{mark.from_offset}", mark.verb, mark.table) == (
            "s0",
            at,
            "INSERT",
            "shop.orders",
        )
        assert mark.to_offset > mark.from_offset
        assert mark.gtid == found[0]["gtid"] != ""
        assert "secret" not in str(found)
        assert dict(found[2]["after"])["note"] == "after"  # type: ignore[call-overload]
        alone = other.get(timeout=DEADLINE_S)
        assert alone is not None
        assert [row["sql"] for row in alone.envelope().to_pylist()] == [found[0]["sql"]], (
            "filters let it pass"
        )
        assert "left out" in command(shop, "status")
        await_true(lambda: state()["counters"]["skipped_events"] == {"QUERY (2)": 1}, "it is counted")  # type: ignore[index]
        with pytest.raises(canal_group.UsageError, match="no shard nobody"):
            operator.ask(calls.SkipEvent("nobody", at))
