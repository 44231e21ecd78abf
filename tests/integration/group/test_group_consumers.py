"""A whole instance on real servers: its consumers one after the other, and what it refuses them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import ray
from integration.shared_servers import SharedShop
from integration.shop import CLIENT, Reading, in_background

import canal_group
from canal_group.merge.calls.consumers import Get, Release


def test_a_batch_without_an_answer_is_delivered_again(served: SharedShop):
    """1. a get's answer never arrives; 2. the next get brings the same rows under a new id."""
    with served.connect() as consumer:
        served.write(0, 10)
        first = consumer.get_without_ack(2, timeout=20)
        assert first is not None
        lost = consumer.gateway_client.ask(Get(*consumer._lease.key, 2, 5.0, first.batch_id))
        again = consumer.get_without_ack(2, timeout=20)
        assert again is not None
        assert again.batch_id > lost["batch_id"]
        assert again.start.to_json() == lost["start"]
        assert consumer.outstanding() == [first.batch_id, again.batch_id]
        consumer.ack(first.batch_id)
        consumer.ack(again.batch_id)


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


def test_a_killed_consumers_batches_go_to_the_next_one(served: SharedShop):
    """1. a consumer acks a batch and is killed with another outstanding; 2. its lease runs out; 3. the next
    one gets what was not acknowledged, and the dead one's epoch is over.
    """
    served.connect().close()
    served.write(0, 30)
    process = subprocess.Popen(
        [sys.executable, "-c", _CONSUMER_THAT_HANGS, served.instance.uri, served.destination, CLIENT],
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
    with served.connect() as consumer:
        reading = Reading(consumer)
        reading.until(30 - acked)
        with pytest.raises(canal_group.RolledBack):
            consumer.rollback(batch_id)
    assert sorted(reading.ids.values()) == served.written["s0"][acked:]


def test_a_second_consumer_is_refused_by_name_or_waits(served: SharedShop):
    with served.connect() as first:
        with pytest.raises(canal_group.ConsumerActive, match=first.holder) as caught:
            served.connect(wait_s=0)
        assert caught.value.details["holder"] == first.holder
        waited: list[canal_group.Consumer] = []
        waiting = in_background(lambda: waited.append(served.connect()))
        assert not waited
        first.close()
        waiting.join()
        (second,) = waited
        assert second.epoch > first.epoch
        second.close()


def test_a_consumer_that_is_busy_elsewhere_keeps_its_lease(served: SharedShop):
    """A lease of 3 s, and a second consumer that tries for 5 s: the first one's lease is renewed."""
    with served.connect() as first:
        served.write(0, 5)
        batch = first.get_without_ack(5, timeout=20)
        assert batch is not None
        with pytest.raises(canal_group.ConsumerActive, match=first.holder):
            served.connect(wait_s=5)
        first.ack(batch.batch_id)


def test_unsubscribing_gives_up_the_cursor(served: SharedShop):
    """1. a consumer acks and unsubscribes; 2. its calls are refused; 3. its subscription is gone."""
    with served.connect(client_id="other") as other:
        with served.connect() as consumer:
            served.write(0, 5)
            assert consumer.get(timeout=20) is not None
            consumer.unsubscribe()
            with pytest.raises(canal_group.NotSubscribed):
                consumer.get_without_ack(timeout=0)
        assert [client["client_id"] for client in other.status()["group"]["clients"]] == ["other"]
        with served.connect() as again:
            assert again.cursor.sequence == other.cursor.sequence, "where the one stands that read nothing"


def test_a_stale_epoch_can_neither_get_nor_ack(served: SharedShop):
    """1. a consumer gets a batch; 2. its lease is taken over; 3. its calls are refused and change nothing."""
    with served.connect() as first:
        served.write(0, 10)
        batch = first.get_without_ack(5, timeout=20)
        assert batch is not None
        stale = first.epoch
        first.gateway_client.ask(Release(*first._lease.key))
        with served.connect() as second:
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


def test_a_batch_that_is_refused_leaves_no_traceback_in_the_gateways_log(served: SharedShop):
    """1. a batch is given back; 2. its rows are refused, with a sentence; 3. the log has nothing of it."""
    with served.connect() as consumer:
        served.write(0, 5)
        batch = consumer.get_without_ack(5, timeout=20)
        assert batch is not None
        consumer.rollback()
        with pytest.raises(canal_group.RolledBack):
            batch.envelope()
        assert consumer.status()["group"]["active"]
        pid = ray.get(served.instance.gateway.actor.pid.remote())
        logs = Path(ray._private.worker._global_node.get_logs_dir_path())
        (log,) = logs.glob(f"worker-*-{pid}.err")
        assert "Traceback" not in log.read_text()
