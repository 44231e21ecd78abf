"""A snapshot of large tables under load: a replica that is made of the stream equals SELECT on every shard.

`CANAL_GROUP_SNAPSHOT_ROWS` is the rows of each shard: `1000000` takes some minutes.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from integration.group_fixtures import all_started
from integration.shop import Shop, in_background
from support.soak import patient

import canal_group
from playground.database.mariadb import MariaDbServer

ROWS = int(os.environ.get("CANAL_GROUP_SNAPSHOT_ROWS", "40000"))
SHARDS = 4
#: transactions of each shard's writer, of four changes each, between two pauses: some 500 of them a second
TOGETHER, PAUSE_S = 10, 0.01
#: ids of one sum
BUCKET = 1_000
#: ids of rows that are added, and what a changed key is moved by
ADDED, MOVED = 1 << 40, 1 << 30
NAME = "shop.orders"
#: what the statement in the middle adds to every row
ADDED_VALUE = 7
DEADLINE_S = patient(150.0)
_VALUES = pa.schema([("note", pa.utf8()), ("price", pa.utf8()), ("c", pa.int64())])

_log = logging.getLogger(__name__)

_CHANGES = f"""
CREATE PROCEDURE changes (first BIGINT, count INT)
BEGIN
    DECLARE changed, gone, moved INT;
    WHILE count > 0 DO
        SET changed = FLOOR(RAND() * {ROWS}), gone = FLOOR(RAND() * {ROWS}), moved = FLOOR(RAND() * {ROWS});
        START TRANSACTION;
        UPDATE orders SET note = CONCAT('changed ', count) WHERE id = changed;
        DELETE FROM orders WHERE id = gone;
        INSERT INTO orders (id, note, price) VALUES (first + count, 'new', 1.5);
        UPDATE IGNORE orders SET id = id + {MOVED} WHERE id = moved;
        COMMIT;
        SET count = count - 1;
        IF count MOD {TOGETHER} = 0 THEN DO SLEEP({PAUSE_S}); END IF;
    END WHILE;
END
"""
#: no locks between rows: two writers never wait for each other in a circle
_NO_GAPS = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


class Replica:
    """What the stream made of rows, in columns: the last change of each, and whether it is there after it."""

    def __init__(self) -> None:
        #: shard, id and whether it is there, in the stream's order; and the row
        self._ids: list[Any] = []
        self._rows: list[Any] = []
        self.reads = self.changes = 0

    def apply(self, batch: canal_group.Batch) -> None:
        """Note a batch's rows."""
        changes = batch.table(NAME, before=True)
        if not changes.num_rows:
            return
        before, count = changes["_before"].combine_chunks(), changes.num_rows
        numbers = pc.utf8_slice_codeunits(changes["_shard"].cast(pa.utf8()), 1).cast(pa.int64())
        shards, selected = numbers.to_numpy(), pc.equal(changes["_op"], "READ").to_numpy()
        self.reads += int(selected.sum())
        self.changes += int((~selected).sum())
        # First the old key is gone, and then the new one is there.
        old = before.is_valid().to_numpy(zero_copy_only=False)
        new = pc.not_equal(changes["_op"], "DELETE").to_numpy()
        first = sum(map(len, self._rows))
        for there, rows, ids in (
            (0, old, before.field("id").to_numpy(zero_copy_only=False)),
            (1, new, changes["id"].to_numpy()),
        ):
            at = np.flatnonzero(rows)
            order = 2 * (first + at) + there
            self._ids.append(np.stack([shards[at], ids[at].astype(np.int64), order]))
        value = changes["c"] if "c" in changes.column_names else pa.nulls(count, pa.int64())
        rows = pa.table({"note": changes["note"], "price": changes["price"], "c": value})
        self._rows.append(rows.cast(_VALUES))

    def sums(self) -> Counter[tuple[int, int, str]]:
        """Return rows, and the sum of their checksums, by shard and bucket of ids."""
        shards, ids, order = np.concatenate(self._ids, axis=1)
        sorting = np.lexsort((order, ids, shards))
        shards, ids, order = shards[sorting], ids[sorting], order[sorting]
        last = np.append((np.diff(ids) != 0) | (np.diff(shards) != 0), True) & (order % 2 == 1)
        rows = pa.concat_tables(self._rows).combine_chunks().take(pa.array(order[last] // 2))
        found: Counter[tuple[int, int, str]] = Counter()
        values = (each.to_pylist() for each in rows.columns)
        for shard, number, note, price, value in zip(
            shards[last].tolist(), ids[last].tolist(), *values, strict=True
        ):
            text = f"{number}|{note}|{price}|{ADDED_VALUE if value is None else value}"
            found[shard, number // BUCKET, "rows"] += 1
            found[shard, number // BUCKET, "sum"] += zlib.crc32(text.encode())
        return found


def shown(shop: Shop) -> Counter[tuple[int, int, str]]:
    """Return the same of what SELECT shows."""
    found: Counter[tuple[int, int, str]] = Counter()
    for shard, server in enumerate(shop.servers):
        for bucket, rows, total in server.execute(
            f"SELECT id DIV {BUCKET}, COUNT(*), SUM(CRC32(CONCAT_WS('|', id, note, price, c)))"
            f" FROM shop_{shard}.orders GROUP BY 1"
        ):
            found[shard, int(bucket), "rows"] = int(rows)
            found[shard, int(bucket), "sum"] = int(total)
    return found


@pytest.fixture
def large(one_ray: None, one_zookeeper: Any, tmp_path: Path) -> Iterator[Shop]:
    """Four shards with full tables, whose rows may be selected."""
    with all_started(*(MariaDbServer(server_id=801 + index) for index in range(SHARDS))) as servers:
        shop = Shop(servers, one_zookeeper.hosts, tmp_path)
        for index, server in enumerate(servers):
            connection = server.connect(f"shop_{index}")
            with contextlib.closing(connection), connection.cursor() as cursor:
                cursor.execute(
                    f"INSERT INTO orders SELECT seq - 1, CONCAT('note ', seq), seq / 4 FROM seq_1_to_{ROWS}"
                )
                cursor.execute("COMMIT")
                cursor.execute(_CHANGES)
            server.execute(f"GRANT SELECT ON shop_{index}.* TO {server.address().user}@127.0.0.1")
        yield shop


@contextlib.contextmanager
def changing(shop: Shop) -> Iterator[None]:
    """Change rows on all shards, and move some between them, until the body ends."""
    stop = threading.Event()

    def change(index: int) -> None:
        connection = shop.servers[index].connect(f"shop_{index}")
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(_NO_GAPS)
            for call in itertools.count():
                if stop.is_set():
                    return
                cursor.execute("CALL changes(%s, 50)", (ADDED * (index + 1) + 50 * call,))

    def move() -> None:
        chance = random.Random(1)
        with contextlib.ExitStack() as open_:
            cursors = []
            for index, server in enumerate(shop.servers):
                connection = open_.enter_context(contextlib.closing(server.connect(f"shop_{index}")))
                cursors.append(open_.enter_context(connection.cursor()))
                cursors[-1].execute(_NO_GAPS)
            while not stop.wait(0.01):
                number, index = chance.randrange(ROWS), chance.randrange(SHARDS)
                source, target = cursors[index], cursors[(index + 1) % SHARDS]
                source.execute("SELECT note, price FROM orders WHERE id = %s", (number,))
                row = source.fetchone()
                if row is not None:
                    source.execute("DELETE FROM orders WHERE id = %s", (number,))
                    target.execute(
                        "REPLACE INTO orders (id, note, price) VALUES (%s, %s, %s)", (number, *row)
                    )

    threads = [in_background(lambda index=index: change(index)) for index in range(SHARDS)]
    threads.append(in_background(move))
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_replica_of_large_tables_equals_what_select_shows(large: Shop, tmp_path: Path) -> None:
    """With rows that are added, changed and deleted, get other keys, and move between shards, and a statement
    on each table in the middle.
    """
    replica, over, altered = Replica(), False, False
    with (
        large.serve(archive={"folder": str(tmp_path / "archive")}) as instance,
        large.connect(instance, client_id="copy", snapshot="initial") as consumer,
    ):

        def read(timeout_s: float) -> canal_group.Batch | None:
            batch = consumer.get_without_ack(131_072, timeout=timeout_s)
            if batch is not None:
                replica.apply(batch)
                consumer.ack(batch.batch_id)
            return batch

        began_s = time.monotonic()
        with changing(large):
            while not over:
                batch = read(1.0)
                over = batch is not None and not batch.ack_position.snapshots
                if not altered and replica.reads > SHARDS * ROWS // 3:
                    altered = True
                    for index, server in enumerate(large.servers):
                        added = f"ADD COLUMN c BIGINT NOT NULL DEFAULT {ADDED_VALUE}"
                        server.execute(f"ALTER TABLE shop_{index}.orders {added}")
                assert time.monotonic() < began_s + DEADLINE_S + ROWS / 1_000, consumer.status()
            took_s = time.monotonic() - began_s
        while read(3.0) is not None:
            pass
    _log.info("%d rows of tables, %d changes in %.0f s", replica.reads, replica.changes, took_s)
    assert replica.sums() == shown(large)
