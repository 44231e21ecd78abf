"""Servers with their vendors' default row metadata, and an empty schema `app`."""

from __future__ import annotations

import contextlib

import pytest

from canal_group.binlog.server.source import connect, server_facts
from canal_group.binlog.server.starts.start import latest_position
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError
from playground.database.servers import start_all

DEFAULTS = {MySqlServer: "MINIMAL", MariaDbServer: "NO_LOG"}


@pytest.fixture(scope="module", params=[MySqlServer, MariaDbServer], ids=lambda make: make.engine)
def unprepared_server(request):
    """A server that nobody has prepared."""
    server = request.param()
    try:
        start_all([server])
        server.execute(f"SET GLOBAL binlog_row_metadata = '{DEFAULTS[request.param]}'")
        yield server
    except ServerMissingError as error:
        pytest.skip(str(error))
    finally:
        server.close()


@pytest.fixture
def unprepared(unprepared_server):
    unprepared_server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app", "FLUSH BINARY LOGS")
    return unprepared_server


def end_of(server, source_address):
    address = source_address(server)
    with contextlib.closing(connect(address)) as connection:
        return latest_position(address, connection, server_facts(address, connection))
