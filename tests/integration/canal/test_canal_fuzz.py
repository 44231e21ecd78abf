"""Clients that break canal's protocol: an error packet or a closed connection, and the server goes on."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from integration.canal_clients import RawClient, Refused, inserted_ids
from integration.shared_servers import SharedShop
from support import soak

from canal_group.canal_protocol import packet_pb2

#: bytes that the gateway's process may gain by what is sent to it here
GAIN_BYTES_MAX = 256 << 20


@pytest.fixture(scope="module")
def shared_options() -> dict[str, Any]:
    return {"canal": {"port": 0, "login_s": 2.0, "connections_max": 200, "login_max": 200}}


def address_of(served: SharedShop) -> tuple[str, int]:
    host, _, port = served.instance.canal_address.rpartition(":")
    return host, int(port)


def ends(connection: socket.socket) -> bool:
    """Whether the server closes the connection, after whatever it says."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def client_of(served: SharedShop, client_id: str = "1001") -> RawClient:
    return RawClient(served.instance.canal_address, served.destination, client_id).log_in()


def serves(served: SharedShop) -> bool:
    """Whether a well-behaved client is served."""
    with client_of(served, "good") as good:
        good.subscribe()
        served.write(0, 1)
        seen: list[int] = []
        while served.written["s0"][-1] not in seen:
            batch_id, entries = good.get()
            assert batch_id > 0
            seen += inserted_ids(entries)
            good.ack(batch_id)
        return True


def resident_bytes(served: SharedShop) -> int:
    with served.connect(client_id="observer") as observer:
        pid = observer.status()["gateway"]["pid"]
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.parametrize("length", [-1, -(1 << 31), 0, (64 << 10) + 1, (1 << 31) - 1])
@pytest.mark.parametrize("logged_in", [True, False])
def test_a_length_out_of_bounds_ends_the_connection(served: SharedShop, length: int, logged_in: bool):
    client = RawClient(served.instance.canal_address, served.destination)
    if logged_in:
        client.log_in()
    with client:
        client.socket.sendall(struct.pack(">i", length) + b"x" * 100)
        with pytest.raises(Refused, match="bytes is refused"):
            client.acknowledged()
        assert ends(client.socket)


def test_packets_out_of_order_are_refused_or_answered(served: SharedShop):
    with client_of(served) as client:
        client.send(packet_pb2.CLIENTAUTHENTICATION, packet_pb2.ClientAuth())
        with pytest.raises(Refused, match="CLIENTAUTHENTICATION is not a request"):
            client.acknowledged()
        assert ends(client.socket)
    with client_of(served, "never") as client:
        client.rollback(0)
        client.ask()
        with pytest.raises(Refused, match="not subscribed"):
            client.answer()
        client.ack(7)
        with pytest.raises(Refused, match="not subscribed"):
            client.acknowledged()
        assert ends(client.socket)
    assert serves(served)


@pytest.mark.parametrize("seed", soak.first_quick(1, range(20)))
def test_random_bytes_never_stop_the_server(served: SharedShop, seed: int):
    chance, before = random.Random(seed), resident_bytes(served)
    named = {"destination": served.destination, "client_id": "1001"}
    good = [
        (packet_pb2.SUBSCRIPTION, packet_pb2.Sub(**named)),
        (packet_pb2.GET, packet_pb2.Get(**named, fetch_size=5)),
        (packet_pb2.CLIENTACK, packet_pb2.ClientAck(**named, batch_id=5)),
        (packet_pb2.CLIENTROLLBACK, packet_pb2.ClientRollback(**named, batch_id=chance.randint(-1, 9))),
        (packet_pb2.UNSUBSCRIPTION, packet_pb2.Unsub(**named)),
    ]
    for _ in range(60):
        client = RawClient(served.instance.canal_address, served.destination)
        if chance.random() < 0.8:
            client.log_in()
        with client:
            try:
                for _ in range(chance.randint(1, 4)):
                    kind, body = chance.choice(good)
                    data = bytearray(
                        packet_pb2.Packet(type=kind, body=body.SerializeToString()).SerializeToString()
                    )
                    for _ in range(chance.randint(0, 3)):
                        data[chance.randrange(len(data))] = chance.randrange(256)
                    client.send_bytes(
                        bytes(data if chance.random() < 0.8 else chance.randbytes(chance.randint(0, 99)))
                    )
                if chance.random() < 0.3:
                    client.socket.sendall(struct.pack(">i", 1000) + b"half")
                if chance.random() < 0.5:
                    with contextlib.suppress(OSError):  # the server has closed it already
                        client.socket.shutdown(socket.SHUT_WR)
                    assert ends(client.socket)
            except ConnectionError:
                pass
    assert serves(served)
    assert resident_bytes(served) - before < GAIN_BYTES_MAX


def test_two_hundred_clients_and_as_many_half_open_ones(served: SharedShop):
    before = resident_bytes(served)
    silent = [socket.create_connection(address_of(served), timeout=30) for _ in range(100)]
    clients = [client_of(served, str(2_000 + number)) for number in range(100)]
    for client in clients[:40]:
        client.subscribe()
    for client in clients[:40]:
        client.ask(timeout=30_000)
    served.write(0, 1)
    for client in clients[:40]:
        batch_id, entries = client.answer()
        assert inserted_ids(entries) == served.written["s0"], entries
        client.ack(batch_id)
    assert all(map(ends, silent)), "they did not log in"
    for client in clients:
        client.close()
    assert serves(served)
    assert resident_bytes(served) - before < GAIN_BYTES_MAX
