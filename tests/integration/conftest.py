"""Real MariaDB servers for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from integration.canal_java import canal_java  # noqa: F401  fixture
from integration.group_fixtures import one_ray, one_zookeeper, readable, shop, two_servers, zookeeper  # noqa: F401  fixtures
from integration.mysql_fixtures import mixed_shop, mysql, mysql_shop, tls_mysql, two_mysqls  # noqa: F401  fixtures
from integration.shared_servers import (  # noqa: F401  fixtures
    files_of_last_instance,
    last_instance,
    no_idle_instance,
    pair,
    pair_shop,
    served,
    shared_instance,
    shared_instances,
    shared_options,
    shared_servers,
    unshared,
    whole_shop,
)
from integration.spark_fixtures import spark  # noqa: F401  fixture
from integration.unprepared_servers import (  # noqa: F401  fixtures
    unprepared,
    unprepared_mariadb,
    unprepared_mysql,
    unprepared_server,
)
from support.defaults import address_of
from support.instance.program import instance_file, offline  # noqa: F401  fixtures
from support.sources.installed import started

from canal_group.binlog.server.source import SourceAddress
from playground.database.mariadb import MariaDbServer
from playground.database.server_process import DatabaseServer


@pytest.fixture(scope="session")
def shared_mariadb() -> Iterator[MariaDbServer]:
    server = started()
    yield server
    server.close()


@pytest.fixture
def mariadb(shared_mariadb: MariaDbServer) -> MariaDbServer:
    """A server that the tests share, with an empty schema `app`; for tests that leave it running."""
    shared_mariadb.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    return shared_mariadb


@pytest.fixture
def own_mariadb() -> Iterator[MariaDbServer]:
    """A server of the test's own, with an empty schema `app`; for tests that end or change it."""
    server = started()
    server.execute("CREATE DATABASE app")
    yield server
    server.close()


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    """Each of the two that the tests share, with an empty schema `app`."""
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def source_address() -> Callable[..., SourceAddress]:
    """Return addresses of servers as a reader wants them."""

    def address(server: MariaDbServer, **changes: object) -> SourceAddress:
        where = server.address()
        fields: dict[str, object] = {
            "name": "s1",
            "host": where.host,
            "port": where.port,
            "user": where.user,
            "password": where.password,
            "server_id": 9001,
            "destination": "test",
        }
        return address_of(**{**fields, **changes})  # type: ignore[arg-type]

    return address
