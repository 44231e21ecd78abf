"""Group port: how those who answer requests reach the group actor."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from canal_group.merge.calls.call import Call

R = TypeVar("R")


class GroupPort(Protocol):
    """Reaches the group actor."""

    def ask(self, call: Call[R]) -> R:
        """Return the group's answer to a call.

        Raises:
            CanalGroupError: the group's error, or ServerUnavailable.
        """

    def status(self) -> dict[str, Any]:
        """Return the group's state as a JSON object; if it is unavailable, with an error."""
