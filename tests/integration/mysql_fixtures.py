"""Real MySQL servers, and shops on them; their tests are skipped where the programs cannot be had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.group_fixtures import all_started
from integration.shop import Shop
from support.security.certificates import Authority

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from playground.database.mysql import MySqlServer
from playground.database.server_process import DatabaseServer


@pytest.fixture(scope="session")
def two_mysqls() -> Iterator[list[DatabaseServer]]:
    with all_started(MySqlServer(), MySqlServer()) as servers:
        yield servers


@pytest.fixture
def mysql(two_mysqls: list[DatabaseServer]) -> DatabaseServer:
    """A server that the tests share, with an empty schema `app`; for tests that leave it running."""
    server = two_mysqls[0].start()
    server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    return server


def _shop(servers: Sequence[DatabaseServer], zookeeper: EmbeddedZooKeeper, folder: Path) -> Shop:
    for server in servers:
        server.start()
    return Shop(servers, zookeeper.hosts, folder)


@pytest.fixture
def mysql_shop(
    one_ray: None, one_zookeeper: EmbeddedZooKeeper, two_mysqls: list[DatabaseServer], tmp_path: Path
) -> Shop:
    """Two MySQL shards that the tests share; tables and destination are the test's own."""
    return _shop(two_mysqls, one_zookeeper, tmp_path)


@pytest.fixture
def mixed_shop(
    one_ray: None,
    one_zookeeper: EmbeddedZooKeeper,
    two_servers: list[DatabaseServer],
    two_mysqls: list[DatabaseServer],
    tmp_path: Path,
) -> Shop:
    """A MariaDB shard and a MySQL shard."""
    return _shop([two_servers[0], two_mysqls[0]], one_zookeeper, tmp_path)


@dataclass(frozen=True)
class TlsMySql:
    """A MySQL server whose certificate an authority of the test's own signed for 127.0.0.1."""

    server: DatabaseServer
    #: the authority's certificate
    ca: Path
    #: the certificate of another authority, which signed nothing here
    other_ca: Path


@pytest.fixture
def tls_mysql(tmp_path: Path) -> Iterator[TlsMySql]:
    authority = Authority(tmp_path)
    pair = authority.pair("server")
    options = [f"--ssl-ca={authority.ca}", f"--ssl-cert={pair.cert}", f"--ssl-key={pair.key}"]
    with all_started(MySqlServer(options=options)) as (server,):
        server.execute("SET sql_log_bin = 0", "ALTER USER canal@127.0.0.1 REQUIRE SSL")
        yield TlsMySql(server, authority.ca, Authority(tmp_path, "other-ca").ca)
