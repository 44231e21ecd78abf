"""Connections of one listener, by owner: limit their number, and choose the one to close for a new one.

The limit is for all together. The owner with the most connections loses one, so that no owner can keep others
out.
"""

from __future__ import annotations

from collections import Counter
from typing import Generic, TypeVar

_T = TypeVar("_T")


class HeldConnections(Generic[_T]):
    """The connections of one listener that are held.

    Args:
        count_max: how many are held.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        #: connection -> its owner; the oldest comes first
        self._owners: dict[_T, str] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, connection: _T) -> bool:
        return connection in self._owners

    def add(self, connection: _T, owner: str) -> _T | None:
        """Hold one more; return the one to close for it: the oldest of the owner that has the most.

        Args:
            connection: that was accepted.
            owner: whose it is: the address of its other end, or the name of who has shown who it is.
        """
        self._owners[connection] = owner
        if len(self._owners) <= self._count_max:
            return None
        counts = Counter(self._owners.values())
        most = max(counts.values())
        oldest = next(each for each, owner in self._owners.items() if counts[owner] == most)
        del self._owners[oldest]
        return oldest

    def remove(self, connection: _T) -> None:
        """Stop holding a connection that has logged in or is closed."""
        self._owners.pop(connection, None)

    def clear(self) -> list[_T]:
        """Return the held connections and stop holding them."""
        held = list(self._owners)
        self._owners.clear()
        return held
