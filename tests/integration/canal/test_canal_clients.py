"""canal-python, unchanged, on a whole instance, and what it reads compared with what our own consumer reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from integration.canal_clients import CanalPython, canal_python
from integration.differential import ALL_TYPES
from integration.shared_servers import SharedShop


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
