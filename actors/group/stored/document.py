"""A stored document: what was decided for a destination."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, Protocol, TypeVar

from canal_group.actors.ports import EpochStore, Host, Key, Kind
from canal_group.merge.errors import ConfigError

DOCUMENTS = Kind("documents", "what it says has to be decided again")
#: the group's decisions on DDL, see `canal_group.merge.order.ddl.policy`
DDL_DECISIONS = Key(DOCUMENTS, "ddl")


class _Document(Protocol):
    def to_json(self) -> str: ...


T = TypeVar("T", bound=_Document)
R = TypeVar("R")


class StoredDocument(ABC, Generic[T]):
    """Reads and writes a document under one epoch; its methods run on one loop.

    Args:
        store: keeps it.
        epoch: of the group.
        host: runs blocking work.
    """

    #: under what it is stored
    KEY: ClassVar[Key]
    #: what it holds, for messages
    WHAT: ClassVar[str]
    #: the consequence of removing the value, for messages
    REMOVED: ClassVar[str]

    def __init__(self, store: EpochStore, epoch: int, host: Host) -> None:
        self._store, self._epoch, self._host = store, epoch, host
        #: as it is stored; None: not read yet, or a write may have been lost
        self.cached: T | None = None
        self._lock = asyncio.Lock()

    @staticmethod
    @abstractmethod
    def parse(text: str | None) -> T:
        """Make the value of its stored text; None: nothing is stored."""

    async def get(self) -> T:
        """Return it. Raises as `EpochStore.get`; ConfigError also if it is damaged."""
        async with self._lock:
            return await self._read()

    async def change(self, made: Callable[[T], tuple[T, R]]) -> R:
        """Replace it by what is made of it, unless that is itself.

        Args:
            made: returns the new document, and what to return.

        Raises as `get`, `made` and `EpochStore.put`; the same change again is harmless.
        """
        async with self._lock:
            before = await self._read()
            after, answer = made(before)
            if after is not before:
                self.cached = None
                await self._host.blocking(self._store.put, self.KEY, after.to_json() + "\n", self._epoch)
                self.cached = after
            return answer

    async def _read(self) -> T:
        if self.cached is None:
            text = await self._host.blocking(self._store.get, self.KEY, self._epoch)
            try:
                self.cached = self.parse(text)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ConfigError(
                    f"What is stored as {self.WHAT} is damaged ({error}).",
                    hint=f"Remove {self._store.where(self.KEY)}; {self.REMOVED}.",
                ) from error
        return self.cached
