"""canal's clients on MySQL: every type, and transactions with GTIDs."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from integration.canal_clients import ClientProcess, canal_python, same_over_both, write_all_types
from integration.canal_java import Java
from integration.shop import Shop

pytestmark = pytest.mark.soak

ROWS = 12


@pytest.fixture(params=["canal-python", "Java"])
def client(request: pytest.FixtureRequest) -> Iterator[ClientProcess]:
    if request.param == "Java":
        java: Java = request.getfixturevalue("canal_java")
        with java() as found:
            yield found
    else:
        with canal_python() as found:
            yield found


def test_every_type_reads_as_our_own_consumer_reads_it(mysql_shop: Shop, client: ClientProcess):
    changes = ROWS * 2 + ROWS // 2
    with mysql_shop.serve(canal={"port": 0}) as instance, mysql_shop.connect(instance) as consumer:
        client.open(instance.canal_address, mysql_shop.destination)
        write_all_types(mysql_shop.servers[0], "shop_0.kinds", random.Random(7), mariadb=False, rows=ROWS)
        found = same_over_both(client, consumer, changes)
        client.disconnect()
    assert len(found) == changes
    assert {operation for _, operation, _, _ in found} == {"INSERT", "UPDATE", "DELETE"}
