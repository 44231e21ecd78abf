"""Stored skips: the events that operators have left out."""

from __future__ import annotations

from typing import Any, Final

from canal_group.actors.group.stored.document import DOCUMENTS, StoredDocument
from canal_group.actors.ports import Key
from canal_group.merge.event_skips import EventSkips, Stop
from canal_group.merge.values.skips.skipped_event import SkippedEvent

#: events that a status lists, of all shards
SHOWN_MAX: Final = 20


class StoredSkips(StoredDocument[EventSkips]):
    """Reads and writes left-out events; see `StoredDocument`."""

    KEY = Key(DOCUMENTS, "skips")
    WHAT = "the events that are left out"
    REMOVED = "shards then stop at these events again, if they are read again"
    parse = staticmethod(EventSkips.from_json)

    async def of(self, shard: str) -> tuple[SkippedEvent, ...]:
        """Return those of a shard; raises as `StoredDocument.get`."""
        return (await self.get()).of(shard)

    def cached_of(self, shard: str) -> tuple[SkippedEvent, ...] | None:
        """Return those of a shard without asking the store; None: it has to be asked."""
        return None if self.cached is None else self.cached.of(shard)

    async def ask(
        self, stop: Stop, file: str, offset: int, *, whole_transaction: bool, by: str, at_us: int
    ) -> tuple[SkippedEvent, bool]:
        """Leave out an event at which a shard has stopped; see `EventSkips.asked`.

        Returns:
            The event, and whether it was left out already.

        Raises as `StoredDocument.change` and `EventSkips.asked`.
        """

        def asked(before: EventSkips) -> tuple[EventSkips, tuple[SkippedEvent, bool]]:
            skips, event = before.asked(
                stop, file, offset, whole_transaction=whole_transaction, by=by, at_us=at_us
            )
            return skips, (event, skips is before)

        return await self.change(asked)

    def describe(self) -> list[dict[str, Any]]:
        """Return the last of them as JSON objects, the oldest first."""
        return [event.to_dict() for event in (self.cached or EventSkips()).events[-SHOWN_MAX:]]
