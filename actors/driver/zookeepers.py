"""The embedded ZooKeeper servers of one process: instances that name the same folder share one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.conf.server_settings import EmbeddedSettings
from canal_group.merge.errors import ConfigError

_log = logging.getLogger(__name__)

#: ticks in the session timeout that an instance asks for; a server allows 2 to 20
_TICKS_PER_SESSION = 5


@dataclass(slots=True)
class _Shared:
    server: EmbeddedZooKeeper
    port: int
    users: int = 1


class ZooKeepers:
    """Starts a server for the first instance that asks, and stops it after the last one."""

    def __init__(self) -> None:
        self._by_folder: dict[Path, _Shared] = {}
        self._private: list[EmbeddedZooKeeper] = []

    def take(self, settings: EmbeddedSettings) -> EmbeddedZooKeeper:
        """Return the server of the settings' folder, running; without a folder, one of the asker's own.

        Raises:
            ConfigError: it cannot be started, or runs on another port.
        """
        if settings.folder is None:
            server = _started(settings)
            self._private.append(server)
            return server
        shared = self._by_folder.get(settings.folder)
        if shared is None:
            shared = _Shared(_started(settings), settings.port)
            self._by_folder[settings.folder] = shared
        elif settings.port not in {0, shared.port}:
            raise ConfigError(
                f"The ZooKeeper server of {settings.folder} runs on another port than {settings.port}.",
                hint="Instances of one server that share coordination.folder share coordination.port, too.",
            )
        else:
            shared.users += 1
        return shared.server

    def give_back(self, server: EmbeddedZooKeeper) -> None:
        """Stop a server, if nobody else uses it."""
        for folder, shared in list(self._by_folder.items()):
            if shared.server is server:
                shared.users -= 1
                if shared.users:
                    return
                del self._by_folder[folder]
        if server in self._private:
            self._private.remove(server)
        server.stop()

    def close(self) -> None:
        """Stop whatever is left."""
        for server in (*(shared.server for shared in self._by_folder.values()), *self._private):
            server.stop()
        self._by_folder.clear()
        self._private.clear()


def _started(settings: EmbeddedSettings) -> EmbeddedZooKeeper:
    tick_ms = int(settings.session_timeout_s * 1000 / _TICKS_PER_SESSION)
    server = EmbeddedZooKeeper(settings.port, settings.folder, tick_ms=tick_ms)
    _log.info("waits for the embedded ZooKeeper to start")
    server.start()
    return server
