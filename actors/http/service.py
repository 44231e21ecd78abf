"""The HTTP service of a server: listens, on a thread of its own, until it is closed."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from canal_group.actors.admission.audit_log import AuditLog
from canal_group.actors.driver.instance import Instance
from canal_group.actors.http.app import App
from canal_group.actors.http.callers import Callers
from canal_group.actors.http.listener import CLOSE_S, Listener, listening
from canal_group.actors.http.recent_log import RecentLog
from canal_group.actors.http.served import WATCHED_EVERY_S, Served
from canal_group.merge.errors import ConfigError
from canal_group.merge.values.reach import is_loopback
from canal_group.merge.well_known import HOST, HTTP_PORT

_log = logging.getLogger(__name__)

#: names of this machine for itself
_LOOPBACK_HOSTS = ["127.0.0.1", "localhost", "[::1]"]


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Address, certificate and audit log of the HTTP service."""

    host: str = HOST
    #: 0: a free one
    port: int = HTTP_PORT
    #: certificate and key, PEM; None: connections are not encrypted
    cert: Path | None = None
    key: Path | None = None
    #: where changes are logged
    audit_log: Path = Path("audit.jsonl")

    def check(self) -> None:
        """Return if the service may listen there.

        Raises:
            ConfigError: other machines could listen in, or a file is missing.
        """
        if (self.cert is None) != (self.key is None):
            raise ConfigError("--http-cert and --http-key belong together: one of them is missing.")
        if not is_loopback(self.host) and self.cert is None:
            raise ConfigError(
                f"The HTTP service cannot listen on {self.host}: tokens would cross the network as text.",
                hint="Pass --http-cert and --http-key, or a loopback address behind a proxy that ends TLS.",
            )


class Running(Protocol):
    """Has instances; `canal_group.actors.driver.server.Server` does."""

    @property
    def instances(self) -> Mapping[Path, Instance]:
        """The instances, by file; may be asked from any thread."""


class HttpService:
    """The service of one server; a context manager, which ends it.

    Args:
        server: whose instances are shown.
        settings: where it listens.
        starting: returns whether a given file is neither started nor refused yet; None: until the server has
            an instance.

    Raises:
        ConfigError: it cannot listen there, or its certificate cannot be used.
    """

    def __init__(
        self, server: Running, settings: HttpSettings, starting: Callable[[], bool] | None = None
    ) -> None:
        settings.check()
        self._server = server
        self._known: dict[Path, tuple[Instance, Served]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        bound = _bound(settings)
        self._recent_log = RecentLog()
        callers = Callers(self._served, self._admitted, anybody=is_loopback(settings.host))
        begins = starting or (lambda: not server.instances)
        hosts = _LOOPBACK_HOSTS if is_loopback(settings.host) else ["*"]
        app = App(
            self._served,
            callers,
            AuditLog(settings.audit_log),
            self._recent_log,
            hosts=hosts,
            starting=lambda: self._closing.is_set() or begins(),
        )
        self._listener = Listener(app.asgi, bound, settings.host, cert=settings.cert, key=settings.key)
        self.url = self._listener.url
        logging.getLogger().addHandler(self._recent_log)
        self._sampler = threading.Thread(target=self._sample, name="samples", daemon=True)
        self._sampler.start()

    def stop(self) -> None:
        """Answer no new question; do not wait for those that are being answered."""
        self._closing.set()
        self._listener.stop()

    def close(self) -> None:
        """End the service: requests that are being answered may end."""
        self.stop()
        self._sampler.join(2 * CLOSE_S)
        self._listener.close()
        logging.getLogger().removeHandler(self._recent_log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sample(self) -> None:
        while not self._closing.wait(WATCHED_EVERY_S):
            for served in self._served().values():
                try:
                    served.sample()
                except Exception:  # noqa: BLE001  a sample that is missing must not end the others
                    _log.exception("no sample could be taken", extra={"destination": served.destination})

    def _admitted(self, host: str, port: int, name: str) -> None:
        self._listener.guard.let_in(f"ip:{host}:{port}", name)

    def _served(self) -> Mapping[str, Served]:
        """Return the running instances by destination. A restarted instance gets a new `Served`."""
        if self._closing.is_set():
            return {}
        with self._lock:
            running = self._server.instances
            self._known = {
                file: self._known[file]
                if file in self._known and self._known[file][0] is instance
                else (instance, Served(instance))
                for file, instance in running.items()
            }
            return {served.destination: served for _, served in self._known.values()}


def _bound(settings: HttpSettings) -> socket.socket:
    """Return a socket that is bound.

    Raises:
        ConfigError: it cannot listen there.
    """
    try:
        return listening(settings.host, settings.port)
    except OSError as error:
        raise ConfigError(
            f"The HTTP service cannot listen on {settings.host}:{settings.port}: {error.strerror}.",
            hint="Stop what listens there, or pass another --http HOST:PORT, or --http off.",
        ) from error
