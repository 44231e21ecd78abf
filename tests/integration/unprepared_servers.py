"""Servers with their vendors' default row metadata, and an empty schema `app`."""

from __future__ import annotations

import contextlib

import pytest
from integration.group_fixtures import all_started

from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.latest import latest_position
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer

DEFAULTS = {MySqlServer: "MINIMAL", MariaDbServer: "NO_LOG"}


def _unprepared(make):
    with all_started(make()) as (server,):
        server.execute(f"SET GLOBAL binlog_row_metadata = '{DEFAULTS[make]}'")
        yield server


@pytest.fixture(scope="session")
def unprepared_mysql():
    yield from _unprepared(MySqlServer)


@pytest.fixture(scope="session")
def unprepared_mariadb():
    yield from _unprepared(MariaDbServer)


@pytest.fixture(scope="module", params=[MySqlServer.engine, MariaDbServer.engine])
def unprepared_server(request):
    """A server that nobody has prepared; a test restores what it sets for all sessions."""
    return request.getfixturevalue(f"unprepared_{request.param}")


@pytest.fixture
def unprepared(unprepared_server):
    unprepared_server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app", "FLUSH BINARY LOGS")
    return unprepared_server


def end_of(server, source_address):
    address = source_address(server)
    with contextlib.closing(connect(address)) as connection:
        return latest_position(address, connection, server_facts(address, connection))
