"""The answers of a server while it is not the active one of a destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from canal_group.actors.ports import Coordinator
from canal_group.merge.errors import ServerUnavailable


@dataclass(frozen=True, slots=True)
class Standby:
    """A server that does not serve: the reason, and the active server."""

    destination: str
    #: "host:port" of this server
    address: str
    #: knows the other servers; None before it is made
    coordinator: Coordinator | None = None

    def refusal(self) -> ServerUnavailable:
        """Return the error for callers: it asks to retry, and names the active server."""
        mark = self.coordinator.stop_mark() if self.coordinator is not None else None
        active = self.coordinator.active_address() if self.coordinator is not None else ""
        return ServerUnavailable.not_active(
            f"The server of {self.destination} at {self.address}",
            self.destination,
            active if active != self.address else "",
            "" if mark is None else str(mark),
        )

    def deposed(self) -> ServerUnavailable:
        """Return the error for a caller whose call met the end of this server's epoch."""
        return ServerUnavailable(
            f"The server of {self.destination} at {self.address} is no longer active.", retry_after_s=0.5
        )

    def describe(self) -> dict[str, Any]:
        """Return the state as `status` shows it."""
        if self.coordinator is None:
            return {"active": False, "active_server": None, "stopped": None}
        mark = self.coordinator.stop_mark()
        return {
            "active": False,
            "active_server": self.coordinator.active_address() or None,
            "stopped": str(mark) if mark is not None else None,
        }
