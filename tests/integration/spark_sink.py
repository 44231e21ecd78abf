"""What tests of the data source share: a sink that knows what it saw, writers, and a query that ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.shop import DEADLINE_S, Shop

from canal_group.actors.driver.instance import Instance

CLIENT = "pipeline"
ROOT = Path(__file__).parents[2]


class Died(Exception):  # noqa: N818  what happened to the driver
    """What a test's sink raises to end a query in the middle of a micro-batch."""


class Sink:
    """What every micro-batch held; the same number must be the same rows in the same order."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        #: how often a micro-batch came again
        self.again = 0
        self.at: Callable[[int], None] = lambda _: None

    def __call__(self, rows: Any, number: int) -> None:
        self.take(number, [json.dumps(row.asDict(), default=str) for row in rows.collect()])
        self.at(number)

    def take(self, number: int, lines: list[str]) -> None:
        if number in self.batches:
            self.again += 1
            assert self.batches[number] == lines, f"micro-batch {number} came again as another one"
        self.batches[number] = lines

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.batches)

    def check(self, shop: Shop) -> None:
        """Applied in order, the rows are what the shards' tables hold; nothing is twice or out of order."""
        sequences = [row["_seq"] for row in self.rows]
        assert sequences == sorted(set(sequences)), "_seq is unique and grows"
        state: dict[int, tuple[str, str]] = {}
        for row in self.rows:
            if row["_change_type"] in ("delete", "update_preimage"):
                before = row["note"], row["price"]
                assert state.pop(row["id"]) == before, "a change is of what was there"
            else:
                assert row["id"] not in state, "nothing is inserted twice"
                state[row["id"]] = row["note"], row["price"]
        assert state == tables(shop)


def rows_of(batches: dict[int, list[str]]) -> list[dict[str, Any]]:
    return [json.loads(line) for _, lines in sorted(batches.items()) for line in lines]


def changes(lines: list[str]) -> int:
    """Return how many row changes a micro-batch has; an update's two rows are one."""
    return sum(json.loads(line)["_change_type"] != "update_preimage" for line in lines)


def tables(shop: Shop) -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    for index, server in enumerate(shop.servers):
        connection = server.connect(f"shop_{index}")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT id, note, price FROM orders")
                found |= {number: (note, str(price)) for number, note, price in cursor.fetchall()}
        finally:
            connection.close()
    return found


def change(shop: Shop) -> None:
    """Write to all shards: inserts, updates, changes of keys, deletes."""
    shop.write_everywhere(12, rows=3)
    for index, server in enumerate(shop.servers):
        server.execute(
            f"UPDATE shop_{index}.orders SET note = CONCAT(note, '!') ORDER BY id DESC LIMIT 5",
            f"UPDATE shop_{index}.orders SET id = id + {1_000_000 * (index + 1)} WHERE id < 1000000 LIMIT 1",
            f"DELETE FROM shop_{index}.orders ORDER BY id LIMIT 4",
        )


def options(shop: Shop, instance: Instance, **changes: Any) -> dict[str, str]:
    chosen = {
        "gateway": instance.uri,
        "destination": shop.destination,
        "client": CLIENT,
        "table": "shop.orders",
        **changes,
    }
    return {name: str(value) for name, value in chosen.items() if value is not None}


def run(spark: Any, chosen: dict[str, str], sink: Any, checkpoint: Path, schema: str | None = None) -> None:
    """Read what is there now; raise what the query fails with."""
    reader = spark.readStream.format("canal_group").options(**chosen)
    run_frame((reader if schema is None else reader.schema(schema)).load(), sink, checkpoint)


def run_frame(frame: Any, sink: Any, checkpoint: Path) -> None:
    """Read what is there now of a stream's DataFrame; raise what the query fails with."""
    writing = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writing.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DEADLINE_S), "AvailableNow ends"
    finally:
        query.stop()


@contextmanager
def serving(shop: Shop, token: str | None = None, **settings: Any) -> Iterator[Instance]:
    """Run an instance whose gateway has seen a row of the table already."""
    with shop.serve(**settings) as instance:
        show_a_row(shop, instance, token)
        yield instance


def show_a_row(shop: Shop, instance: Instance, token: str | None = None) -> None:
    """Let the gateway see a row of the table."""
    with shop.connect(instance, client_id=CLIENT, token=token) as first:
        shop.write_everywhere(1)
        assert first.get_without_ack() is not None
