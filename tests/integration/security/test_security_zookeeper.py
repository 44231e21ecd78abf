"""Sessions at ZooKeeper that are nobody's of ours: what they plant, change, and find out."""

# ruff: noqa: F401, F811 - fixtures are imported, and used by name

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from integration.zookeeper_fixtures import SESSION_S, destination, zookeeper
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.coordination.zookeeper import ZooKeeperCoordinator
from canal_group.gateway.discovery import Directory
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status
from canal_group.merge.errors import ConfigError, ServerUnavailable
from canal_group.zookeeper.login import ZooKeeperLogin

OURS = ZooKeeperLogin("canal", "s3cret")
THEIRS = [make_digest_acl("stranger", "guessed", all=True)]


@pytest.fixture
def stranger(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.hosts, auth_data=[("digest", "stranger:guessed")])
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def serve(zookeeper: EmbeddedZooKeeper, destination: str) -> Iterator[Callable[[], ZooKeeperCoordinator]]:
    made: list[ZooKeeperCoordinator] = []

    def make() -> ZooKeeperCoordinator:
        made.append(
            ZooKeeperCoordinator(
                zookeeper.hosts,
                destination,
                "127.0.0.1:11113",
                "owner",
                prefix=f"/{destination}",
                session_timeout_s=SESSION_S,
                login=OURS,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_below_parents_that_stand_open_a_destination_is_its_users_alone(
    serve: Callable[[], ZooKeeperCoordinator], stranger: KazooClient, destination: str
):
    """1. somebody has made the parents, open to all; 2. whatever they try with the nodes of the server that
    is elected below, it is refused, and the server stays elected."""
    stranger.ensure_path(f"/{destination}/destinations")
    coordinator = serve()
    assert coordinator.campaign() == 1
    coordinator.lease_consumer("1001", "me")
    root = f"/{destination}/destinations/{destination}"
    for node in (root, f"{root}/running", f"{root}/epoch", f"{root}/cluster", f"{root}/1001/lease"):
        for attack in (
            lambda node=node: stranger.get(node),
            lambda node=node: stranger.set(node, b'{"active":false}'),
            lambda node=node: stranger.set_acls(node, THEIRS),
            lambda node=node: stranger.create(f"{node}/evil:1"),
            lambda node=node: stranger.delete(node, recursive=True),
        ):
            with pytest.raises(NoAuthError):
                attack()
    with pytest.raises(NoAuthError):
        stranger.create(f"/{destination}/cluster/evil:1")
    assert coordinator.check_active() > 0
    assert coordinator.connection.stat(f"{root}/running") is not None


def test_nodes_of_another_owner_are_reported_and_not_followed(
    serve: Callable[[], ZooKeeperCoordinator], stranger: KazooClient, destination: str
):
    stranger.ensure_path(f"/{destination}/destinations/{destination}")
    stranger.create(f"/{destination}/destinations/{destination}/running", b"{}", acl=THEIRS)
    with pytest.raises(ConfigError, match=r"refuses user canal access.*ACLs below"):
        serve().campaign()


@pytest.mark.parametrize(
    "address",
    [
        "evil",
        "/run/docker.sock",
        "h:1/path",
        "h:1,grpc+unix:///run/x",
        "user@h:1",
        "h:99999",
        "h:1\n",
        "h:1?x=y",
    ],
)
@pytest.mark.parametrize("node", ["running", "cluster"])
def test_a_malformed_gateway_address_is_never_opened(
    address: str, node: str, zookeeper: EmbeddedZooKeeper, stranger: KazooClient, destination: str
):
    """A consumer shows its token to whom ZooKeeper names: at least that is a host and a port."""
    root = f"/{destination}/destinations/{destination}"
    stranger.ensure_path(f"{root}/cluster")
    if node == "running":
        stranger.create(f"{root}/running", json.dumps({"active": True, "address": address}).encode())
    elif "/" in address or not address.isprintable():
        pytest.skip("no node has such a name")
    else:
        stranger.create(f"{root}/cluster/{address}")
    directory = Directory(zookeeper.hosts, destination, f"/{destination}")
    gateway_client = GatewayClient(directory.gateways, destination, "s3cret")
    try:
        with pytest.raises(ServerUnavailable, match="which is not host:port") as caught:
            gateway_client.ask(Status())
        assert "s3cret" not in str(caught.value)
    finally:
        gateway_client.close()
        directory.close()
