"""What operators chose is stored under the group's epoch; a write whose answer is lost is read again."""

from __future__ import annotations

import asyncio

import pytest

from canal_group.actors.group.stored.skips import StoredSkips
from canal_group.actors.group.stored.types import StoredTypes
from canal_group.actors.meta.memory import MemoryStore
from canal_group.actors.process.host import OsHost
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable, FencedError
from canal_group.merge.values.chunk import TableName

ORDERS = TableName("shop", "orders")


class Answers(MemoryStore):
    """Takes every write; the answer to the next one is lost if asked for."""

    lost = False

    def put(self, key, text, epoch, *, may_wait=False):
        assert not may_wait
        super().put(key, text, epoch)
        if self.lost:
            self.lost = False
            raise CoordinatorUnavailable("no answer")


def test_a_write_without_an_answer_is_read_back():
    async def play():
        store = Answers()
        types = StoredTypes(store, 1, OsHost())
        await types.choose(ORDERS, "price", "bigint")
        store.lost = True
        with pytest.raises(CoordinatorUnavailable):
            await types.choose(ORDERS, "note", "text")
        assert types.cached is None
        assert set((await types.get()).tables[str(ORDERS)]) == {"price", "note"}
        assert await StoredTypes(store, 2, OsHost()).get() == await types.get()
        with pytest.raises(FencedError):
            await types.choose(ORDERS, "note", "bigint")

    asyncio.run(play())


@pytest.mark.parametrize("make", [StoredTypes, StoredSkips])
@pytest.mark.parametrize("text", ["{", "[1]", '{"version": 9}', "[" * 100_000])
def test_what_is_damaged_is_a_sentence_that_names_it(make, text):
    async def play():
        store = MemoryStore()
        stored = make(store, 1, OsHost())
        store.put(make.KEY, text, 1)
        with pytest.raises(ConfigError, match="is damaged") as caught:
            await stored.get()
        assert f"Remove documents/{make.KEY.name}; " in caught.value.hint

    asyncio.run(play())
