"""canal-python on MySQL: every type, and transactions with GTIDs."""

from __future__ import annotations

import random

import pytest
from integration.canal_clients import canal_python, same_over_both, write_all_types
from integration.shop import Shop


@pytest.mark.soak
def test_every_type_reads_as_our_own_consumer_reads_it(mysql_shop: Shop):
    rows = 12
    with mysql_shop.serve(canal={"port": 0}) as instance, mysql_shop.connect(instance) as consumer:
        with canal_python() as client:
            client.open(instance.canal_address, mysql_shop.destination)
            write_all_types(mysql_shop.servers[0], "shop_0.kinds", random.Random(7), mariadb=False, rows=rows)
            found = same_over_both(client, consumer, rows * 2 + rows // 2)
            client.disconnect()
        assert len(found) == rows * 2 + rows // 2
