"""One Ray and one ZooKeeper for all tests of whole instances; shops of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.shop import Shop

from actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.demo.mariadb import MariaDbServer
from canal_group.demo.server_process import ServerMissingError
from canal_group.demo.servers import start_all


@pytest.fixture(scope="session")
def one_ray() -> Iterator[None]:
    import ray

    from actors import local_ray

    local_ray.start("canal_group", num_cpus=2)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def one_zookeeper() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tick_ms=500) as server:
        yield server


@pytest.fixture(scope="session")
def two_servers() -> Iterator[list[MariaDbServer]]:
    servers = [MariaDbServer(), MariaDbServer()]
    try:
        start_all(servers)
    except ServerMissingError as error:
        pytest.skip(str(error))
    yield servers
    for server in servers:
        server.close()


@pytest.fixture
def shop(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, two_servers: list[MariaDbServer], tmp_path: Path
) -> Shop:
    """Two shards that the tests share; each test has tables and a destination of its own."""
    for server in two_servers:
        if not server.running:
            server.start()
    return Shop(two_servers, one_zookeeper.hosts, tmp_path)
