"""A stored document: what operators chose for a destination, kept beside the shards' schema histories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from actors.ports import Host, SchemaHistoryStore
from merge.errors import ConfigError


class _Document(Protocol):
    def to_json(self) -> str: ...


T = TypeVar("T", bound=_Document)
R = TypeVar("R")


class StoredDocument(Generic[T]):
    """Reads and writes a document under one epoch; its methods run on one loop.

    Args:
        store: keeps it.
        epoch: of the group.
        host: runs blocking work.
        name: under what it is stored; no shard can have it.
        parse: makes it of its text; None: nothing is stored.
        what: what it holds, for messages.
        hint: what to do if it is damaged.
    """

    def __init__(
        self,
        store: SchemaHistoryStore,
        epoch: int,
        host: Host,
        *,
        name: str,
        parse: Callable[[str | None], T],
        what: str,
        hint: str,
    ) -> None:
        self._store, self._epoch, self._host = store, epoch, host
        self._name, self._parse, self._what, self._hint = name, parse, what, hint
        #: as it is stored; None: not read yet, or a write may have been lost
        self.known: T | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> T:
        """Return it. Raises as `SchemaHistoryStore.load`; ConfigError also if it is damaged."""
        async with self._lock:
            return await self._read()

    async def change(self, made: Callable[[T], tuple[T, R]]) -> R:
        """Replace it by what is made of it, unless that is itself.

        Args:
            made: returns the new document, and what to return.

        Raises as `get`, `made` and `SchemaHistoryStore.save`; the same change again is harmless.
        """
        async with self._lock:
            before = await self._read()
            after, answer = made(before)
            if after is not before:
                self.known = None
                await self._host.blocking(self._store.save, self._name, after.to_json(), self._epoch)
                self.known = after
            return answer

    async def _read(self) -> T:
        if self.known is None:
            text = await self._host.blocking(self._store.load, self._name, self._epoch)
            try:
                self.known = self._parse(text)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ConfigError(
                    f"What is stored as {self._what} is damaged ({error}).", hint=self._hint
                ) from error
        return self.known
