"""Readers of other kinds begin with the rows that there are: canal's clients, and relays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from integration.canal_clients import RawClient, inserted_ids
from integration.output.published import in_lines, publishing
from integration.output.relay_values import relay_values
from integration.shop import DEADLINE_S, Shop
from integration.zookeeper_fixtures import eventually


def rows_of(shop: Shop) -> set[int]:
    return {number for numbers in shop.written.values() for number in numbers}


def inserted(client: RawClient, rows: int) -> list[int]:
    """Get and acknowledge until so many rows were inserted; return their ids."""
    ids: list[int] = []
    while len(ids) < rows:
        batch_id, entries = client.get()
        ids += inserted_ids(entries)
        if batch_id > 0:
            client.ack(batch_id)
    return ids


def test_canals_clients_and_relays_get_the_rows_that_there_are(readable: Shop, tmp_path: Path):
    """1. Tables have rows; 2. a client of canal's, by a setting, and a relay, by its own, get them as INSERT
    and as `r`; 3. what follows comes after them, once.
    """
    readable.write_everywhere(4, rows=10)
    settings = {
        "archive": {"folder": str(tmp_path / "archive")},
        "canal": {"port": 0},
        "consumer": {"lease_s": 3, "snapshot": "initial"},
    }
    there, path = rows_of(readable), tmp_path / "lines"
    with readable.serve(**settings) as instance:
        with readable.connect(instance, client_id="waits", snapshot="never") as consumer:
            eventually(lambda: consumer.status()["group"]["merging"], "the shards to be opened")
            consumer.unsubscribe()
        client = RawClient(instance.canal_address, readable.destination).log_in().subscribe()
        assert sorted(inserted(client, len(there))) == sorted(there)
        served = SimpleNamespace(destination=readable.destination, instance=instance)
        values = relay_values(served, {"kind": "lines", "path": str(path)}, format="debezium")  # type: ignore[arg-type]
        values["read"] |= {"client_id": "relay", "snapshot": "initial"}
        with publishing(values) as running:
            eventually(lambda: running.publisher.published >= len(there), "the rows", within_s=DEADLINE_S)
            readable.write_everywhere(1)
            followed = rows_of(readable) - there
            eventually(
                lambda: running.publisher.published >= len(there) + len(followed),
                "the changes",
                within_s=DEADLINE_S,
            )
        assert sorted(inserted(client, len(followed))) == sorted(followed)
        client.close()
    sent = [(each.json["op"], int(each.json["after"]["id"])) for each in in_lines(path)]
    assert sorted(sent) == sorted(
        [*(("r", number) for number in there), *(("c", number) for number in followed)]
    )
    assert {op for op, _ in sent[-len(followed) :]} == {"c"}
