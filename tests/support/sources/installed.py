"""Servers of the tests; a test is skipped where they are not installed."""

from __future__ import annotations

import pytest

from playground.database.engine import Engine
from playground.database.mariadb import MariaDbServer
from playground.database.server_process import ServerMissingError
from playground.database.servers import make


def started(*options: str) -> MariaDbServer:
    """Return a running server, or skip the test where none is installed."""
    try:
        return MariaDbServer(options=options).start()
    except ServerMissingError as error:
        pytest.skip(str(error))


def require(engine: Engine) -> None:
    """Skip a test whose servers cannot be had."""
    try:
        for server in make(engine, 2):
            server.template()
    except ServerMissingError as error:
        pytest.skip(str(error))
