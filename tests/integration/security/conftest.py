"""What the tests of this folder guard is the gateway and ZooKeeper, whatever the instance reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.shop import Shop

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from playground.database.server_process import DatabaseServer


@pytest.fixture
def shop(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, two_servers: list[DatabaseServer], tmp_path: Path
) -> Shop:
    """One shard: each one more is a process that takes a second of a processor to start."""
    return Shop([two_servers[0].start()], one_zookeeper.hosts, tmp_path)
