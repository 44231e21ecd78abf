"""The command line as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from integration.shop import DEADLINE_S, Shop

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from playground.database.mariadb import MariaDbServer

PROGRAM = [sys.executable, "-m", "canal_group.programs.command.cli"]


def run(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and check its exit status."""
    done = subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == status, done.stderr + done.stdout
    return done


@pytest.fixture
def offline(one_zookeeper: EmbeddedZooKeeper, two_servers: list[MariaDbServer], tmp_path: Path) -> Shop:
    """A shop that is served by another process: this one needs no Ray."""
    for server in two_servers:
        server.start()
    return Shop(two_servers, one_zookeeper.hosts, tmp_path)


@pytest.fixture
def instance_file(offline: Shop, one_zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Path:
    shards = "".join(
        f"  - {{name: s{index}, host: 127.0.0.1, port: {server.port}, user: canal,"
        " password_file: password}\n"
        for index, server in enumerate(offline.servers)
    )
    file = tmp_path / "shop.yaml"
    file.write_text(
        f"preset: default\ndestination: {offline.destination}\nshards:\n{shards}"
        f"coordination: {{kind: zookeeper, hosts: '{one_zookeeper.hosts}', session_timeout_s: 4}}\n"
        "gateway: {port: 0}\nray: {num_cpus: 2}\n"
    )
    return file
