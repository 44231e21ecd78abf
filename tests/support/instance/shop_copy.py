"""A copy of a shop's tables that a consumer makes of the stream, and changes of all tables meanwhile."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from integration.shop import DEADLINE_S, Shop, in_background

import canal_group


class Copy:
    """Rows by shard and id, as a consumer has made them of the stream, and what it was told of snapshots."""

    def __init__(self, consumer: canal_group.Consumer) -> None:
        self.consumer = consumer
        self.rows: dict[tuple[str, int], dict[str, str | None]] = {}
        #: id -> the shard that inserted it last, or in which it was read
        self.shards: dict[int, str] = {}
        self.reads = 0
        #: (shard, file, pos, row) of all rows and statements since the last rollback
        self.identities: set[tuple[str, str, int, int]] = set()
        self.marks: list[canal_group.SnapshotMark] = []
        self.rollbacks = 0

    def read(self, timeout_s: float = 1.0) -> canal_group.Batch | None:
        """Apply and acknowledge a batch."""
        try:
            batch = self.consumer.get_without_ack(500, timeout=timeout_s)
            if batch is None:
                return None
            changes = batch.envelope().to_pylist()
            self.consumer.ack(batch.batch_id)
        except (canal_group.RolledBack, canal_group.UnknownBatch):
            self.rollbacks += 1
            self.identities.clear()
            return self.read(timeout_s)
        except canal_group.RetryableError:
            return None
        for change in changes:
            self._apply(change)
        return batch

    def _apply(self, change: dict[str, Any]) -> None:
        identity = change["shard"], change["file"], change["pos"], change["row"]
        assert identity not in self.identities, "no two rows have one identity"
        self.identities.add(identity)
        assert change["commit_us"] > 0, "pages before the first transaction have a time, too"
        before, after = (
            dict(change[image]) if change[image] is not None else None for image in ("before", "after")
        )
        if change["op"] == "QUERY":
            mark = canal_group.SnapshotMark.of_sql(change["sql"])
            self.marks += [] if mark is None else [mark]
        elif change["table"] == "orders":
            self.reads += change["op"] == "READ"
            if before is not None:
                self.rows.pop((change["shard"], int(before["id"])), None)
            if after is not None:
                self.rows[change["shard"], int(after["id"])] = after
                self.shards[int(after["id"])] = change["shard"]

    def until(self, wanted: Callable[[], bool]) -> None:
        """Read until something holds."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not wanted():
            self.read()
            assert time.monotonic() < deadline_s, self.consumer.status()

    def check(self, shop: Shop) -> None:
        """Read what there is; it equals what the servers show."""
        self.until(lambda: self.read(2.0) is None)
        shown = {}
        for index, server in enumerate(shop.servers):
            for number, note, price in server.execute(f"SELECT id, note, price FROM shop_{index}.orders"):
                shown[f"s{index}", int(number)] = {"id": str(number), "note": note, "price": str(price)}
        assert self.rows.keys() == shown.keys()
        assert self.rows == shown

    def complete(self, shop: Shop) -> None:
        """Read until all shards have said that their snapshot is over."""
        self.until(lambda: len({mark.shard for mark in self.marks}) == len(shop.servers))


class _Changes:
    """Transactions that change, add, delete and move rows of one shard, one after the other."""

    def __init__(self, shop: Shop, index: int, seed: int) -> None:
        self._connect = lambda: shop.servers[index].connect(f"shop_{index}")
        self._rows, self._rng = shop.rows, random.Random(f"{seed}-{index}")
        self._number = 1_000_000 * (index + 1) + 50_000 * seed

    def commit(self, goes_on: Callable[[], bool]) -> None:
        """Commit transactions as long as they are to go on."""
        rng, rows = self._rng, self._rows
        with contextlib.closing(self._connect()) as connection, connection.cursor() as cursor:
            while goes_on():
                changed, deleted, moved = (rng.randrange(rows) for _ in range(3))
                cursor.execute("BEGIN")
                cursor.execute(
                    "UPDATE orders SET note = CONCAT('changed ', %s) WHERE id = %s", (self._number, changed)
                )
                cursor.execute("DELETE FROM orders WHERE id = %s", (deleted,))
                cursor.execute("INSERT INTO orders VALUES (%s, 'new', 1.5)", (self._number,))
                cursor.execute("UPDATE orders SET id = id + 500000 WHERE id = %s", (moved,))
                cursor.execute("COMMIT")
                self._number += 1


def change(shop: Shop, seed: int, transactions: int) -> None:
    """Change, add, delete and move rows on all shards."""
    for index in range(len(shop.servers)):
        left = iter(range(transactions))
        _Changes(shop, index, seed).commit(lambda left=left: next(left, None) is not None)


@contextlib.contextmanager
def changing(shop: Shop, seed: int) -> Iterator[None]:
    """Do it until the body ends."""
    stop = threading.Event()
    changes = [_Changes(shop, index, seed) for index in range(len(shop.servers))]
    threads = [in_background(lambda each=each: each.commit(lambda: not stop.is_set())) for each in changes]
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
