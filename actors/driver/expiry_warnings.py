"""Expiry warnings: the log names the certificates of instances that expire, at a start and each day."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from canal_group.actors.admission.expiry import Expiry, expiries
from canal_group.actors.driver.instance import Instance

_log = logging.getLogger(__name__)

#: how often the log has what expires, seconds
EVERY_S = 86_400.0


class ExpiryWarnings:
    """Logs what expires of the instances of a server; `tell` is called often."""

    def __init__(self) -> None:
        self._starts: dict[Path, _Start] = {}

    def tell(self, instances: Mapping[Path, Instance]) -> None:
        """Log what expires of the instances for which it is due."""
        for file in self._starts.keys() - instances.keys():
            del self._starts[file]
        for file, instance in instances.items():
            start = self._starts.get(file)
            if start is None or start.instance is not instance:
                start = self._starts[file] = _Start(instance)
            start.tell(time.monotonic())


class _Start:
    """One start of an instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        # The files are read when the instance starts, so these are the certificates that it shows.
        self._expiries: list[Expiry] = expiries(instance.settings)
        #: when they were told last, of `time.monotonic`
        self._told_s = -float("inf")

    def tell(self, now_s: float) -> None:
        if now_s - self._told_s <= EVERY_S:
            return
        self._told_s = now_s
        for each in self._expiries:
            if each.is_near(time.time()):
                about = {"destination": self.instance.settings.destination}
                _log.warning("%s.", each.sentence(time.time()), extra=about)
