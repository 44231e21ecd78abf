"""Group port: how those who answer requests reach the group actor."""

from __future__ import annotations

from typing import Any, Protocol


class GroupPort(Protocol):
    """Reaches the group actor."""

    def call(self, method: str, *arguments: Any, wait_s: float = 0.0, **named: Any) -> Any:
        """Call a method of `actors.group.group.GroupActor` and return its answer.

        Raises:
            CanalGroupError: the group's error, or ServerUnavailable.
        """

    def status(self) -> dict[str, Any]:
        """Return the group's state as a JSON object; if it is unavailable, with an error."""
