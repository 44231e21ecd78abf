"""Whole instances on real servers: what fails, and what a consumer notices of it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ray
from integration.shop import CLIENT, Reading, Shop, in_background, kill
from integration.zookeeper_fixtures import eventually

import canal_group


def until_rolled_back(consumer: canal_group.Consumer) -> None:
    """Get until a loss is heard of: until it is found out, what had gone out is delivered."""
    try:
        while True:
            consumer.get_without_ack(100, timeout=20)
    except canal_group.RolledBack:
        return


def test_a_killed_shard_actor_comes_back_and_reads_on_from_the_cursor(shop: Shop):
    """1. rows flow; 2. a shard is killed, a batch outstanding; 3. the consumer hears of it; 4. all comes."""
    with shop.serve() as instance, shop.connect(instance) as consumer:
        writing = in_background(lambda: shop.write_everywhere(150))
        reading = Reading(consumer)
        reading.until(60)
        outstanding = consumer.get_without_ack(5, timeout=20)
        assert outstanding is not None
        kill(consumer.status()["shards"][0]["pid"])
        writing.join()
        until_rolled_back(consumer)
        reading.rolled_back()
        reading.until(shop.rows)
        with pytest.raises(canal_group.RolledBack):
            consumer.ack(outstanding.batch_id)
    reading.check(shop)


def test_a_killed_group_actor_takes_over_from_itself_and_reads_on_from_the_cursor(shop: Shop):
    with shop.serve() as instance, shop.connect(instance) as consumer:
        writing = in_background(lambda: shop.write_everywhere(150))
        reading = Reading(consumer)
        reading.until(60)
        before = consumer.status()["group"]
        kill(before["pid"])
        writing.join()
        reading.until(shop.rows)
        after = consumer.status()["group"]
    reading.check(shop)
    assert after["pid"] != before["pid"]
    assert after["epoch"] > before["epoch"]


def test_a_killed_gateway_changes_nothing_but_a_moment(shop: Shop):
    with shop.serve() as instance, shop.connect(instance) as consumer:
        writing = in_background(lambda: shop.write_everywhere(150))
        reading = Reading(consumer)
        reading.until(60)
        kill(consumer.status()["gateway"]["pid"])
        writing.join()
        reading.until(shop.rows)
    reading.check(shop)


def test_a_gateway_that_is_away_for_longer_than_a_lease_costs_no_consumer_its_place(shop: Shop):
    """1. a batch is outstanding; 2. the gateway is killed as often as it comes back, for twice a lease;
    3. the batch is the consumer's still, and what follows comes.
    """
    lease_s = 3.0
    with shop.serve(consumer={"lease_s": lease_s}) as instance, shop.connect(instance) as consumer:
        shop.write_everywhere(20)
        reading, epoch = Reading(consumer), consumer.epoch
        reading.until(10)
        batch = consumer.get_without_ack(5, timeout=20)
        assert batch is not None
        until_s = time.monotonic() + 2 * lease_s
        while time.monotonic() < until_s:
            with contextlib.suppress(ray.exceptions.RayError):
                kill(ray.get(instance.gateway.pid.remote()))
        reading.take(batch.envelope())
        consumer.ack(batch.batch_id)
        reading.until(shop.rows)
        assert consumer.epoch == epoch
    reading.check(shop)
    assert reading.rollbacks == 0


def test_a_batch_whose_answer_was_lost_is_delivered_again(shop: Shop):
    """1. a get's answer never arrives; 2. the next get brings the same rows under a new id."""
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 10)
        first = consumer.get_without_ack(2, timeout=20)
        assert first is not None
        lost = consumer._lease.ask("get", rows_max=2, timeout_s=5, wait_s=5, seen_id=first.batch_id)
        again = consumer.get_without_ack(2, timeout=20)
        assert again is not None
        assert again.batch_id > lost["batch_id"]
        assert again.start.to_json() == lost["start"]
        assert consumer.outstanding() == [first.batch_id, again.batch_id]
        consumer.ack(first.batch_id)
        consumer.ack(again.batch_id)


def test_a_killed_source_comes_back_on_its_data_and_nothing_is_lost_or_twice(shop: Shop):
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
        assert consumer.status()["shards"][0]["disconnects"] > 0
    reading.check(shop)
    assert reading.rollbacks == 0, "no ring was lost"


_CONSUMER_THAT_HANGS = """
import sys, threading
import canal_group
consumer = canal_group.connect(sys.argv[1], destination=sys.argv[2], client_id=sys.argv[3])
first = consumer.get_without_ack(5)
rows = first.envelope().num_rows
consumer.ack(first.batch_id)
second = consumer.get_without_ack(5)
print(rows, second.batch_id, flush=True)
threading.Event().wait()
"""


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
            assert [shard["disconnects"] for shard in consumer.status()["shards"]] == [0, 0]
        reading.check(shop)
    finally:
        source.execute("SET GLOBAL net_write_timeout = 60")


def test_a_killed_consumers_batches_go_to_the_next_one(shop: Shop):
    """1. a consumer acks a batch and is killed with another outstanding; 2. its lease runs out; 3. the next
    one gets what was not acknowledged, and the dead one's epoch is over.
    """
    with shop.serve() as instance:
        shop.connect(instance).close()
        shop.write(0, 30)
        process = subprocess.Popen(
            [sys.executable, "-c", _CONSUMER_THAT_HANGS, instance.uri, shop.destination, CLIENT],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            acked, batch_id = (int(word) for word in process.stdout.readline().split())
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        with shop.connect(instance) as consumer:
            reading = Reading(consumer)
            reading.until(30 - acked)
            with pytest.raises(canal_group.RolledBack):
                consumer.rollback(batch_id)
        assert sorted(reading.ids.values()) == shop.written["s0"][acked:]


def test_a_second_consumer_is_refused_by_name_or_waits(shop: Shop):
    with shop.serve() as instance, shop.connect(instance) as first:
        with pytest.raises(canal_group.ConsumerActive, match=first.holder) as caught:
            shop.connect(instance, wait_s=0)
        assert caught.value.details["holder"] == first.holder
        waited: list[canal_group.Consumer] = []
        waiting = in_background(lambda: waited.append(shop.connect(instance)))
        assert not waited
        first.close()
        waiting.join()
        (second,) = waited
        assert second.epoch > first.epoch
        second.close()


def test_a_consumer_that_is_busy_elsewhere_keeps_its_lease(shop: Shop):
    """A lease of 3 s, and a second consumer that tries for 5 s: the first one's lease is renewed."""
    with shop.serve() as instance, shop.connect(instance) as first:
        shop.write(0, 5)
        batch = first.get_without_ack(5, timeout=20)
        assert batch is not None
        with pytest.raises(canal_group.ConsumerActive, match=first.holder):
            shop.connect(instance, wait_s=5)
        first.ack(batch.batch_id)


def test_unsubscribing_gives_up_the_cursor(shop: Shop):
    """1. a consumer acks and unsubscribes; 2. its calls are refused; 3. its subscription is gone."""
    with shop.serve() as instance, shop.connect(instance, client_id="other") as other:
        with shop.connect(instance) as consumer:
            shop.write(0, 5)
            assert consumer.get(timeout=20) is not None
            consumer.unsubscribe()
            with pytest.raises(canal_group.NotSubscribed):
                consumer.get_without_ack(timeout=0)
        assert [client["client_id"] for client in other.status()["group"]["clients"]] == ["other"]
        with shop.connect(instance) as again:
            assert again.cursor.sequence == 0


def test_a_stale_epoch_can_neither_get_nor_ack(shop: Shop):
    """1. a consumer gets a batch; 2. its lease is taken over; 3. its calls are refused and change nothing."""
    with shop.serve() as instance, shop.connect(instance) as first:
        shop.write(0, 10)
        batch = first.get_without_ack(5, timeout=20)
        assert batch is not None
        stale = first.epoch
        first._lease.ask("release")
        with shop.connect(instance) as second:
            assert second.epoch > stale
            again = second.get_without_ack(5, timeout=20)
            assert again is not None
            for refused in (
                lambda: first.get_without_ack(5, timeout=0),
                lambda: first.ack(again.batch_id),
                first.rollback,
            ):
                with pytest.raises(canal_group.FencedError) as caught:
                    refused()
                assert caught.value.details == {"our_epoch": stale, "current_epoch": second.epoch}
            assert second.outstanding() == [again.batch_id]
            second.ack(again.batch_id)


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


def test_a_batch_that_is_refused_leaves_no_traceback_in_the_gateways_log(shop: Shop):
    """1. a batch is given back; 2. its rows are refused, with a sentence; 3. the log has nothing of it."""
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 5)
        batch = consumer.get_without_ack(5, timeout=20)
        assert batch is not None
        consumer.rollback()
        with pytest.raises(canal_group.RolledBack):
            batch.envelope()
        assert consumer.status()["group"]["active"]
        pid = ray.get(instance.gateway.pid.remote())
        logs = Path(ray._private.worker._global_node.get_logs_dir_path())
        (log,) = logs.glob(f"worker-*-{pid}.err")
        assert "Traceback" not in log.read_text()
