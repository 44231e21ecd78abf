"""Last touches: the end of the last known statement that touches a table."""

from __future__ import annotations

from collections.abc import Callable

from canal_group.binlog.history.facts import Change, LogPosition
from canal_group.binlog.schema.definition import SourceName


class LastTouches:
    """Knows the last statement on each table; statements may be added in any order.

    Args:
        key: returns the name by which a name is compared.
    """

    def __init__(self, key: Callable[[SourceName], SourceName]) -> None:
        self._key = key
        self._names: dict[SourceName, LogPosition] = {}
        self._schemas: dict[str, LogPosition] = {}
        self._all: LogPosition | None = None

    def add(self, change: Change) -> None:
        """Add a statement whose touches are known."""
        touches = change.touches
        assert touches is not None, "its touches are known"
        for name in touches.names - touches.conditional:
            key = self._key(name)
            self._names[key] = _later(self._names.get(key), change.end)
        for schema in touches.gone:
            folded = self._key(SourceName(schema, "")).schema
            self._schemas[folded] = _later(self._schemas.get(folded), change.end)
        if touches.all:
            self._all = _later(self._all, change.end)

    def of(self, name: SourceName) -> LogPosition | None:
        """Return the end of the last statement that touches a table; None if none does."""
        key = self._key(name)
        last = self._names.get(key)
        for other in (self._schemas.get(key.schema), self._all):
            last = last if other is None else _later(last, other)
        return last


def _later(one: LogPosition | None, other: LogPosition) -> LogPosition:
    return one if one is not None and one.reaches(other) else other
