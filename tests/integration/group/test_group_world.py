"""Whole instances on sources as they are: sessions that lie about the time, binlogs that are purged."""

from __future__ import annotations

import time

import pytest
from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S, Reading, Shop
from support.sources.purged_logs import purge_all_but_the_last

import canal_group

#: 2038-01-19T03:14:07Z, the last second that MariaDB takes for `SET TIMESTAMP`
FAR_S = 2_147_483_647


def test_a_session_with_timestamps_decades_ahead_delays_no_client(served: SharedShop):
    """Its rows come in their shard's order, with the time that they were stamped with; the shard goes on."""
    stamped = 10**6
    with served.connect() as consumer:
        served.write_everywhere(3)
        served.servers[0].execute(
            f"SET TIMESTAMP = {FAR_S}", f"INSERT INTO shop_0.orders VALUES ({stamped}, 'later', 1)"
        )
        served.written["s0"].append(stamped)
        served.write_everywhere(3)
        reading = Reading(consumer)
        reading.until(served.rows)
        group = consumer.status()["group"]
    reading.check(served)
    rows = [
        row for table in reading.runs[-1] for row in table.to_pylist() if row["commit_us"] > time.time() * 1e6
    ]
    assert [row["commit_us"] for row in rows] == [FAR_S * 1_000_000]
    assert all(row["key_us"] < time.time() * 1e6 for row in rows)
    assert group["shards"][0]["future"] >= 1


@pytest.mark.soak
def test_after_a_purge_only_a_client_with_unread_rows_gets_an_error(shop: Shop):
    """1. `app` has acknowledged everything, `old` nothing. 2. The instance is away; every source rotates
    and purges all that was written. 3. `app` has missed nothing, and goes on; `old` hears what is missing.
    4. It may go on where `app` is.
    """
    with shop.serve() as instance:
        shop.connect(instance, client_id="old").close()
        with shop.connect(instance, client_id="app") as app:
            shop.write_everywhere(5)
            reading = Reading(app)
            reading.until(shop.rows)
    for server in shop.servers:
        server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        purge_all_but_the_last(server)
    with shop.serve() as instance, shop.connect(instance, client_id="app") as app:
        shop.write_everywhere(5)
        reading.consumer = app
        reading.rolled_back()
        reading.until(shop.rows)
        reading.check(shop)
        with shop.connect(instance, client_id="old") as old:
            with pytest.raises(canal_group.PositionPurged, match="Client old cannot go on at its cursor"):
                _read_for_ever(old)
            clients = {client["client_id"]: client for client in app.status()["group"]["clients"]}
            assert [clients[name]["phase"] for name in ("app", "old")] == ["reading", "purged"]
        with shop.connect(instance, client_id="old", resume="now") as old:
            shop.write_everywhere(2)
            later = Reading(old)
            later.until(2 * len(shop.servers))
            later.check_runs()
            reading.until(shop.rows)
    reading.check(shop)


def _read_for_ever(consumer: canal_group.Consumer) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        consumer.get(timeout=2)
