"""Sources whose readers read from a dump server."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.soak import first_quick
from support.sources.archived_source import Archived
from support.sources.dumped_source import Source, dump_server_pids

from canal_group.binlog.server.source import SourceAddress
from playground.database.mysql import MySqlServer
from playground.database.server_process import ServerMissingError


@pytest.fixture(params=first_quick(1, ["mariadb", "mysql"]))
def source(request: pytest.FixtureRequest, source_address: Callable[..., SourceAddress]) -> Iterator[Source]:
    """A shared server with an empty schema `app`, and no dump server before and after."""
    found = Source(request.getfixturevalue(request.param), source_address)
    yield found
    for pid in dump_server_pids(found.reader()):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(params=["mariadb", "mysql"])
def archived(
    request: pytest.FixtureRequest, source_address: Callable[..., SourceAddress], tmp_path: Path
) -> Iterator[Archived]:
    if request.param == "mariadb":
        server = request.getfixturevalue("own_mariadb")
    else:
        try:
            server = MySqlServer().start()
        except ServerMissingError as missing:
            pytest.skip(str(missing))
        server.execute("CREATE DATABASE app")
    found = Archived(server, source_address, tmp_path / "archive")
    yield found
    with contextlib.suppress(Exception):
        for pid in dump_server_pids(found.reader()):
            os.kill(pid, signal.SIGKILL)
    if request.param == "mysql":
        server.close()
