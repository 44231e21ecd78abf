"""canal's protocol on a whole instance: what its clients are given, and what they are refused."""

from __future__ import annotations

from typing import Any

import pytest
from integration.canal_clients import RawClient
from integration.shared_servers import SharedShop


@pytest.fixture(scope="module")
def shared_options() -> dict[str, Any]:
    return {"canal": {"port": 0}}


@pytest.fixture
def raw(served: SharedShop) -> Any:
    with RawClient(served.instance.canal_address, served.destination) as client:
        yield client.log_in().subscribe()


def test_a_batch_is_got_and_acknowledged(served: SharedShop, raw: RawClient):
    served.write(0, 3, rows=2)
    batch_id, entries = raw.get()
    assert batch_id > 0
    raw.ack(batch_id)
    assert raw.get(timeout=-1) == (-1, [])
