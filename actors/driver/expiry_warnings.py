"""Expiry warnings: the log names the certificates of a server that expire, at a start and each day."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from canal_group.actors.admission.expiry import Expiry, expiries, expiry_of
from canal_group.actors.driver.instance import Instance

_log = logging.getLogger(__name__)

#: how often the log has what expires, seconds
EVERY_S = 86_400.0


class ExpiryWarnings:
    """Logs what expires of a server and its instances; `tell` is called often.

    Args:
        http_cert: the certificate of its HTTP service, if it has one.
    """

    def __init__(self, http_cert: Path | None = None) -> None:
        own = None if http_cert is None else expiry_of("--http-cert", http_cert, "server")
        self._server = _Certificates([] if own is None else [own], None)
        #: by file, the instance and its certificates
        self._instances: dict[Path, tuple[Instance, _Certificates]] = {}

    def tell(self, instances: Mapping[Path, Instance]) -> None:
        """Log the certificates that expire soon, each when its next warning is due."""
        for file in self._instances.keys() - instances.keys():
            del self._instances[file]
        for file, instance in instances.items():
            if file not in self._instances or self._instances[file][0] is not instance:
                # Files are read at the start of an instance, which shows these certificates until its end.
                certificates = _Certificates(expiries(instance.settings), instance.settings.destination)
                self._instances[file] = instance, certificates
        now_s = time.monotonic()
        for certificates in (self._server, *(each for _, each in self._instances.values())):
            certificates.tell(now_s)


class _Certificates:
    """The certificates read at one start."""

    def __init__(self, expire: list[Expiry], destination: str | None) -> None:
        self._expiries = expire
        self._about = {"destination": destination}
        #: when they were told last, of `time.monotonic`
        self._told_s = -float("inf")

    def tell(self, now_s: float) -> None:
        if now_s - self._told_s <= EVERY_S:
            return
        self._told_s = now_s
        for each in self._expiries:
            if each.is_near(time.time()):
                _log.warning("%s.", each.sentence(time.time()), extra=self._about)
