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
        known = self.describe()
        if known.get("error"):
            return ServerUnavailable(f"{self.destination}: {known['error']}.", retry_after_s=0.5)
        return ServerUnavailable.not_active(
            f"The server of {self.destination} at {self.address}",
            self.destination,
            known["active_server"] or "",
            known["stopped"] or "",
        )

    def deposed(self) -> ServerUnavailable:
        """Return the error for a caller whose call met the end of this server's epoch."""
        return ServerUnavailable(
            f"The server of {self.destination} at {self.address} is no longer active.", retry_after_s=0.5
        )

    def describe(self) -> dict[str, Any]:
        """Return the state as `status` shows it; what a coordinator that is away said last is not shown."""
        if self.coordinator is None:
            return {"active": False, "active_server": None, "stopped": None, "silence_s": None}
        silence, active = self.coordinator.silence(), self.coordinator.active_address()
        if silence is not None and silence.is_long:
            before = f"; {active} was before that" if active else ""
            error = f"nobody is known to be active: {silence}{before}"
            return {
                "active": False,
                "active_server": None,
                "stopped": None,
                "error": error,
                "silence_s": silence.for_s,
            }
        mark = self.coordinator.stop_mark()
        return {
            "active": False,
            "active_server": active if active and active != self.address else None,
            "stopped": str(mark) if mark is not None else None,
            "silence_s": None if silence is None else silence.for_s,
        }
