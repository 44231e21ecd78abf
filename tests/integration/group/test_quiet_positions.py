"""Positions of clients whose tables are quiet, and where a new client id begins, on whole instances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from integration.output.published import in_lines, publishing
from integration.shared_servers import SharedShop
from integration.shop import CLIENT, DEADLINE_S, Reading, Shop
from integration.zookeeper_fixtures import eventually
from support.sources.purged_logs import purge_all_but_the_last

from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import Status

QUIET = {"consumer": {"quiet_s": 0.3}}


def cursor_of(gateway_client: GatewayClient, client_id: str) -> dict[str, Any]:
    clients = gateway_client.ask(Status())["group"]["clients"]
    (found,) = [json.loads(each["cursor"]) for each in clients if each["client_id"] == client_id]
    return dict(found)


def clients_of(gateway_client: GatewayClient) -> set[str]:
    """Return the client ids whose first position is stored."""
    clients = gateway_client.ask(Status())["group"]["clients"]
    return {each["client_id"] for each in clients if each["cursor"] is not None}


def is_at_the_ends(cursor: dict[str, Any], shop: Shop) -> bool:
    return all(
        (cursor["shards"][f"s{index}"]["file"], cursor["shards"][f"s{index}"]["offset"])
        == server.execute("SHOW MASTER STATUS")[0][:2]
        for index, server in enumerate(shop.servers)
    )


@pytest.mark.soak
def test_every_client_continues_after_filtered_transactions_are_purged(shop: Shop, tmp_path: Path):
    """1. A consumer and a relay read rows. 2. The consumer leaves, and tables that nobody keeps are busy:
    both positions follow. 3. The instance is away, and the sources purge all but that. 4. Both go on.
    """
    path = tmp_path / "lines"

    def relay_of(uri: str) -> dict[str, Any]:
        return {
            "destination": shop.destination,
            "read": {"gateway": uri, "client_id": "relay"},
            "batch": {"quiet_s": 0.3},
            "output": {"kind": "lines", "path": str(path)},
        }

    with shop.serve(**QUIET) as instance, publishing(relay_of(instance.uri)) as running:
        gateway_client = GatewayClient(instance.uri, shop.destination)
        with shop.connect(instance) as consumer:
            eventually(lambda: {"relay", CLIENT} <= clients_of(gateway_client), "the relay's subscription")
            shop.write_everywhere(2)
            reading = Reading(consumer)
            reading.until(shop.rows)
        eventually(lambda: running.publisher.published == shop.rows, "the rows", within_s=DEADLINE_S)
        for server in shop.servers:
            server.execute(
                "CREATE DATABASE IF NOT EXISTS left_out",
                "CREATE OR REPLACE TABLE left_out.busy (id INT)",
                *["INSERT INTO left_out.busy VALUES (1)"] * 20,
            )
        eventually(lambda: is_at_the_ends(cursor_of(gateway_client, CLIENT), shop), "the cursor")
        confirmed = path.with_name("lines.position")
        eventually(lambda: is_at_the_ends(json.loads(confirmed.read_text())["position"], shop), "the relay")
        gateway_client.close()
    for server in shop.servers:
        server.execute("FLUSH BINARY LOGS")
        purge_all_but_the_last(server)
    with shop.serve(**QUIET) as instance, publishing(relay_of(instance.uri)):
        shop.write_everywhere(1)
        with shop.connect(instance) as consumer:
            reading.consumer = consumer
            reading.rolled_back()
            reading.until(shop.rows)
            reading.check(shop)
        eventually(lambda: len(in_lines(path)) == shop.rows, "the relay to go on", within_s=DEADLINE_S)


def test_a_new_client_id_gets_what_is_committed_from_now_on(served: SharedShop):
    """Another one holds what was written before."""
    with served.connect(client_id="first") as first:
        served.write_everywhere(3)
        held = first.get_without_ack(timeout=DEADLINE_S)
        assert held is not None
        with served.connect(client_id="second") as second:
            served.write(0, 1)
            batch = second.get(timeout=DEADLINE_S)
            assert batch is not None
            ids = [int(dict(row)["id"]) for row in batch.envelope()["after"].to_pylist()]
            assert ids == served.written["s0"][-1:]
        first.rollback()
        reading = Reading(first)
        reading.until(served.rows)
