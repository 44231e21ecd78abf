"""The listeners of canal's protocol in one process: each stays while a destination is served there."""

from __future__ import annotations

from collections.abc import Mapping

from canal_group.actors.gateway.canal.destination import CanalTable
from canal_group.actors.gateway.canal.server import CanalServer
from canal_group.actors.gateway.canal.wiring import CanalListener


class CanalListeners:
    """Opens and closes listeners; not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._servers: dict[CanalListener, CanalServer] = {}

    def serve(self, tables: Mapping[CanalListener, CanalTable]) -> None:
        """Listen for these destinations from now on, and for no others.

        Raises:
            ConfigError: one of them cannot listen.
        """
        for listener in self._servers.keys() - tables.keys():
            self._servers.pop(listener).close()
        for listener, table in tables.items():
            server = self._servers.get(listener)
            if server is None:
                self._servers[listener] = CanalServer(listener, table)
            else:
                server.serve(table)
