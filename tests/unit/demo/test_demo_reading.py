"""The demo's consumer keeps to the contract whatever the server does: it never loses its position."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from canal_group.merge.errors import AckOutOfOrder, NotSubscribed, RolledBack, ServerUnavailable, UnknownBatch
from canal_group.merge.rows.envelope import ENVELOPE
from canal_group.merge.values.position import GroupPosition
from canal_group.programs.demo.reading import Reading

AFTER = GroupPosition({})


@dataclass
class FakeBatch:
    batch_id: int
    begin: int
    end: int
    server: FakeServer
    ack_position = AFTER

    def envelope(self) -> pa.Table:
        self.server.trouble("rows")
        if self not in self.server.outstanding:
            raise RolledBack(f"{self.batch_id}")
        return pa.Table.from_pylist(
            [
                {"seq": n, "shard": "a", "file": "f", "pos": n, "row": 0, "gtid": f"0-1-{n}", "op": "INSERT"}
                for n in range(self.begin, self.end)
            ],
            schema=ENVELOPE,
        )


class FakeServer:
    """A ledger over `rows` rows that now and then fails, by a seed: before a call, after it, or for good."""

    def __init__(self, rows: int, seed: int, trouble_percent: int) -> None:
        self.rows, self.cursor, self.next_id = rows, 0, 1
        self.outstanding: list[FakeBatch] = []
        self.subscribed = True
        self._random = random.Random(seed)
        self._percent = trouble_percent

    def trouble(self, where: str) -> None:
        """Perhaps fail: an answer that is lost, a rewind, a restart that forgot us."""
        if self._random.randrange(100) >= self._percent:
            return
        match self._random.randrange(3):
            case 0:
                raise ServerUnavailable(where, retry_after_s=0.0)
            case 1:
                self.outstanding.clear()
                raise RolledBack(where)
            case _:
                self.outstanding.clear()
                self.subscribed = False
                raise NotSubscribed(where)

    def subscribe(self) -> None:
        self.subscribed = True

    def _check(self) -> None:
        if not self.subscribed:
            raise NotSubscribed("subscribe first")

    def get_without_ack(self, batch_size: int, _timeout: float) -> FakeBatch | None:
        self._check()
        self.trouble("before get")
        begin = self.outstanding[-1].end if self.outstanding else self.cursor
        if begin == self.rows:
            return None
        end = min(begin + self._random.randint(1, min(batch_size, 7)), self.rows)
        batch = FakeBatch(self.next_id, begin, end, self)
        self.next_id += 1
        self.outstanding.append(batch)
        self.trouble("after get")
        return batch

    def ack(self, batch_id: int) -> None:
        self._check()
        self.trouble("before ack")
        batch_ids = [batch.batch_id for batch in self.outstanding]
        if batch_id not in batch_ids:
            raise UnknownBatch(f"{batch_id}")
        if batch_ids[0] != batch_id:
            raise AckOutOfOrder(f"{batch_id}")
        self.cursor = self.outstanding.pop(0).end
        if self._random.randrange(100) < self._percent:
            raise ServerUnavailable("after ack", retry_after_s=0.0)

    def rollback(self, batch_id: int | None = None) -> int:
        self._check()
        before = len(self.outstanding)
        self.outstanding = [b for b in self.outstanding if batch_id is not None and b.batch_id < batch_id]
        self.trouble("after rollback")
        return before - len(self.outstanding)


def read_all(server: Any, seed: int) -> Reading:
    reading = Reading(server, seed, lambda _: None)
    for _ in range(20_000):
        if not reading.step(0.0) and server.cursor == server.rows:
            return reading
    raise AssertionError(f"stuck at {server.cursor} of {server.rows}")


@pytest.mark.parametrize("seed", range(10))
def test_without_trouble_it_acknowledges_all_and_gives_back_now_and_then(seed):
    server = FakeServer(rows=600, seed=seed, trouble_percent=0)
    reading = read_all(server, seed)
    assert reading.rollbacks
    assert len(reading.delivered.table()) > reading.delivered.distinct() == 600
    assert not server.outstanding


@pytest.mark.parametrize("seed", range(30))
def test_with_lost_answers_rewinds_and_restarts_every_row_still_comes(seed):
    server = FakeServer(rows=300, seed=seed, trouble_percent=10)
    reading = read_all(server, seed)
    assert reading.delivered.distinct() == 300


@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_without_trouble_is_the_stream_itself(seed):
    reading = read_all(FakeServer(rows=400, seed=seed, trouble_percent=0), seed)
    stream = reading.delivered.table().filter(pa.array(reading.delivered.kept()))
    assert stream.column("seq").to_pylist() == list(range(400))
    assert pc.max(reading.delivered.table().column("run")).as_py() == reading.rollbacks
