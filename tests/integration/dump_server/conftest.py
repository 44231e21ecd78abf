"""Sources whose readers read from a dump server."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from support.soak import first_quick
from support.sources.dumped_source import Source, dump_server_pids

from canal_group.binlog.server.source import SourceAddress


@pytest.fixture(params=first_quick(1, ["mariadb", "mysql"]))
def source(request: pytest.FixtureRequest, source_address: Callable[..., SourceAddress]) -> Iterator[Source]:
    """A shared server with an empty schema `app`, and no dump server before and after."""
    if request.param == "mariadb":
        server = request.getfixturevalue("mariadb")
    else:
        server = request.getfixturevalue("two_mysqls")[0].start()
        server.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    found = Source(server, source_address)
    yield found
    for pid in dump_server_pids(found.reader()):
        os.kill(pid, signal.SIGKILL)
