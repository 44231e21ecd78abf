"""The bytes of rows that a gateway holds: batches wait for each other, and a slow reader gives way."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from ray.exceptions import RayActorError
from support.deadline import await_true
from support.instance.gateway import gateway_server
from support.security.guarded_server import own_connection

from canal_group.actors.admission import unsent_bytes
from canal_group.actors.admission.unsent_rows import COPIES, HeldRows, UnsentRows
from canal_group.actors.gateway import group_handle
from canal_group.actors.gateway.batch_reader import BatchReader, Fetched
from canal_group.actors.gateway.delivery_lease import DeliveryLease
from canal_group.actors.gateway.gateway import GatewayServer
from canal_group.actors.gateway.requests import Requests
from canal_group.conf.listeners.gateway_settings import GatewayBounds
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import OpenSharedMemory
from canal_group.merge.errors import ServerUnavailable
from canal_group.shared_memory.client import SharedMemoryClient
from canal_group.shared_memory.wire import SharedMemoryAddress

BATCH_BYTES = 64 << 20
TICKET = {"destination": "shop", "client_id": "a", "epoch": 1, "batch_id": 1, "format": "envelope"}


class NoGroup:
    """An actor that is away."""

    def __getattr__(self, method: str) -> object:
        raise RayActorError


class Assembly:
    """Puts batches together while it is allowed to; counts how many at once."""

    def __init__(self) -> None:
        self.table = pa.table({"n": range(8)})
        self.running, self.most, self.made = 0, 0, 0
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def envelope(self, *_: Any, fetched: Fetched, **__: Any) -> pa.Table:
        fetched(BATCH_BYTES)
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        assert self.go_on.wait(60)
        with self._lock:
            self.running -= 1
            self.made += 1
        return self.table


@pytest.fixture
def assembly(monkeypatch: pytest.MonkeyPatch) -> Assembly:
    made = Assembly()
    lease = DeliveryLease(lambda: None, lambda _: 1.0)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    monkeypatch.setattr(group_handle.GroupHandle, "delivery_lease", lambda *_: lease)
    monkeypatch.setattr(Requests, "filter_of", lambda *_: "")
    monkeypatch.setattr(BatchReader, "envelope", made.envelope)
    return made


@pytest.fixture
def gateway(assembly: Assembly) -> Iterator[GatewayServer]:
    """There is room for two batches that are put together."""
    with gateway_server(bounds=GatewayBounds(unsent_bytes_max=2 * COPIES * BATCH_BYTES)) as server:
        yield server


def held(gateway: GatewayServer) -> int:
    return gateway._unsent._unsent.held


def sent(gateway: GatewayServer) -> int:
    with own_connection(f"grpc://127.0.0.1:{gateway.port}") as client:
        return client.do_get(flight.Ticket(json.dumps(TICKET).encode())).read_all().num_rows


def lent(gateway: GatewayServer) -> int:
    uri = f"grpc://127.0.0.1:{gateway.port}"
    address = SharedMemoryAddress.from_dict(GatewayClient(uri, "shop").ask(OpenSharedMemory()))
    client = SharedMemoryClient(address, 60.0)
    try:
        ((_, stream),) = client.borrow(TICKET)
        return pa.ipc.open_stream(stream).read_all().num_rows
    finally:
        client.close()


@pytest.mark.parametrize("read", [sent, lent])
def test_batches_are_put_together_within_the_bound(gateway: GatewayServer, assembly: Assembly, read: Any):
    with ThreadPoolExecutor(6) as pool:
        reading = [pool.submit(read, gateway) for _ in range(6)]
        await_true(lambda: gateway._unsent._unsent.crowded, "others wait")
        assert held(gateway) == 2 * COPIES * BATCH_BYTES
        await_true(lambda: assembly.most == 2, "those that have room are being put together")
        assembly.go_on.set()
        assert [each.result(60) for each in reading] == [8] * 6
    assert (assembly.most, assembly.made) == (2, 6)
    await_true(lambda: not held(gateway), "nothing is held any more")


def test_an_error_gives_its_bytes_back(
    gateway: GatewayServer, assembly: Assembly, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: Any, fetched: Fetched, **__: Any) -> pa.Table:
        fetched(BATCH_BYTES)
        raise ServerUnavailable("The shard is gone.")

    monkeypatch.setattr(BatchReader, "envelope", broken)
    for read in (sent, lent):
        with pytest.raises((flight.FlightError, ServerUnavailable), match="The shard is gone"):
            read(gateway)
    await_true(lambda: not held(gateway), "nothing is held any more")


@pytest.mark.parametrize("is_read", [False, True])
def test_a_reader_that_is_slow_while_others_wait_is_disconnected(
    assembly: Assembly, monkeypatch: pytest.MonkeyPatch, is_read: bool
):
    """More than the sockets hold is not read. It is only while another one needs the room."""
    monkeypatch.setattr(unsent_bytes, "GRACE_S", 0.1)
    monkeypatch.setattr(unsent_bytes, "PACE_BYTES_S", 1 << 40)
    assembly.table = pa.table({"n": pa.repeat(7, BATCH_BYTES // 8)})
    assembly.go_on.set()
    with (
        gateway_server(bounds=GatewayBounds(unsent_bytes_max=BATCH_BYTES)) as gateway,
        own_connection(f"grpc://127.0.0.1:{gateway.port}") as slow,
    ):
        reader = slow.do_get(flight.Ticket(json.dumps(TICKET).encode()))
        rows = reader.read_chunk().data.num_rows
        await_true(lambda: held(gateway) == assembly.table.nbytes, "its rows are being sent")
        if is_read:
            assert rows + reader.read_all().num_rows == assembly.table.num_rows
        assert sent(gateway) == assembly.table.num_rows
        if not is_read:
            with pytest.raises(flight.FlightError):
                reader.read_all()
        await_true(lambda: not held(gateway), "nothing is held any more")


def test_a_batch_that_waits_too_long_is_to_be_asked_for_again():
    unsent = UnsentRows(10, wait_s=0.01)

    def taken(owner: str) -> HeldRows:
        rows = HeldRows(unsent, owner)
        rows.take(10)
        return rows

    first = taken("a")
    with pytest.raises(ServerUnavailable, match=r"Raise gateway\.unsent_bytes_max"):
        taken("b")
    first.give_back()
    second = taken("b")
    del second
    third = taken("c")
    assert unsent._unsent.held == COPIES * 10, "nothing referred to the second one any more"
    third.give_back()
    unsent.close()


def test_nothing_more_is_fetched_while_rows_wait_for_room():
    unsent = UnsentRows(COPIES * 10)
    first, second, third = (HeldRows(unsent, owner) for owner in "abc")
    third.await_turn()
    first.take(10)
    third.await_turn()
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(second.take, 10)
        await_true(lambda: unsent._unsent.crowded, "the second one waits")
        fetching = pool.submit(third.await_turn)
        assert not fetching.done()
        first.give_back()
        waiting.result(60)
        fetching.result(60)
    second.give_back()
    unsent.close()
