"""One Ray and one ZooKeeper for all tests of whole instances; shops of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from integration.shared_ray import shared_ray
from integration.shop import Shop
from kazoo.client import KazooClient

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from playground.database.mariadb import MariaDbServer
from playground.database.server_process import DatabaseServer, ServerMissingError
from playground.database.servers import start_all


@pytest.fixture(scope="session")
def one_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    import ray

    from canal_group.actors.driver import local_ray
    from canal_group.actors.driver.ray_private import require_token

    with shared_ray(shared_folder(tmp_path_factory)) as address:
        require_token()
        local_ray.join(address, "canal_group")
        yield
        ray.shutdown()


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes see which share the tests of this run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def one_zookeeper() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tick_ms=500) as server:
        yield server


@contextmanager
def all_started(*servers: DatabaseServer) -> Iterator[list[DatabaseServer]]:
    """Start servers side by side, or skip the test where they cannot be had; close them after it."""
    try:
        start_all(servers)
    except ServerMissingError as error:
        pytest.skip(str(error))
    try:
        yield list(servers)
    finally:
        for server in servers:
            server.close()


@pytest.fixture(scope="session")
def two_servers() -> Iterator[list[DatabaseServer]]:
    with all_started(MariaDbServer(), MariaDbServer()) as servers:
        yield servers


@pytest.fixture
def shop(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, two_servers: list[DatabaseServer], tmp_path: Path
) -> Shop:
    """Two shards that the tests share; each test has tables and a destination of its own."""
    for server in two_servers:
        if not server.running:
            server.start()
    return Shop(two_servers, one_zookeeper.hosts, tmp_path)


@pytest.fixture
def readable(shop: Shop) -> Shop:
    """A shop whose rows the instance may select, which the stream alone does not need."""
    for index, server in enumerate(shop.servers):
        server.execute(f"GRANT SELECT ON shop_{index}.* TO {server.address().user}@127.0.0.1")
    return shop


@pytest.fixture
def zookeeper(one_zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A client of its own, that sees what the servers write."""
    client = KazooClient(one_zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()
