"""Consumers through failovers: finding the active server, standing by, and acknowledgements that got lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from integration.shared_servers import Pair, SharedShop, state_of
from integration.shop import CLIENT, DEADLINE_S, Reading, Shop, in_background
from integration.zookeeper_fixtures import eventually
from kazoo.client import KazooClient
from support.instance.program import run

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.driver.instance import Instance
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Ack
from canal_group.zookeeper.tree import Tree


def connect(shop: Shop, *instances: Instance, **options: Any) -> canal_group.Consumer:
    uris = ",".join(instance.uri for instance in instances) or None
    return canal_group.connect(
        uris, **{"destination": shop.destination, "client_id": CLIENT, "wait_s": DEADLINE_S, **options}
    )


def without_answer(
    consumer: canal_group.Consumer, kind: type[Call[Any]], then: Callable[[], None], *, heard: bool
):
    """Lose the answer to the next call of a kind, or the call; `then` runs before the consumer knows."""
    real = consumer._gateway_client.ask_for

    def ask_for(call: Call[Any], read: Callable[[Any], Any]) -> Any:
        if not isinstance(call, kind):
            return real(call, read)
        consumer._gateway_client.ask_for = real
        if heard:
            real(call, read)
        then()
        raise canal_group.ServerUnavailable("The connection broke off.", retry_after_s=0.1)

    consumer._gateway_client.ask_for = ask_for


def outstanding_batch(consumer: canal_group.Consumer, rows: int = 5) -> canal_group.Batch:
    batch = consumer.get_without_ack(rows, timeout=20)
    assert batch is not None
    return batch


def test_a_consumer_with_two_gateways_goes_on_at_the_other_one(pair_shop: SharedShop, pair: Pair):
    """1. it begins at the standby, which sends it on; 2. the active one hands over while batches are
    outstanding: the next call says RolledBack; 3. nothing is lost, the subscription is still the same.
    """
    with connect(pair_shop, pair.second, pair.first) as consumer:
        epoch = consumer.epoch
        pair_shop.write_everywhere(10)
        reading = Reading(consumer)
        reading.until(20)
        pair_shop.write(0, 5)
        lost = outstanding_batch(consumer)
        pair.hand_over()
        with pytest.raises(canal_group.RolledBack, match="nother server was elected"):
            consumer.ack(lost.batch_id)
        reading.rolled_back()
        reading.until(pair_shop.rows)
        assert consumer.epoch == epoch
        assert consumer.outstanding() == []
    reading.check(pair_shop)


def test_a_get_after_a_failover_reports_outstanding_batches_lost_once(pair_shop: SharedShop, pair: Pair):
    with connect(pair_shop, pair.first, pair.second) as consumer:
        pair_shop.write(0, 10)
        lost = outstanding_batch(consumer)
        pair.hand_over()
        with pytest.raises(canal_group.RolledBack) as caught:
            consumer.get_without_ack(5, timeout=DEADLINE_S)
        assert caught.value.details["batch_id"] == lost.batch_id
        again = outstanding_batch(consumer)
        assert again.start == lost.start
        assert again.batch_id > lost.batch_id
        consumer.ack(again.batch_id)


def test_an_ack_without_an_answer_is_resolved_at_the_same_server(pair_shop: SharedShop):
    with pair_shop.connect() as consumer:
        pair_shop.write(0, 10)
        for heard in (True, False):
            batch = outstanding_batch(consumer)
            without_answer(consumer, Ack, lambda: None, heard=heard)
            assert consumer.ack(batch.batch_id) == batch.ack_position
            assert consumer.cursor == batch.ack_position
            with pytest.raises(canal_group.UnknownBatch):
                consumer.ack(batch.batch_id)
        assert consumer.outstanding() == []


def test_an_ack_without_an_answer_is_resolved_at_the_next_server(pair_shop: SharedShop, pair: Pair):
    """1. the ack is durable, its answer is lost and the server hands over: the ack succeeds, and its rows do
    not come again. "Rolled back" would be a lie: who discards its work then would lose the rows.
    """
    with connect(pair_shop, pair.first, pair.second) as consumer:
        pair_shop.write(0, 10)
        batch = outstanding_batch(consumer)
        without_answer(consumer, Ack, pair.hand_over, heard=True)
        assert consumer.ack(batch.batch_id) == batch.ack_position
        assert outstanding_batch(consumer).start.sequence == batch.end.sequence


def test_an_ack_that_was_never_heard_is_rolled_back_by_the_next_server(pair_shop: SharedShop, pair: Pair):
    """1. the ack is lost on the way, with its server; 2. the next server's cursor has not moved: RolledBack,
    and the rows come again.
    """
    with connect(pair_shop, pair.first, pair.second) as consumer:
        pair_shop.write(0, 10)
        batch = outstanding_batch(consumer)
        without_answer(consumer, Ack, pair.hand_over, heard=False)
        with pytest.raises(canal_group.RolledBack):
            consumer.ack(batch.batch_id)
        again = outstanding_batch(consumer)
        assert again.start == batch.start
        consumer.ack(again.batch_id)


def test_a_consumer_that_knows_zookeeper_keeps_its_node_itself(
    pair_shop: SharedShop, pair: Pair, one_zookeeper: EmbeddedZooKeeper, zookeeper: KazooClient
):
    """1. it finds the active server; its node is of its own session; 2. a failover does not touch the node;
    3. a second one waits for the node, and takes over when the first closes.
    """
    running = Tree(pair_shop.destination).client_running(CLIENT)
    hosts = one_zookeeper.hosts
    consumer = connect(pair_shop, zookeeper=hosts)
    data, stat = zookeeper.get(running)
    assert json.loads(data) == {"active": True, "address": consumer.holder, "clientId": CLIENT}
    assert stat.ephemeralOwner == consumer._lease._node._session_id
    pair_shop.write_everywhere(5)
    reading = Reading(consumer)
    reading.until(10)
    pair.hand_over()
    pair_shop.write_everywhere(5)
    reading.until(20)
    assert zookeeper.exists(running).czxid == stat.czxid
    with pytest.raises(canal_group.ConsumerActive, match=consumer.holder):
        connect(pair_shop, zookeeper=hosts, wait_s=0)
    successors: list[canal_group.Consumer] = []
    waiting = in_background(lambda: successors.append(connect(pair_shop, zookeeper=hosts)))
    consumer.close()
    waiting.join()
    with successors[0] as successor:
        assert successor.epoch > consumer.epoch
        pair_shop.write(0, 5)
        reading.consumer = successor
        reading.until(25)
    reading.check(pair_shop)


_HOLDS = """
import sys, threading
import canal_group
consumer = canal_group.connect(zookeeper=sys.argv[1], destination=sys.argv[2], client_id=sys.argv[3])
print(consumer.get_without_ack(5).batch_id, consumer.epoch, flush=True)
threading.Event().wait()
"""


@pytest.mark.soak
def test_a_waiting_consumer_gets_the_batches_of_a_killed_one(
    shop: Shop, one_zookeeper: EmbeddedZooKeeper, zookeeper: KazooClient
):
    """The lease at the server is long: it is the node that tells that the first consumer is gone.

    1. a consumer holds a batch and is killed; 2. its node goes with its session; 3. the one that waits takes
    over, and gets the batch's rows; 4. the dead one's epoch is over.
    """
    hosts = one_zookeeper.hosts
    with shop.serve(consumer={"lease_s": 10 * DEADLINE_S}):
        connect(shop, zookeeper=hosts).close()
        shop.write(0, 10)
        process = subprocess.Popen(
            [sys.executable, "-c", _HOLDS, hosts, shop.destination, CLIENT],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            batch_id, epoch = (int(word) for word in process.stdout.readline().split())
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        with connect(shop, zookeeper=hosts) as successor:
            assert successor.epoch > epoch
            reading = Reading(successor)
            reading.until(10)
            with pytest.raises(canal_group.FencedError):
                successor.gateway_client.ask(Ack(CLIENT, epoch, batch_id))
    reading.check(shop)


def test_a_consumer_without_zookeeper_has_a_node_that_its_server_keeps(
    pair_shop: SharedShop, pair: Pair, one_zookeeper: EmbeddedZooKeeper, zookeeper: KazooClient
):
    """1. the server keeps its node; 2. one that knows ZooKeeper waits for it; 3. after a failover the next
    server keeps it; 4. it goes with the consumer.
    """
    running = Tree(pair_shop.destination).client_running(CLIENT)
    with connect(pair_shop, pair.first, pair.second) as consumer:
        assert json.loads(zookeeper.get(running)[0])["address"] == consumer.holder
        with pytest.raises(canal_group.ConsumerActive, match=consumer.holder):
            connect(pair_shop, zookeeper=one_zookeeper.hosts, wait_s=0)
        owner = zookeeper.exists(running).ephemeralOwner
        pair.hand_over()
        pair_shop.write(0, 5)
        Reading(consumer).until(5)
        assert json.loads(zookeeper.get(running)[0])["address"] == consumer.holder
        assert zookeeper.exists(running).ephemeralOwner != owner
    eventually(lambda: zookeeper.exists(running) is None, "the node to go")


def test_a_consumer_says_where_it_looked(one_zookeeper: EmbeddedZooKeeper):
    with pytest.raises(canal_group.ServerUnavailable, match="No server of nowhere"):
        canal_group.connect(zookeeper=one_zookeeper.hosts, destination="nowhere", wait_s=0)
    with pytest.raises(canal_group.CoordinatorUnavailable):
        canal_group.connect(zookeeper="127.0.0.1:1", destination="nowhere", wait_s=0)
    with pytest.raises(canal_group.ConfigError):
        canal_group.connect(destination="nowhere")


def test_no_ack_is_accepted_by_two_servers(pair_shop: SharedShop, pair: Pair):
    """A consumer acks while its servers take turns: no cursor is before one that was answered."""
    with connect(pair_shop, pair.first, pair.second) as consumer:
        pair_shop.write_everywhere(30)
        cursors: list[tuple[int, int]] = []
        handed = False
        reading = Reading(consumer)
        while len(reading.ids) < pair_shop.rows:
            try:
                batch = consumer.get_without_ack(3, timeout=2)
                if batch is None:
                    continue
                rows = batch.envelope()
                sequence = consumer.ack(batch.batch_id).sequence
            except canal_group.RolledBack:
                reading.rolled_back()
                continue
            except canal_group.RetryableError:
                continue
            reading.take(rows)
            cursors.append((batch.batch_id >> 32, sequence))
            if len(cursors) == 5 and not handed:
                handed = True
                pair.hand_over()
        assert cursors == sorted(cursors), "an epoch ends where the next one begins"
        assert len({epoch for epoch, _ in cursors}) == 2
        sequences = [sequence for _, sequence in cursors]
        assert sequences == sorted(set(sequences)), "no cursor was reached twice"
    reading.check(pair_shop)


@pytest.mark.soak
def test_a_stopped_destination_has_no_server_until_it_is_started(
    pair_shop: SharedShop, pair: Pair, one_zookeeper: EmbeddedZooKeeper, zookeeper: KazooClient
):
    """1. two servers; 2. `stop`: nobody serves, and both say who stopped it; 3. a consumer waits; 4. `start`:
    the consumer goes on where it was.
    """
    where = ("-z", one_zookeeper.hosts)
    with connect(pair_shop, pair.first, pair.second) as consumer:
        pair_shop.write(0, 10)
        reading = Reading(consumer)
        reading.until(10)
        said = run("stop", pair_shop.destination, *where, "--reason", "moving house").stdout
        assert "stopped by" in said
        assert zookeeper.exists(Tree(pair_shop.destination).running) is None
        again = run("stop", pair_shop.destination, *where, "--reason", "other").stdout
        assert "moving house" in again
        for instance in (pair.first, pair.second):
            eventually(lambda one=instance: state_of(one).get("stopped"), "the mark to be seen")
            status = run("status", "-g", instance.uri, "-d", pair_shop.destination).stdout
            assert "moving house" in status
        with pytest.raises(canal_group.ServerUnavailable, match="moving house"):
            consumer.get_without_ack(timeout=0)
        pair_shop.write(0, 5)
        assert "may be served again" in run("start", pair_shop.destination, *where).stdout
        assert "was not stopped" in run("start", pair_shop.destination, *where).stdout
        reading.until(15)
    reading.check(pair_shop)


def test_the_running_node_moves_the_destination_to_the_standby(pair_shop: SharedShop, pair: Pair):
    """1. two servers, and a batch outstanding; 2. `"active": false` is written into `running`; 3. the other
    one serves, in good order: what was outstanding is rolled back and comes again, nothing is lost.
    """
    with connect(pair_shop, pair.first, pair.second) as consumer:
        pair_shop.write(0, 10)
        reading = Reading(consumer)
        reading.until(10, batch_size=5)
        pair_shop.write(0, 5)
        assert consumer.get_without_ack(2, timeout=20) is not None
        pair.hand_over()
        eventually(lambda: state_of(pair.second)["active"], "the second server", within_s=DEADLINE_S)
        assert not state_of(pair.first)["active"]
        reading.until(15)
    reading.check(pair_shop)
