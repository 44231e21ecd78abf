"""The servers of a demo: a number of them, of one make or of two by turns, started side by side."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Final

from playground.database.engine import Engine
from playground.database.mariadb import MariaDbServer
from playground.database.mysql import MySqlServer
from playground.database.server_process import DatabaseServer

_MAKES: Final[dict[Engine, tuple[type[DatabaseServer], ...]]] = {
    Engine.MARIADB: (MariaDbServer,),
    Engine.MYSQL: (MySqlServer,),
    Engine.MIXED: (MariaDbServer, MySqlServer),
}
_FIRST_ID = 101


def make(engine: Engine, count: int) -> list[DatabaseServer]:
    """Return servers, not started, each with a server id of its own."""
    makes = islice(cycle(_MAKES[engine]), count)
    return [server(server_id=_FIRST_ID + index) for index, server in enumerate(makes)]


def start_all(servers: Sequence[DatabaseServer]) -> None:
    """Start several servers side by side; if one fails, end them all and raise its error."""
    try:
        # One after the other: what several wait for is made once.
        for make_of in {type(server): None for server in servers}:
            make_of.template()
        with ThreadPoolExecutor(max_workers=max(1, len(servers))) as pool:
            for future in [pool.submit(server.start) for server in servers]:
                future.result()
    except BaseException:
        for server in servers:
            server.close()
        raise
