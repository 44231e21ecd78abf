"""Stored skips: the events that operators have left out, kept beside the shards' schema histories."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from actors.ports import Host, SchemaHistoryStore
from merge.errors import ConfigError
from merge.skips.event_skips import EventSkips, Stop
from merge.skips.skipped_event import SkippedEvent

#: under what they are stored; no shard can have this name
STORED_AS: Final = "-skips"
#: events that a status lists, of all shards
SHOWN_MAX: Final = 20


class StoredSkips:
    """Reads and writes them under one epoch; its methods run on one loop.

    Args:
        store: keeps them.
        epoch: of the group.
        host: runs blocking work.
    """

    def __init__(self, store: SchemaHistoryStore, epoch: int, host: Host) -> None:
        self._store = store
        self._epoch = epoch
        self._host = host
        #: as they are stored; None: not read yet, or a write may have been lost
        self._skips: EventSkips | None = None
        self._lock = asyncio.Lock()

    async def of(self, shard: str) -> tuple[SkippedEvent, ...]:
        """Return those of a shard.

        Raises as `SchemaHistoryStore.load`; ConfigError also if they are damaged.
        """
        async with self._lock:
            return (await self._read()).of(shard)

    def known(self, shard: str) -> tuple[SkippedEvent, ...] | None:
        """Return those of a shard without asking the store; None: it has to be asked."""
        return None if self._skips is None else self._skips.of(shard)

    async def ask(
        self, stop: Stop, file: str, offset: int, *, whole_transaction: bool, by: str, at_us: int
    ) -> tuple[SkippedEvent, bool]:
        """Leave out an event at which a shard has stopped; see `EventSkips.asked`.

        Returns:
            The event, and whether it was left out already.

        Raises as `of`, `SchemaHistoryStore.save` and `EventSkips.asked`; asking again is harmless.
        """
        async with self._lock:
            before = await self._read()
            skips, event = before.asked(
                stop, file, offset, whole_transaction=whole_transaction, by=by, at_us=at_us
            )
            if skips is not before:
                self._skips = None
                await self._host.blocking(self._store.save, STORED_AS, skips.to_json(), self._epoch)
                self._skips = skips
            return event, skips is before

    def describe(self) -> list[dict[str, Any]]:
        """Return the last of them as JSON objects, the oldest first."""
        return [event.to_dict() for event in (self._skips or EventSkips()).events[-SHOWN_MAX:]]

    async def _read(self) -> EventSkips:
        if self._skips is None:
            text = await self._host.blocking(self._store.load, STORED_AS, self._epoch)
            try:
                self._skips = EventSkips.from_json(text)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(
                    f"What is stored as the events that are left out is damaged ({error}).",
                    hint=f"Remove {STORED_AS} beside the schema histories; shards then stop at these events "
                    "again, if they are read again.",
                ) from error
        return self._skips
