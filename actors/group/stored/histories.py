"""Stored histories: the shards' schema histories, written one after another."""

from __future__ import annotations

import asyncio

from canal_group.actors.ports import EpochStore, Host, Key, Kind
from canal_group.merge.values.history_text import HistoryText

HISTORIES = Kind("histories", "a new history begins with what the source shows")


class StoredHistories:
    """Reads and writes schema histories under one epoch; its methods run on one loop.

    A write goes on when the follower that waits for it is cancelled. The next read or write of that shard
    waits for it: an older history must not replace a newer one.

    Args:
        store: keeps them.
        epoch: of the group.
        host: runs blocking work.
    """

    def __init__(self, store: EpochStore, epoch: int, host: Host) -> None:
        self._store = store
        self._epoch = epoch
        self._host = host
        #: the last write of each shard
        self._writes: dict[str, asyncio.Future[None]] = {}

    async def load(self, shard: str) -> str | None:
        """Return a shard's history; None if there is none. Raises as `EpochStore.get`."""
        await self._written(shard)
        return await self._host.blocking(self._store.get, Key(HISTORIES, shard), self._epoch)

    async def save(self, shard: str, history: HistoryText) -> None:
        """Write what is new of a shard's history. Raises as `EpochStore.append`."""
        await self._written(shard)
        write = self._store.put if history.whole else self._store.append
        writing = self._host.blocking(write, Key(HISTORIES, shard), history.text, self._epoch)
        self._writes[shard] = asyncio.ensure_future(writing)
        await asyncio.shield(self._writes[shard])

    async def _written(self, shard: str) -> None:
        last = self._writes.get(shard)
        if last is not None and not last.done():
            await asyncio.wait([last])
