"""canal-python, unchanged, on a whole instance: what it reads is what our own consumer reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from integration.canal_clients import CanalPython, canal_python, images_of, same_over_both, write_all_types
from integration.shared_servers import SharedShop

SEED = 7


@pytest.fixture(scope="module")
def shared_options() -> dict[str, Any]:
    return {"canal": {"port": 0}}


@pytest.fixture(scope="module")
def one_process() -> Iterator[CanalPython]:
    with canal_python() as client:
        yield client


@pytest.fixture
def client(served: SharedShop, one_process: CanalPython) -> Iterator[CanalPython]:
    one_process.open(served.instance.canal_address, served.destination)
    yield one_process
    one_process.disconnect()


def ids_of(message: dict[str, Any]) -> list[int]:
    return [int(after["id"]) for _, _, _, after in images_of(message["entries"])]


def test_it_subscribes_gets_acknowledges_and_rolls_back(served: SharedShop, client: CanalPython):
    served.write(0, 3)
    first = client.get_without_ack(batch_size=1, timeout=10_000, unit=2)
    second = client.get_without_ack(batch_size=1, timeout=10_000, unit=2)
    assert ids_of(first) + ids_of(second) == served.written["s0"][:2]
    client.ack(message_id=first["id"])
    client.rollback(batch_id=second["id"])
    again = client.get_without_ack(batch_size=1, timeout=10_000, unit=2)
    assert ids_of(again) == ids_of(second)
    client.rollback(batch_id=0)
    assert ids_of(client.get(size=1)) == ids_of(second), "got, and acknowledged"
    third = client.get_without_ack(batch_size=1, timeout=10_000, unit=2)
    assert ids_of(third) == served.written["s0"][2:]
    client.disconnect()
    client.open(served.instance.canal_address, served.destination)
    assert ids_of(client.get(size=1)) == ids_of(third), "what was not acknowledged comes again"
    assert client.get_without_ack() == {"id": 0, "entries": []}


def test_it_reads_what_its_filter_names(served: SharedShop, client: CanalPython):
    client.subscribe(client_id="1001", destination=served.destination, filter=r"shop\.notes,other\..*")
    served.servers[1].execute("CREATE TABLE shop_1.notes (id INT PRIMARY KEY)")
    served.write(1, 2)
    served.servers[1].execute("INSERT INTO shop_1.notes VALUES (7)")
    found: list[dict[str, Any]] = []
    while not images_of(found):
        message = client.get_without_ack(batch_size=100, timeout=5_000, unit=2)
        found += message["entries"]
        client.ack(message_id=message["id"])
    assert images_of(found) == [("notes", "INSERT", None, {"id": "7"})]
    assert [entry["type"] for entry in found if not entry["stored"].get("isDdl")] == [
        "TRANSACTIONBEGIN",
        "ROWDATA",
        "TRANSACTIONEND",
    ]


def test_every_type_reads_as_our_own_consumer_reads_it(served: SharedShop, client: CanalPython):
    with served.connect() as consumer:
        rows = 12
        write_all_types(served.servers[0], "shop_0.kinds", random.Random(SEED), mariadb=True, rows=rows)
        found = same_over_both(client, consumer, rows * 2 + rows // 2)
    assert {operation for _, operation, _, _ in found} == {"INSERT", "UPDATE", "DELETE"}
