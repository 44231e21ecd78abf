"""Whole instances on real servers: shards that join, leave and are skipped while the stream goes on."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Reading, Shop, kill
from integration.zookeeper_fixtures import eventually
from typer.testing import CliRunner

import canal_group
from canal_group.actors.driver.instance import Instance
from canal_group.operator import Operator, calls
from canal_group.programs.command.cli import app


def definitions(shop: Shop) -> list[dict[str, Any]]:
    """Return the shop's shards as an instance file has them."""
    settings = shop.settings()
    return [json.loads(shard.model_dump_json(exclude_defaults=True)) for shard in settings.shards]


def role(consumer: canal_group.Consumer, shard: str) -> str | None:
    shards = consumer.status()["group"].get("shards", [])
    return next((one["role"] for one in shards if one["shard"] == shard), None)


def run(instance: Instance, shop: Shop, *words: str) -> str:
    """Run `canal-group shard` and return its output."""
    result = CliRunner().invoke(app, ["shard", *words, "-d", shop.destination, "-g", instance.uri])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_a_shard_joins_survives_the_group_actor_and_leaves_when_drained(shop: Shop, tmp_path: Path):
    """1. An instance of one shard; another one is added by the command, from its beginning.
    2. The group actor is killed: both go on.
    3. The shard is removed: what it had committed comes, what it commits later does not.
    4. The group actor is killed: it stays away.
    """
    first, second = definitions(shop)
    for server in shop.servers:
        server.execute("RESET MASTER")
    shop.write_everywhere(20)
    config = tmp_path / "shop.yaml"
    config.write_text(
        json.dumps(
            {
                "preset": "memory",
                "destination": shop.destination,
                "shards": [first, {**second, "start": "earliest"}],
            }
        )
    )
    known = {"shards": [first], "start": "earliest", "shard_add": {"hosts": [second["host"]]}}
    with shop.serve(**known) as instance, shop.connect(instance) as consumer:
        reading = Reading(consumer)
        reading.until(20)
        assert "has joined" in run(instance, shop, "add", "s1", "-c", str(config))
        reading.until(40)
        shop.write_everywhere(20)
        kill(consumer.status()["group"]["pid"])
        reading.rolled_back()
        reading.until(80)
        reading.check(shop)

        shop.write(1, 10)
        operator = Operator(instance.uri, shop.destination)
        assert operator.ask(calls.RemoveShard("s1"))["role"] == "leaving"
        reading.until(90)
        eventually(lambda: _left(reading, consumer), "s1 to leave", within_s=DEADLINE_S)
        shop.write(1, 5)
        kill(consumer.status()["group"]["pid"])
        reading.rolled_back()
        shop.write(0, 10)
        reading.until(100)
        assert consumer.cursor.retired == ("s1",)
        assert set(consumer.cursor.shards) == {"s0"}
        with pytest.raises(canal_group.UsageError, match="belongs to a shard that left"):
            operator.ask(calls.AddShard(second))
        operator.close()
    assert len([position for position in reading.ids if position[0] == "s1"]) == 50, (
        "none from after its removal"
    )


def _left(reading: Reading, consumer: canal_group.Consumer) -> bool:
    """Acknowledge what still comes, and return whether the shard has left."""
    batch = consumer.get_without_ack(timeout=0.2)
    if batch is not None:
        reading.take(batch.envelope())
        consumer.ack(batch.batch_id)
    return role(consumer, "s1") == "left"


@pytest.mark.soak
def test_a_shard_missing_in_the_settings_stops_the_stream_until_removed(shop: Shop):
    """1. Cursors of two shards. 2. The server starts with one of them in its file: it says so, and waits.
    3. `remove --now` lets go of the other one.
    """
    first, _ = definitions(shop)
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write_everywhere(5)
        Reading(consumer).until(10)
    shop.write_everywhere(5)
    with shop.serve(shards=[first]) as instance, shop.connect(instance) as consumer:
        with pytest.raises(canal_group.ConfigError, match="hold shard s1, which the settings do not have"):
            consumer.get_without_ack(timeout=5)
        assert consumer.status()["group"]["held_by"] == "s1"
        assert "s1 has left: client reader at mysql-bin." in run(instance, shop, "remove", "--now", "s1")
        reading = Reading(consumer)
        reading.until(5)
        assert sorted(reading.ids.values()) == shop.written["s0"][5:]


def test_a_dead_shard_is_skipped_and_waited_for_again_by_command(shop: Shop):
    """1. A source is down: its shard holds the group, and status says so.
    2. It is skipped: the others' rows come. 3. It is back: its rows come too, late. 4. It is resumed.
    5. It is removed, and does not come back, although the settings still have it.
    """
    _, second = definitions(shop)
    with shop.serve(shard_add={"hosts": [second["host"]]}) as instance, shop.connect(instance) as consumer:
        shop.write_everywhere(5)
        reading = Reading(consumer)
        reading.until(10)
        shop.servers[1].stop()
        try:
            # What was committed in the second of its last word may still go out.
            eventually(lambda: _held_by(shop, consumer) == "s1", "s1 to hold", within_s=DEADLINE_S)
            assert "goes on without s1" in run(instance, shop, "skip", "s1")
            reading.until(shop.rows)
        finally:
            shop.servers[1].start()
        shop.write(1, 5)
        reading.until(shop.rows)
        state = consumer.status()["group"]["shards"][1]
        assert (state["policy"], state["skipped"]) == ("skip", True)
        assert "the settings apply to s1 again" in run(instance, shop, "resume", "s1")
        shop.write_everywhere(5)
        reading.until(shop.rows)
        assert not consumer.status()["group"]["shards"][1]["skipped"]
        with closing(Operator(instance.uri, shop.destination)) as operator:
            assert operator.ask(calls.AddShard(second))["role"] == "member"
            assert operator.ask(calls.RemoveShard("s1", now=True))["role"] == "left"
            with pytest.raises(canal_group.UsageError, match="belongs to a shard that left"):
                operator.ask(calls.AddShard(second))
    reading.check(shop)


def _held_by(shop: Shop, consumer: canal_group.Consumer) -> str | None:
    """Write a row to the other shard, and return who holds the group."""
    shop.write(0, 1)
    held: str | None = consumer.status()["group"]["held_by"]
    return held


@pytest.mark.soak
def test_a_changed_instance_file_lets_shards_join_and_leave(shop: Shop):
    first, second = definitions(shop)
    both, one = shop.settings(shards=[first, second]), shop.settings(shards=[first])
    with shop.serve(shards=[first]) as instance, shop.connect(instance) as consumer:
        assert instance.adopt(both) == ["shard s1 joins"]
        assert instance.adopt(both) == []
        operator = Operator(instance.uri, shop.destination)
        assert operator.joined("s1", DEADLINE_S)
        shop.write_everywhere(5)
        reading = Reading(consumer)
        reading.until(10)
        assert len(instance.adopt(one)) == 1
        eventually(lambda: _left(reading, consumer), "s1 to leave", within_s=DEADLINE_S)
        assert instance.adopt(one) == []
        with pytest.raises(canal_group.ConfigError, match="takes a restart"):
            instance.adopt(shop.settings(shards=[first], start="earliest"))
        operator.close()
    reading.check(shop)


@pytest.mark.soak
def test_an_expired_client_is_reported_and_the_sources_are_read_again(shop: Shop):
    """1. A client goes away; another one reads on through small rings, which are not kept for it.
    2. It is told so. 3. It goes on at its cursor: the sources are read again, and nothing is missing.
    """
    small = {
        "store": {"size": 16, "mode": "items"},
        "consumer": {"lease_s": 3, "inactive": "drop", "drop_after_s": 1},
    }
    with shop.serve(**small) as instance, shop.connect(instance) as consumer:
        with shop.connect(instance, client_id="away") as gone:
            shop.write_everywhere(5)
            away = Reading(gone)
            away.until(10)
        shop.write_everywhere(50)
        reading = Reading(consumer)
        reading.until(110)
        with pytest.raises(canal_group.SubscriptionDropped) as refusal:
            shop.connect(instance, client_id="away")
        assert '"shards"' in str(refusal.value.details["cursor"])
        with shop.connect(instance, client_id="away", resume="cursor") as back:
            away.consumer = back
            away.rolled_back()
            away.until(110)
    away.check(shop)


@pytest.mark.soak
def test_periodic_cursor_writes_lose_nothing_when_the_group_actor_dies(shop: Shop):
    """What was acknowledged since the last write comes twice, in order; everything comes."""
    with shop.serve(cursor={"flush_s": 1}) as instance, shop.connect(instance) as consumer:
        shop.write_everywhere(50)
        reading = Reading(consumer)
        reading.until(60)
        kill(consumer.status()["group"]["pid"])
        reading.rolled_back()
        shop.write_everywhere(20)
        reading.until(shop.rows)
    reading.check(shop)
