"""Slow readers on their own: one that stopped reads a backlog larger than the rings while another goes on."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from integration.shop import Reading, Shop
from integration.zookeeper_fixtures import eventually
from support.sources.purged_logs import rotate_and_purge

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.manifest import State
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status


def of_shards(reading: Reading) -> list[tuple[Any, ...]]:
    """Return the rows of each shard in a consumer's order; equal times of two shards have no order."""
    rows = pa.concat_tables([table for run in reading.runs for table in run])
    columns = (rows[name].to_pylist() for name in ("shard", "gtid", "key_us", "row", "after"))
    return sorted((tuple(map(str, row)) for row in zip(*columns, strict=True)), key=lambda row: row[0])


@pytest.mark.parametrize(
    ("slow", "transactions", "rows"),
    [(1, 150, 4), pytest.param(3, 1_000, 20, marks=[pytest.mark.soak, pytest.mark.timeout(600)])],
)
def test_stopped_consumers_read_alone_and_join(
    shop: Shop, tmp_path: Path, slow: int, transactions: int, rows: int
) -> None:
    """Rings of 64 transactions; `slow` clients subscribe and stop.

    1. another reads far more than the rings hold, without waiting for them; 2. the sources purge it; it is
    too old for the archives, which keep it for those; 3. they come back, and read the same in the same order;
    4. they join it: what is written then reaches all of them from one log, and the archives let go.
    """
    names = [f"slow-{number}" for number in range(slow)]
    options: dict[str, Any] = {
        "store": {"size": 64, "mode": "items"},
        "archive": {"folder": str(tmp_path / "archive"), "hours": 1e-9},
        "consumer": {"lease_s": 300, "replays_max": slow},
    }
    with contextlib.ExitStack() as open_, shop.serve(**options) as instance:
        gateway = open_.enter_context(contextlib.closing(GatewayClient(instance.uri, shop.destination)))

        def replayed() -> list[str]:
            clients = gateway.ask(Status())["group"]["clients"]
            return [client["client_id"] for client in clients if client["replay"] is not None]

        for name in names:
            with shop.connect(instance, client_id=name, keep=True) as consumer:
                consumer.subscribe()
        app = Reading(open_.enter_context(shop.connect(instance, client_id="app")))
        app.consumer.subscribe()
        shop.write_everywhere(transactions, rows)
        app.until(shop.rows, batch_size=1_000)
        archive = Archive(Disk(), tmp_path / "archive")

        def archived() -> list[list[State]]:
            return [[each.state for each in history.manifest.files] for history in archive.histories()]

        for server in shop.servers:
            rotate_and_purge(server)
        eventually(lambda: all(len(states) > 3 for states in archived()), "the archives follow")
        generation = gateway.ask(Status())["group"]["generation"]
        assert sorted(replayed()) == names
        readings = [Reading(open_.enter_context(shop.connect(instance, client_id=name))) for name in names]
        for reading in readings:
            reading.consumer.subscribe()
        for reading in readings:
            reading.until(shop.rows, batch_size=1_000)
        eventually(lambda: not replayed(), "they have joined")
        shop.write_everywhere(5)
        for reading in (app, *readings):
            reading.until(shop.rows)
            reading.check(shop)
            assert not reading.rollbacks
            assert of_shards(reading) == of_shards(app)
        assert gateway.ask(Status())["group"]["generation"] == generation, "nobody was rolled back for them"
        eventually(lambda: all(len(states) == 1 for states in archived()), "the archives let go")
