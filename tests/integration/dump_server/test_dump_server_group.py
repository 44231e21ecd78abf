"""Two destinations with filters of their own on the same sources share dumps, in Ray's processes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually
from support.sources.dumped_source import dump_server_pids

import canal_group
from canal_group.actors.driver.launch import launch
from canal_group.actors.shard.wiring import source_address
from canal_group.conf.settings import InstanceSettings
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status

_DUMPS = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"


def settings_of(shop: Shop, name: str, column: str) -> InstanceSettings:
    """Return settings of a destination that keeps one column besides the key."""
    return shop.settings(
        destination=f"{shop.destination}-{name}",
        reader={"share_dump": True},
        filter={
            "white": r"shop_\d+\.orders",
            "routes": [{"match": r"shop_\d+\.(\w+)", "to": r"shop.\1"}],
            "tables": [{"match": r"shop_\d+\.orders", "white_columns": ["id", column]}],
        },
    )


@pytest.mark.soak
def test_two_destinations(shop: Shop) -> None:
    """1. Each source has one dump. 2. Each destination gets all rows once. 3. The dump servers are killed."""
    chosen = {name: settings_of(shop, name, name) for name in ("note", "price")}
    with contextlib.ExitStack() as served:
        consumers: dict[str, Any] = {}
        for name, settings in chosen.items():
            instance = served.enter_context(launch(settings))
            options = {"destination": settings.destination, "client_id": "reader", "wait_s": DEADLINE_S}
            consumers[name] = served.enter_context(canal_group.connect(instance.uri, **options))
            consumers[name].subscribe()
            gateway = GatewayClient(instance.uri, settings.destination)
            served.callback(gateway.close)

            def all_share_dumps(gateway: GatewayClient = gateway) -> bool:
                return all(shard.get("shares_dump") for shard in gateway.ask(Status())["shards"])

            eventually(all_share_dumps, "all shards read from a dump server")
        eventually(lambda: all(s.execute(_DUMPS) == ((1,),) for s in shop.servers), "one dump a source")
        got: dict[str, list[int]] = {name: [] for name in consumers}
        for step in range(2):
            shop.write_everywhere(20, rows=3)
            for name, consumer in consumers.items():
                while len(got[name]) < shop.rows:
                    batch = consumer.get_without_ack(1_000, timeout=DEADLINE_S)
                    assert batch is not None, "the rows come"
                    rows = batch.table("shop.orders")
                    got[name] += rows.column("id").to_pylist()
                    consumer.ack(batch.batch_id)
                    assert {"note", "price"} & set(rows.column_names) == {name}
            if not step:
                for shard in settings.shards:
                    for pid in dump_server_pids(source_address(settings, shard, shard)):
                        os.kill(pid, signal.SIGKILL)
        for ids in got.values():
            assert sorted(ids) == list(range(shop.rows))


@pytest.mark.soak
def test_an_instance_archives_its_sources(shop: Shop, tmp_path: Path) -> None:
    """1. A consumer acknowledges nothing. 2. The status of each shard has what is archived, up to its end."""
    settings = shop.settings(archive={"folder": tmp_path / "archive", "sync_s": "always"})
    with launch(settings) as instance, contextlib.ExitStack() as served:
        options = {"destination": settings.destination, "client_id": "reader", "wait_s": DEADLINE_S}
        consumer = served.enter_context(canal_group.connect(instance.uri, **options))
        consumer.subscribe()
        gateway = GatewayClient(instance.uri, settings.destination)
        served.callback(gateway.close)
        shop.write_everywhere(20, rows=3)

        def archived(shard: Mapping[str, Any]) -> bool:
            state = shard.get("archive")
            return bool(state) and (state["error"], state["behind_s"]) == (None, 0.0)

        def ends() -> list[tuple[str, int]]:
            return [
                (state["file"], state["offset"])
                for shard in gateway.ask(Status())["shards"]
                if archived(shard) and (state := shard["archive"])
            ]

        def sources() -> list[tuple[str, int]]:
            return [(row[0], int(row[1])) for s in shop.servers for row in s.execute("SHOW BINARY LOGS")[-1:]]

        eventually(lambda: ends() == sources(), "each source is archived up to its end")
        assert all(shard["archive"]["bytes"] > 0 for shard in gateway.ask(Status())["shards"])
    for shard in settings.shards:
        for pid in dump_server_pids(source_address(settings, shard, shard)):
            os.kill(pid, signal.SIGKILL)
