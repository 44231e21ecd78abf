"""canal's Java client by ZooKeeper: it finds the active server, and goes on after each way to lose it."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from integration.canal_clients import ANSWER_S, ClientProcess, canal_python, images_of
from integration.canal_java import Java
from integration.serve_process import Serve
from integration.shared_servers import state_of
from integration.shop import DEADLINE_S, Shop, in_background, kill
from integration.zookeeper_fixtures import eventually
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

import canal_group
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.zookeeper.tree import Tree

pytestmark = pytest.mark.soak

CANAL = {"canal": {"port": 0}}
#: what a get returns without a batch
NOTHING: dict[str, Any] = {"id": -1, "entries": []}
GET = {"batch_size": 10, "timeout": 5_000, "unit": 2}


def active_address(zookeeper: KazooClient, shop: Shop) -> str:
    """Where `running` sends canal's cluster clients."""
    data, _ = zookeeper.get(Tree(shop.destination).running)
    return str(json.loads(data)["address"])


def moved(zookeeper: KazooClient, shop: Shop, address: str) -> bool:
    """Whether a server at another address is active."""
    try:
        return active_address(zookeeper, shop) != address
    except NoNodeError:
        return False


def ids_of(message: dict[str, Any]) -> list[int]:
    return [int(after["id"]) for *_, after in images_of(message["entries"])]


def read(client: ClientProcess, count: int, **get: Any) -> list[int]:
    """Return the ids of so many inserted rows, acknowledged."""
    found: list[int] = []
    until_s = time.monotonic() + ANSWER_S
    while len(found) < count:
        assert time.monotonic() < until_s, f"{len(found)} of {count} rows came"
        message = client.get_without_ack(**{**GET, **get})
        found += ids_of(message)
        client.ack(message_id=message["id"])
    return found


def read_on(
    client: ClientProcess, kept: dict[str, Any], count: int, open_again: Callable[[], None]
) -> list[int]:
    """Return the ids of so many different rows, the first ones of a batch that it has.

    After an error it connects again, as canal's examples do, and forgets the batch that it has.
    """
    message, found = kept, dict.fromkeys(ids_of(kept))
    until_s = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < until_s, f"{len(found)} of {count} rows came"
        try:
            client.ack(message_id=message["id"])
            message = client.get_without_ack(**GET)
            found |= dict.fromkeys(ids_of(message))
        except (ConnectionError, NoNodeError):
            message = NOTHING
            with contextlib.suppress(ConnectionError, NoNodeError):
                open_again()
    return list(found)


def test_it_goes_on_at_the_next_server_after_a_hand_over(
    shop: Shop, zookeeper: KazooClient, canal_java: Java
):
    """1. it has a batch; 2. the active server hands over; 3. its next get is answered by the other one, with
    that batch and what follows; 4. a second client waits until it leaves, as canal's do, and goes on.
    """
    with shop.serve(**CANAL) as one, shop.serve(**CANAL) as other, canal_java() as client:
        eventually(lambda: state_of(one)["active"] or state_of(other)["active"], "one to be active")
        second = other if state_of(one)["active"] else one
        client.open_by_zookeeper(shop.zookeeper_hosts, shop.destination)
        shop.write(0, 2)
        kept = client.get_without_ack(**{**GET, "batch_size": 1})
        assert kept["id"] > 0
        tree = Tree(shop.destination)
        data, _ = zookeeper.get(tree.running)
        zookeeper.set(tree.running, json.dumps({**json.loads(data), "active": False}).encode())
        eventually(lambda: state_of(second)["active"], "the other one to be active", within_s=DEADLINE_S)
        again = client.get_without_ack(**{**GET, "batch_size": 1})
        assert again["entries"] == kept["entries"]
        client.ack(message_id=again["id"])
        assert read(client, 1) == shop.written["s0"][1:]
        client.disconnect()
        with canal_java() as next_client:
            next_client.open_by_zookeeper(shop.zookeeper_hosts, shop.destination)
            shop.write(1, 1)
            assert read(next_client, 1) == shop.written["s1"]


def test_it_goes_on_after_the_gateway_was_killed(shop: Shop, zookeeper: KazooClient, canal_java: Java):
    with shop.serve(**CANAL) as instance, canal_java() as client:
        client.open_by_zookeeper(shop.zookeeper_hosts, shop.destination)
        shop.write(0, 3)
        first = client.get_without_ack(**{**GET, "batch_size": 1})
        client.ack(message_id=first["id"])
        with shop.connect(instance, client_id="observer") as observer:
            kill(observer.status()["gateway"]["pid"])
        assert read(client, 2) == shop.written["s0"][1:]
        assert active_address(zookeeper, shop) == instance.canal_address


def test_clients_go_on_at_the_next_server_after_the_active_one_was_killed(
    offline: Shop, one_zookeeper: EmbeddedZooKeeper, zookeeper: KazooClient, canal_java: Java, tmp_path: Path
):
    """Two `serve` processes; canal's Java client, canal-python and our own consumer, each with a batch.

    1. the active process is killed with SIGKILL, and the Java client goes on asking; 2. the other process
    serves, and rows are written; 3. each client has acknowledged what it had, goes on, and misses nothing.
    """
    config = tmp_path / "shop.yaml"
    shards = ", ".join(
        f"{{name: s{index}, host: 127.0.0.1, port: {source.port}, user: canal,"
        f" password_file: {tmp_path / 'password'}}}"
        for index, source in enumerate(offline.servers)
    )
    config.write_text(
        f"preset: default\ndestination: {offline.destination}\nshards: [{shards}]\n"
        f"coordination: {{kind: zookeeper, hosts: '{one_zookeeper.hosts}', session_timeout_s: 4}}\n"
        "cursor: {flush_s: null}\ngateway: {port: 0}\ncanal: {port: 0}\nray: {num_cpus: 2}\n"
    )
    with ExitStack() as stack:
        first = stack.enter_context(Serve("-c", str(config)))
        first.says("serving")
        second = stack.enter_context(Serve("-c", str(config)))
        second.says("standing by for")
        killed = active_address(zookeeper, offline)
        java = stack.enter_context(canal_java())
        java.open_by_zookeeper(one_zookeeper.hosts, offline.destination)
        python = stack.enter_context(canal_python())
        python.open(killed, offline.destination, client_id="1002")
        find = {"zookeeper": one_zookeeper.hosts, "destination": offline.destination, "client_id": "ours"}
        ours = stack.enter_context(canal_group.connect(**find, wait_s=DEADLINE_S))
        offline.write(0, 4)
        expected = offline.written["s0"]
        assert read(java, 1, batch_size=1) == read(python, 1, batch_size=1) == expected[:1]
        kept = [client.get_without_ack(**{**GET, "batch_size": 1}) for client in (java, python)]
        first.end(signal.SIGKILL)

        def write_when_another_serves() -> None:
            eventually(lambda: moved(zookeeper, offline, killed), "another server", within_s=DEADLINE_S)
            offline.write(0, 2)

        def open_java() -> None:
            java.disconnect()
            java.connect()
            java.subscribe(filter="")

        def open_python() -> None:
            python.open(active_address(zookeeper, offline), offline.destination, client_id="1002")

        writing = in_background(write_when_another_serves)
        assert read_on(java, kept[0], 5, open_java) == expected[1:]
        assert read_on(python, kept[1], 5, open_python) == expected[1:]
        writing.join()
        batch = ours.get_without_ack(timeout=DEADLINE_S)
        assert batch is not None
