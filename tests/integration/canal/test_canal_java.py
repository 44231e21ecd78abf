"""canal's Java client, unchanged, on a whole instance that asks for a password."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from integration.canal_clients import images_of, same_over_both, write_all_types
from integration.canal_java import CanalJava, Java
from integration.shared_servers import SharedShop

pytestmark = pytest.mark.soak

SEED = 11
PASSWORD = "pass wörd"
LOGIN = {"username": "canal", "password": PASSWORD}
GET = {"timeout": 10_000, "unit": 2}


@pytest.fixture(scope="module")
def shared_options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("secrets") / "canal"
    file.write_text(PASSWORD)
    return {"canal": {"port": 0, "user": "canal", "password_file": str(file)}}


@pytest.fixture(scope="module")
def one_process(canal_java: Java) -> Iterator[CanalJava]:
    with canal_java() as client:
        yield client


@pytest.fixture
def client(served: SharedShop, one_process: CanalJava) -> Iterator[CanalJava]:
    one_process.open(served.instance.canal_address, served.destination, **LOGIN)
    yield one_process
    one_process.disconnect()


def ids_of(message: dict[str, Any]) -> list[int]:
    return [int(after["id"]) for _, _, _, after in images_of(message["entries"])]


def test_it_subscribes_gets_acknowledges_and_rolls_back(served: SharedShop, client: CanalJava):
    served.write(0, 3)
    first = client.get_without_ack(batch_size=1, **GET)
    second = client.get_without_ack(batch_size=1, **GET)
    assert ids_of(first) + ids_of(second) == served.written["s0"][:2]
    client.ack(message_id=first["id"])
    client.rollback(batch_id=second["id"])
    again = client.get_without_ack(batch_size=1, **GET)
    assert (again["entries"], again["id"] > second["id"]) == (second["entries"], True)
    client.rollback()
    assert ids_of(client.get(size=1)) == ids_of(second), "got, and acknowledged"
    third = client.get_without_ack(batch_size=1, **GET)
    assert ids_of(third) == served.written["s0"][2:]
    client.disconnect()
    client.connect()
    assert ids_of(client.get(size=1)) == ids_of(third), "what was not acknowledged comes again"
    assert client.get_without_ack(batch_size=1) == {"id": -1, "raw": False, "entries": []}


def test_it_reads_what_its_filter_names_and_gives_up_its_cursor(served: SharedShop, client: CanalJava):
    client.subscribe(filter=r"shop\.notes,other\..*")
    served.servers[1].execute("CREATE TABLE shop_1.notes (id INT PRIMARY KEY)")
    served.write(1, 2)
    served.servers[1].execute("INSERT INTO shop_1.notes VALUES (7)")
    found: list[dict[str, Any]] = []
    while not images_of(found):
        message = client.get_without_ack(batch_size=100, **GET)
        found += message["entries"]
        client.ack(message_id=message["id"])
    assert images_of(found) == [("notes", "INSERT", None, {"id": "7"})]
    kinds = [entry["type"] for entry in found if not entry["stored"].get("isDdl")]
    assert kinds == ["TRANSACTIONBEGIN", "ROWDATA", "TRANSACTIONEND"]
    client.unsubscribe()
    with pytest.raises(ConnectionError, match="not subscribed"):
        client.get_without_ack(batch_size=1)
    client.subscribe(filter="")
    served.write(1, 1)
    assert ids_of(client.get_without_ack(batch_size=10, **GET)) == served.written["s1"][2:]


@pytest.mark.parametrize("lazy", [False, True])
def test_every_type_reads_as_our_own_consumer_reads_it(served: SharedShop, client: CanalJava, lazy: bool):
    """Also with entries that the client leaves to be parsed by its user."""
    client.disconnect()
    client.open(served.instance.canal_address, served.destination, lazy=lazy, **LOGIN)
    rows = 12
    with served.connect() as consumer:
        write_all_types(served.servers[0], "shop_0.kinds", random.Random(SEED), mariadb=True, rows=rows)
        message = client.get_without_ack(batch_size=1, **GET)
        assert message["raw"] is lazy
        client.rollback()
        found = same_over_both(client, consumer, rows * 2 + rows // 2)
    assert {operation for _, operation, _, _ in found} == {"INSERT", "UPDATE", "DELETE"}


def test_large_batches_come_whole(served: SharedShop, client: CanalJava):
    served.write(0, 3, rows=4_000)
    seen: list[int] = []
    while len(seen) < 12_000:
        message = client.get_without_ack(batch_size=4_000, **GET)
        seen += ids_of(message)
        client.ack(message_id=message["id"])
    assert seen == served.written["s0"]


def test_a_wrong_password_and_a_second_client_are_refused(
    served: SharedShop, client: CanalJava, canal_java: Java
):
    address = served.instance.canal_address
    with canal_java() as other:
        for wrong in ({"username": "canal", "password": "other"}, {"username": "", "password": ""}):
            with pytest.raises(ConnectionError, match="user or password is wrong"):
                other.open(address, served.destination, **wrong)
        with pytest.raises(ConnectionError, match="is held by canal:127"):
            other.open(address, served.destination, **LOGIN)
    served.write(0, 1)
    assert ids_of(client.get_without_ack(batch_size=1, **GET)) == served.written["s0"]


def test_a_refused_ack_is_named_by_the_next_get(served: SharedShop, client: CanalJava):
    served.write(0, 1)
    message = client.get_without_ack(batch_size=1, **GET)
    client.ack(message_id=message["id"] + 7)
    with pytest.raises(ConnectionError, match="never delivered"):
        client.get_without_ack(batch_size=1)
    client.disconnect()
    client.connect()
    assert ids_of(client.get(size=1)) == ids_of(message)
