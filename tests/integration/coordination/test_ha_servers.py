"""Several servers for one destination: one serves, and nobody serves without knowing that it may."""

# ruff: noqa: F401 - fixtures are imported, and used by name

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pytest
import ray
from chaos.ensemble import Ensemble
from integration.serve_process import Serve
from integration.shared_servers import state_of
from integration.shop import CLIENT, DEADLINE_S, Reading, Shop, in_background
from integration.zookeeper_fixtures import Proxy, eventually
from kazoo.client import KazooClient
from support.instance.program import PROGRAM, run

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.driver.instance import Instance
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.call import Call
from canal_group.merge.calls.consumers import Ack, Get, LeaseState, Subscribe
from canal_group.operator import Operator
from canal_group.zookeeper.tree import Tree


@pytest.fixture
def proxy(one_zookeeper: EmbeddedZooKeeper) -> Iterator[Proxy]:
    proxy = Proxy(one_zookeeper.hosts)
    yield proxy
    proxy.close()


def active(instance: Instance) -> bool:
    try:
        return bool(state_of(instance)["active"])
    except ray.exceptions.RayError:
        return False


@pytest.mark.soak
def test_a_standby_takes_over_from_a_killed_or_ended_server(
    offline: Shop, instance_file: Path, one_zookeeper: EmbeddedZooKeeper, zookeeper: KazooClient
):
    """Two `serve` processes on Rays of their own, and one consumer that never subscribes again.

    1. one serves, the other stands by and names it; 2. the active one is killed: the other serves, under a
    higher epoch; 3. a third starts and stands by; 4. SIGTERM: at its end the active one has given the
    destination up already; 5. the third serves; 6. nothing is lost, and the consumer's epoch is still the
    first.
    """
    tree = Tree(offline.destination)
    config = ("-c", str(instance_file))
    with ExitStack() as servers:
        first = servers.enter_context(Serve(*config))
        address = first.says("serving", offline.destination).split()[-1].removeprefix("grpc://")
        second = servers.enter_context(Serve(*config))
        second.says("standing by for", f"{address} is active")
        found = run("status", "-z", one_zookeeper.hosts, "-d", offline.destination, "--json").stdout
        assert json.loads(found)["group"]["server"] == address
        assert json.loads(zookeeper.get(tree.running)[0]) == {"active": True, "address": address}
        consumer = servers.enter_context(
            canal_group.connect(
                zookeeper=one_zookeeper.hosts, destination=offline.destination, client_id=CLIENT
            )
        )
        epoch = consumer.epoch
        reading = Reading(consumer)
        offline.write_everywhere(10)
        reading.until(15)
        before = consumer.status()["group"]["epoch"]
        first.end(signal.SIGKILL)
        offline.write_everywhere(10)
        second.says("serving", offline.destination)
        reading.until(35)
        assert consumer.status()["group"]["epoch"] > before
        third = servers.enter_context(Serve(*config))
        third.says("standing by for")
        assert second.end() == 0
        by = json.loads(zookeeper.get(tree.running)[0])["address"] if zookeeper.exists(tree.running) else None
        address = third.says("serving", offline.destination).split()[-1].removeprefix("grpc://")
        assert by in (None, address), "the second one has given it up when it ends"
        offline.write_everywhere(5)
        reading.until(offline.rows)
        assert consumer.epoch == epoch
    reading.check(offline)


@pytest.mark.soak
def test_a_server_that_was_paused_refuses_everything_and_stands_by(shop: Shop):
    """A group actor sleeps for longer than its session.

    1. a batch is outstanding at the first server; 2. its group is paused; 3. the second server is elected
    and serves the consumer; 4. the first wakes: it can neither deliver, ack nor read rows out, and stands by;
    5. the cursor is where the second's acks brought it.
    """
    with shop.serve() as first:
        eventually(lambda: active(first), "the first server")
        with shop.serve() as second, shop.connect(first) as old:
            shop.write(0, 20)
            batch = old.get_without_ack(5, timeout=20)
            assert batch is not None
            pid = int(str(state_of(first)["pid"]))
            os.kill(pid, signal.SIGSTOP)
            try:
                eventually(lambda: active(second), "the second server", within_s=DEADLINE_S)
                with shop.connect(second) as consumer:
                    reading = Reading(consumer)
                    reading.until(20)
                    cursor = consumer.cursor
                    os.kill(pid, signal.SIGCONT)
                    gateway_client = GatewayClient(first.uri, shop.destination)
                    key = CLIENT, old.epoch
                    for request in (
                        lambda: gateway_client.ask(Ack(*key, batch.batch_id)),
                        lambda: gateway_client.ask(Get(*key, 5, 0.0, batch.batch_id)),
                        lambda: gateway_client.rows(
                            client_id=CLIENT, epoch=old.epoch, batch_id=batch.batch_id, format="envelope"
                        ),
                        lambda: gateway_client.ask(LeaseState(CLIENT)),
                        lambda: gateway_client.ask(Subscribe("2002", "x")),
                    ):
                        with pytest.raises(canal_group.RetryableError):
                            request()
                    gateway_client.close()
                    eventually(
                        lambda: state_of_restarted(first).get("active_server") == address_of(second),
                        "the first server to stand by",
                        within_s=DEADLINE_S,
                    )
                    assert consumer.status()["group"]["clients"][0]["cursor"] == cursor.to_json()
                    shop.write(0, 5)
                    reading.until(25)
            finally:
                os.kill(pid, signal.SIGCONT) if _lives(pid) else None
    reading.check(shop)


def state_of_restarted(instance: Instance) -> dict[str, object]:
    try:
        return state_of(instance)
    except ray.exceptions.RayError:
        return {}


def address_of(instance: Instance) -> str:
    return instance.uri.removeprefix("grpc://")


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.soak
def test_a_shard_of_a_silent_group_leaves_its_source(shop: Shop):
    """1. rows flow; 2. the group is paused; 3. the shards' connections to the sources end by themselves."""
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 5)
        Reading(consumer).until(5)
        pid = int(str(state_of(instance)["pid"]))
        os.kill(pid, signal.SIGSTOP)
        try:
            for shard in instance.actor_registry.actors:
                eventually(
                    lambda shard=shard: ray.get(shard.status.remote())["state"] == "closed",
                    "the shard to leave its source",
                    within_s=DEADLINE_S,
                )
        finally:
            os.kill(pid, signal.SIGCONT)
        shop.write(0, 5)
        reading = Reading(consumer)
        reading.until(5)


@pytest.mark.soak
def test_one_of_three_zookeepers_may_die_while_an_instance_serves(shop: Shop, tmp_path: Path):
    """1. rows flow; 2. the ZooKeepers are killed one after the other, each back before the next one goes, the
    leader among them: the consumer keeps its epoch, nothing is lost; 3. two are killed: nothing is served
    until one is back.
    """
    ensemble = Ensemble(tmp_path / "ensemble")
    with ExitStack() as stack:
        stack.callback(ensemble.close)
        ensemble.start()
        ensemble.wait()
        shop.zookeeper_hosts = ensemble.hosts
        # No election of a leader takes so long.
        coordination = {"kind": "zookeeper", "hosts": ensemble.hosts, "session_timeout_s": 10}
        instance = stack.enter_context(shop.serve(coordination=coordination))
        consumer = stack.enter_context(shop.connect(instance))
        epochs = consumer.epoch, consumer.status()["group"]["epoch"]
        reading = Reading(consumer)
        for round_, member in enumerate(ensemble.members):
            member.end()
            shop.write(0, 5)
            reading.until(5 * round_ + 5)
            member.start()
            ensemble.wait()
        assert (consumer.epoch, consumer.status()["group"]["epoch"]) == epochs
        for member in ensemble.members[:2]:
            member.end()
        eventually(lambda: not active(instance), "serving to stop", within_s=DEADLINE_S)
        shop.write(0, 5)
        ensemble.members[0].start()
        reading.until(20)
    reading.check(shop)


def test_without_zookeeper_nothing_is_served_and_then_it_goes_on(shop: Shop, proxy: Proxy):
    """1. rows flow; 2. ZooKeeper is cut off: before the session can have ended, gets and acks are refused;
    3. it is back: the consumer goes on, and nothing is lost.
    """
    shop.zookeeper_hosts = proxy.hosts
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 10)
        reading = Reading(consumer)
        reading.until(10)
        shop.write(0, 5)
        batch = consumer.get_without_ack(2, timeout=20)
        assert batch is not None
        proxy.cut()
        gateway_client = GatewayClient(instance.uri, shop.destination)
        key = CLIENT, consumer.epoch

        def refused(call: Call[object]) -> bool:
            try:
                gateway_client.ask(call)
            except canal_group.RetryableError:
                return True
            return False

        get = Get(*key, 1, 0.0, batch.batch_id)
        eventually(lambda: refused(get), "gets to be refused", within_s=DEADLINE_S)
        assert refused(Ack(*key, batch.batch_id))
        with pytest.raises(canal_group.RetryableError):
            gateway_client.rows(
                client_id=CLIENT, epoch=consumer.epoch, batch_id=batch.batch_id, format="envelope"
            )
        gateway_client.close()
        proxy.mend()
        # Where the session outlived the cut, what the gets took before they were refused is outstanding.
        consumer.rollback()
        reading.rolled_back()
        reading.until(15)
    reading.check(shop)


def test_a_gateway_that_was_paused_lets_no_rows_out_after_a_hand_over(shop: Shop):
    """1. a batch is outstanding; 2. its gateway is paused, with a request for its rows before it; 3. its
    group hands over; 4. the gateway wakes: the rows are refused.
    """
    with shop.serve() as instance, shop.connect(instance) as consumer:
        shop.write(0, 10)
        batch = consumer.get_without_ack(5, timeout=20)
        assert batch is not None
        pid = ray.get(instance.gateway.actor.pid.remote())
        os.kill(pid, signal.SIGSTOP)
        outcome: list[object] = []
        gateway_client = GatewayClient(instance.uri, shop.destination)
        ticket = {"client_id": CLIENT, "epoch": consumer.epoch, "batch_id": batch.batch_id}

        def read() -> None:
            try:
                outcome.append(gateway_client.rows(**ticket, format="envelope"))
            except canal_group.CanalGroupError as error:
                outcome.append(error)

        try:
            reader = in_background(read)
            ray.get(instance.group.close.remote(), timeout=DEADLINE_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        reader.join()
        gateway_client.close()
        assert isinstance(outcome[0], canal_group.RetryableError), outcome


@pytest.mark.soak
def test_a_server_that_cannot_serve_leaves_it_to_another(shop: Shop, tmp_path: Path):
    """canal keeps `running` though the start of the instance failed.

    1. a server wins whose cursor file is damaged; 2. another one gets its turn, and serves.
    """
    damaged, sound = tmp_path / "damaged", tmp_path / "sound"
    damaged.mkdir()
    (damaged / f"{shop.destination}@cursors@{CLIENT}.json").write_text("{")
    with shop.serve(cursor={"kind": "file", "folder": str(damaged)}) as broken:
        eventually(lambda: not state_of_restarted(broken), "the first server to break", within_s=DEADLINE_S)
        with (
            shop.serve(cursor={"kind": "file", "folder": str(sound)}) as server,
            canal_group.connect(
                f"{broken.uri},{server.uri}", destination=shop.destination, client_id=CLIENT
            ) as consumer,
        ):
            shop.write(0, 5)
            reading = Reading(consumer)
            reading.until(5)
    reading.check(shop)
