"""Rows that come with the answer to a get: of small batches only, and under a delivery lease of the group."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from support.group.builders import Source, Tx, World

from canal_group.actors.gateway import delivery_lease, served_destination
from canal_group.actors.gateway.delivery_lease import DeliveryLease
from canal_group.actors.gateway.served_destination import (
    ROWS_WITH_GET_BYTES_MAX,
    ServedDestination,
    new_counters,
)
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.consumers import AckAndGet, Get
from canal_group.merge.errors import RolledBack, SchemaMismatch
from canal_group.merge.values.position import GroupPosition

#: the key of another batch, which must not matter
HOW = {"format": "envelope", "client_id": "b", "epoch": 5, "batch_id": 6}
GET = Get("a", 1, 10, 0.0, 0, HOW)


class Group:
    """Confirms as long as it is told to; counts how often it is asked."""

    def __init__(self) -> None:
        self.confirmed, self.error = 0, None

    def delivery_lease(self, *key: Any) -> DeliveryLease:
        *_, answered = key

        def ask() -> Future[float]:
            self.confirmed += 1
            return Future()

        def wait(_: Future[float]) -> float:
            if self.error is not None:
                raise self.error
            return 60.0

        return DeliveryLease(ask, wait, answered)


class Served(ServedDestination):
    """A destination whose rows are one table."""

    def __init__(self, batch: Batch | None, waits: Callable[[], None] = lambda: None) -> None:
        self.group, self.counters = Group(), new_counters()  # type: ignore[assignment]
        self.error: Exception | None = None
        self.requests = SimpleNamespace(  # type: ignore[assignment]
            get=lambda call: (GroupPosition() if isinstance(call, AckAndGet) else None, waits() or batch),
            delivered=lambda _, each: {"batch_id": each.batch_id},
        )
        self.tickets: list[Any] = []

    def table(self, ticket: Any) -> pa.Table:
        self.tickets.append(ticket)
        if self.error is not None:
            raise self.error
        return pa.table({"row": [7]})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(delivery_lease, "clock_s", lambda: made.now_s)
    monkeypatch.setattr(served_destination, "clock_s", lambda: made.now_s)
    return made


@pytest.fixture
def batch() -> Batch:
    world = World.of(Source(Tx(10)))
    world.subscribe("a")
    world.report(0)
    return replace(world.get("a"), lease_s=60.0)


def rows_of(streams: list[pa.Buffer]) -> list[int]:
    (stream,) = streams
    rows: list[int] = pa.ipc.open_stream(stream).read_all()["row"].to_pylist()
    return rows


def test_rows_come_with_a_small_batch_under_the_lease_of_its_get(clock, batch):
    served = Served(batch)
    value, streams = served.get(GET)
    assert (value, rows_of(streams)) == ({"batch_id": batch.batch_id}, [7])
    assert served.tickets == [{**HOW, "client_id": "a", "epoch": 1, "batch_id": batch.batch_id}]
    assert served.group.confirmed == 0
    value, streams = served.get(AckAndGet("a", 1, 5, 10, 0.0, 0, HOW))
    assert value == {"cursor": GroupPosition().to_json(), "batch": {"batch_id": batch.batch_id}}
    assert rows_of(streams) == [7]


@pytest.mark.parametrize("error", [None, RolledBack("gone")])
def test_rows_come_only_under_a_lease_that_holds(clock, batch, error):
    """The get waited long, or the gateway was paused since it was asked: the group is asked again."""
    served = Served(batch, lambda: setattr(clock, "now_s", clock.now_s + 3.0))
    served.group.error = error
    value, streams = served.get(GET)
    assert value == {"batch_id": batch.batch_id}, "the batch was delivered"
    assert served.group.confirmed == 1
    assert (rows_of(streams) if streams else None) == ([7] if error is None else None)


def test_rows_do_not_come_after_the_servers_tenure(clock, batch):
    served = Served(replace(batch, lease_s=0.0))
    served.group.error = RolledBack("another server")
    assert served.get(GET)[1] == []


def test_rows_of_a_large_batch_are_not_even_read(clock, batch):
    headers = batch.headers.copy()
    headers["bytes"] = ROWS_WITH_GET_BYTES_MAX + 1
    served = Served(replace(batch, headers=headers))
    assert served.get(GET) == ({"batch_id": batch.batch_id}, [])
    assert served.get(replace(GET, rows=None))[1] == []
    assert served.tickets == []


@pytest.mark.parametrize("error", [SchemaMismatch("no"), KeyError("format")])
def test_rows_that_cannot_be_read_do_not_keep_the_batch_back(clock, batch, error):
    served = Served(batch)
    served.error = error
    assert served.get(GET) == ({"batch_id": batch.batch_id}, [])


def test_a_get_without_a_batch_has_no_rows():
    served = Served(None)
    assert served.get(GET) == (None, [])
    acknowledged = served.get(AckAndGet("a", 1, 5, 10, 0.0, 0, HOW))
    assert acknowledged == ({"cursor": GroupPosition().to_json(), "batch": None}, [])
    assert served.counters.describe()["empty_gets"] == 2
