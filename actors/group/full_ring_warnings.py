"""Full ring warnings: logs which client id a full ring is kept for, once, and that the shard goes on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

_log = logging.getLogger(__name__)


class FullRingWarnings:
    """Logs what changed between two states of a group.

    Args:
        destination: the instance's name.
    """

    def __init__(self, destination: str) -> None:
        self._destination = destination
        #: by shard, the client ids that it waits for
        self._told: dict[str, list[str]] = {}

    def state(self, full_rings: Sequence[Mapping[str, Any]]) -> None:
        """Take the full rings of a state, see `canal_group.merge.delivery.full_rings`."""
        now = {full["shard"]: full["clients"] for full in full_rings}
        for full in full_rings:
            if self._told.get(full["shard"]) != full["clients"]:
                _log.warning("%s", full["why"], extra=self._of(full["shard"]))
        for shard in self._told.keys() - now.keys():
            _log.info("the ring has room again", extra=self._of(shard))
        self._told = now

    def _of(self, shard: str) -> dict[str, str]:
        return {"destination": self._destination, "shard": shard}
