"""Readers of other kinds begin with the rows that there are: canal's clients, and relays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from integration.canal_clients import CanalPython, canal_python, images_of
from integration.output.published import in_lines, publishing
from integration.output.relay_values import relay_values
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually


def rows_of(shop: Shop) -> set[int]:
    return {number for numbers in shop.written.values() for number in numbers}


def read(client: CanalPython, rows: int) -> list[tuple[Any, ...]]:
    """Get and acknowledge until there are so many row changes."""
    images: list[tuple[Any, ...]] = []
    while len(images) < rows:
        message = client.get_without_ack(batch_size=100, timeout=5_000, unit=2)
        images += images_of(message["entries"])
        if message["id"]:
            client.ack(message_id=message["id"])
    return images


def test_canals_clients_and_relays_get_the_rows_that_there_are(shop: Shop, tmp_path: Path):
    """1. Tables have rows; 2. a client of canal's, by a setting, and a relay, by its own, get them as INSERT
    and as `r`; 3. what follows comes after them, once.
    """
    shop.write_everywhere(4, rows=10)
    for index, server in enumerate(shop.servers):
        server.execute(f"GRANT SELECT ON shop_{index}.* TO {server.address().user}@127.0.0.1")
    settings = {
        "archive": {"folder": str(tmp_path / "archive")},
        "canal": {"port": 0},
        "consumer": {"lease_s": 3, "snapshot": "initial"},
    }
    there, path = rows_of(shop), tmp_path / "lines"
    with shop.serve(**settings) as instance, canal_python() as client:
        with shop.connect(instance, client_id="waits", snapshot="never") as consumer:
            eventually(lambda: consumer.status()["group"]["merging"], "the shards to be opened")
            consumer.unsubscribe()
        client.open(instance.canal_address, shop.destination)
        images = read(client, len(there))
        assert {operation for _, operation, _, _ in images} == {"INSERT"}
        assert sorted(int(after["id"]) for *_, after in images) == sorted(there)
        served = SimpleNamespace(destination=shop.destination, instance=instance)
        values = relay_values(served, {"kind": "lines", "path": str(path)}, format="debezium")  # type: ignore[arg-type]
        values["read"] |= {"client_id": "relay", "snapshot": "initial"}
        with publishing(values) as running:
            eventually(lambda: running.publisher.published >= len(there), "the rows", within_s=DEADLINE_S)
            shop.write_everywhere(1)
            followed = rows_of(shop) - there
            eventually(
                lambda: running.publisher.published >= len(there) + len(followed),
                "the changes",
                within_s=DEADLINE_S,
            )
        assert {int(after["id"]) for *_, after in read(client, len(followed))} == followed
        client.disconnect()
    sent = [(each.json["op"], each.json["after"]["id"]) for each in in_lines(path)]
    assert sorted(sent) == sorted(
        [*(("r", number) for number in there), *(("c", number) for number in followed)]
    )
    assert {op for op, _ in sent[-len(followed) :]} == {"c"}
