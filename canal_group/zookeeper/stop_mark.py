"""The mark with which an operator stops a destination: no server serves it until the mark is removed.

It is durable and is stored next to the election, so that it also holds for servers that start later. It
records who stopped the destination.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class StopMark:
    """Who stopped a destination, when, and why."""

    #: who did it, "user@host"
    by: str
    #: when, ISO 8601 in UTC
    at: str
    #: the operator's reason; may be empty
    reason: str = ""

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"stopped by {self.by} at {self.at}{why}"

    def to_json(self) -> bytes:
        """Return the mark as JSON text."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> StopMark:
        """Return the mark that `to_json` wrote. Any text is a mark: the node's existence is what stops."""
        try:
            value = dict(json.loads(text))
        except (RecursionError, TypeError, ValueError):
            return cls("somebody", "an unknown time")
        return cls(
            str(value.get("by", "somebody")),
            str(value.get("at", "an unknown time")),
            str(value.get("reason", "")),
        )
