"""Stored types: the column types that operators chose, kept beside the shards' schema histories."""

from __future__ import annotations

import asyncio

from actors.ports import Host, SchemaHistoryStore
from merge.errors import ConfigError
from merge.rows.chosen_types import ChosenTypes
from merge.values.chunk import TableName

#: under what they are stored; no shard can have this name
STORED_AS = "-types"


class StoredTypes:
    """Reads and writes chosen types under one epoch; its methods run on one loop.

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
        self._types: ChosenTypes | None = None
        self._lock = asyncio.Lock()

    async def types(self) -> ChosenTypes:
        """Return them. Raises as `SchemaHistoryStore.load`; ConfigError also if they are damaged."""
        async with self._lock:
            return await self._read()

    async def choose(self, table: TableName, column: str, said: str | None) -> ChosenTypes:
        """Choose a column's type; None: take the choice back. Return what is stored now.

        Raises as `SchemaHistoryStore.save` and `ChosenTypes.changed`; choosing again is harmless.
        """
        async with self._lock:
            types = (await self._read()).changed(table, column, said)
            self._types = None
            await self._host.blocking(self._store.save, STORED_AS, types.to_json(), self._epoch)
            self._types = types
            return types

    async def _read(self) -> ChosenTypes:
        if self._types is None:
            text = await self._host.blocking(self._store.load, STORED_AS, self._epoch)
            try:
                self._types = ChosenTypes.from_json(text)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(
                    f"What is stored as the chosen column types is damaged ({error}).",
                    hint=f"Remove {STORED_AS} beside the schema histories, and choose the types again.",
                ) from error
        return self._types
