"""canal's clients and two servers: what ZooKeeper says, and a client that reconnects after a failover."""

from __future__ import annotations

import json
from typing import Any

import pytest
from integration.canal_clients import RawClient, Refused, canal_python, images_of, inserted_ids
from integration.shared_servers import state_of
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually
from kazoo.client import KazooClient

import canal_group
from canal_group.zookeeper.tree import Tree

CANAL = {"canal": {"port": 0}}


def running(zookeeper: KazooClient, shop: Shop) -> dict[str, Any]:
    """What canal's cluster clients read."""
    data, _ = zookeeper.get(Tree(shop.destination).running)
    return dict(json.loads(data))


@pytest.mark.soak
def test_clients_of_both_protocols_find_the_next_server(shop: Shop, zookeeper: KazooClient):
    """1. a client of each protocol reads; 2. the active server hands over; 3. both go on at the other one."""
    with shop.serve(**CANAL) as one, shop.serve(**CANAL) as other:
        eventually(lambda: state_of(one)["active"] or state_of(other)["active"], "one to be active")
        first, second = (one, other) if state_of(one)["active"] else (other, one)
        said = running(zookeeper, shop)
        assert said == {
            "active": True,
            "address": first.canal_address,
            "gateway": first.uri.removeprefix("grpc://"),
        }
        tree = Tree(shop.destination)
        eventually(
            lambda: set(zookeeper.get_children(tree.clusters[1])) == {one.canal_address, other.canal_address},
            "both servers to be registered",
        )
        with canal_group.connect(
            zookeeper=shop.zookeeper_hosts, destination=shop.destination, client_id="ours"
        ) as ours:
            with canal_python() as theirs:
                theirs.open(said["address"], shop.destination)
                shop.write(0, 2)
                kept = theirs.get_without_ack(batch_size=1, timeout=10_000, unit=2)
                released = {**said, "active": False}
                zookeeper.set(tree.running, json.dumps(released).encode())
                eventually(
                    lambda: state_of(second)["active"], "the other one to be active", within_s=DEADLINE_S
                )
                with pytest.raises(ConnectionError):
                    theirs.get_without_ack(batch_size=1, timeout=10_000, unit=2)
                with pytest.raises(ConnectionError):
                    theirs.open(said["address"], shop.destination)
                assert running(zookeeper, shop)["address"] == second.canal_address
                theirs.open(second.canal_address, shop.destination)
                found: list[Any] = []
                while len(found) < 2:
                    message = theirs.get_without_ack(batch_size=10, timeout=10_000, unit=2)
                    found += images_of(message["entries"])
                    theirs.ack(message_id=message["id"])
                assert [int(after["id"]) for *_, after in found] == shop.written["s0"]
                assert kept["id"] > 0
            batch = ours.get_without_ack(timeout=DEADLINE_S)
            assert batch is not None
            assert batch.envelope().num_rows > 0, "our own consumer has found the other gateway"


@pytest.mark.soak
def test_a_standby_server_says_that_it_is_not_active(shop: Shop):
    with shop.serve(**CANAL) as one, shop.serve(**CANAL) as other:
        eventually(lambda: state_of(one)["active"] or state_of(other)["active"], "one to be active")
        standby = other if state_of(one)["active"] else one
        client = RawClient(standby.canal_address, shop.destination).log_in()
        with client, pytest.raises(Refused, match="not the active one"):
            client.subscribe()


def test_a_client_that_keeps_its_running_node_keeps_it(shop: Shop, zookeeper: KazooClient):
    """As canal's cluster client does: 1. it makes its node, and connects; 2. it leaves; 3. its node stays."""
    path = Tree(shop.destination).client_running("1001")
    with shop.serve(**CANAL) as instance:
        state = b'{"active":true,"address":null,"clientId":1001}'
        zookeeper.create(path, state, ephemeral=True, makepath=True)
        with RawClient(instance.canal_address, shop.destination).log_in().subscribe() as client:
            zookeeper.set(path, b'{"active":true,"address":"10.0.0.5:4000","clientId":1001}')
            shop.write(0, 1)
            batch_id, entries = client.get()
            assert inserted_ids(entries) == shop.written["s0"]
            client.ack(batch_id)
            assert zookeeper.get(path)[1].ephemeralOwner == zookeeper.client_id[0]
        with RawClient(instance.canal_address, shop.destination).log_in() as again:
            again.subscribe()
            assert zookeeper.get(path)[1].ephemeralOwner == zookeeper.client_id[0]
            assert again.get(timeout=-1) == (-1, [])
