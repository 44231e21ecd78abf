"""What whoever reaches a gateway can cost it before it is known who that is: real servers, real sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight
from support.security.certificates import Authority
from support.security.guarded_server import (
    NO_TOKEN,
    Guarded,
    ask,
    close,
    connected,
    ended,
    open_still,
    own_connection,
    serving,
    silent,
    until,
)

from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.transport.row_server import BOUNDS, RowServer
from canal_group.conf.listeners.connection_bounds import ConnectionBounds

MIB = 1 << 20


_GATEWAY = """
from canal_group.actors.gateway import group_handle
from canal_group.conf.listeners.gateway_settings import GatewayBounds
from support.instance.gateway import destination, gateway_server
from canal_group.actors.admission.access import Grant, Grants
import logging, sys
logging.disable()
group_handle.ray.get_actor = lambda _: object()
grants = Grants.of([("s3cret", Grant("reader"))])
bounds = GatewayBounds(unauthenticated_bytes_max=int(sys.argv[1]))
with gateway_server(destination(grants=grants), bounds=bounds) as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""


def memory(pid: int, key: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) // 1024


def cost_of(call: Callable[[flight.FlightClient], object], bytes_max: int) -> tuple[int, Exception]:
    """Return by how much a call without a token grew a gateway of its own, MiB, and how it was refused."""
    command = [sys.executable, "-c", _GATEWAY, str(bytes_max)]
    tests = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=tests
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        client = own_connection(f"grpc://127.0.0.1:{int(process.stdout.readline())}")
        before = memory(process.pid, "VmHWM")
        with pytest.raises(flight.FlightError) as refusal:
            call(client)
        took = memory(process.pid, "VmHWM") - before
        client.close()
        process.stdin.close()
    return took, refusal.value


@pytest.mark.parametrize("call", ["do_action", "do_get", "get_flight_info"])
def test_a_large_message_without_a_token_costs_a_gateway_little(call: str):
    large = bytes(200 * MIB)
    calls = {
        "do_action": lambda client: list(client.do_action(flight.Action("get", large), NO_TOKEN)),
        "do_get": lambda client: client.do_get(flight.Ticket(large), NO_TOKEN).read_all(),
        "get_flight_info": lambda client: client.get_flight_info(
            flight.FlightDescriptor.for_command(large), NO_TOKEN
        ),
    }
    took, refusal = cost_of(calls[call], ConnectionBounds().unauthenticated_bytes_max)
    assert took < 150, refusal


def test_a_large_put_without_a_token_is_refused_by_its_headers():
    """No bound of bytes refuses it here: nobody reads what it brings."""
    large = pa.record_batch({"bytes": pa.array([bytes(50 * MIB)], pa.large_binary())})

    def put(client: flight.FlightClient) -> None:
        descriptor = flight.FlightDescriptor.for_path("shop")
        writer, _ = client.do_put(descriptor, large.schema, NO_TOKEN)
        with writer:
            for _ in range(4):
                writer.write_batch(large)

    took, refusal = cost_of(put, 1 << 40)
    assert isinstance(refusal, flight.FlightUnauthenticatedError)
    assert took < 100, refusal


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_silent_connection_blocks_no_other(encrypted: bool, tmp_path: Path):
    """With TLS, it does not even begin the handshake."""
    authority = Authority(tmp_path)
    pair = authority.pair("server")
    location = "grpc+tls://127.0.0.1:0" if encrypted else "grpc://127.0.0.1:0"
    tls, ca = (GatewayTls(pair.cert, pair.key, None), authority.ca.read_bytes()) if encrypted else (None, b"")
    with serving(location, tls=tls, unauthenticated_max=8, unauthenticated_s=2.0) as server:
        client = connected(server, ca=ca)
        assert ask(client) == b"1"
        crowd = silent(server.port, 24)
        assert ask(connected(server, ca=ca)) == b"1"
        assert all(map(ended, crowd))
        until(lambda: server.refusals == 24, "none of them left by itself")
        assert ask(client) == b"1", "who showed a token stays"


def test_a_shards_rows_are_watched_over_as_well():
    """One connection more than may be there closes the oldest, and a large request its own."""
    gateway_client = RowServer(lambda _: [], "127.0.0.1")
    port = int(gateway_client.address.location.rpartition(":")[2])
    crowd = silent(port, BOUNDS.unauthenticated_max + 4)
    assert all(map(ended, crowd[:4]))
    assert all(map(open_still, crowd[4:]))
    client = own_connection(gateway_client.address.location)
    with pytest.raises(flight.FlightUnavailableError):
        client.do_get(flight.Ticket(bytes(256 * MIB)), NO_TOKEN)
    client.close()
    close(crowd)
    gateway_client.close()


def test_the_oldest_unauthenticated_connection_is_closed_for_another():
    with serving(unauthenticated_max=4, unauthenticated_s=3_600.0) as server:
        first = silent(server.port, 4)
        until(lambda: len(server.guard._unauthenticated) == 4, "all four are seen")
        later = silent(server.port, 2)
        assert all(map(ended, first[:2]))
        assert all(map(open_still, first[2:] + later))
        close(first + later)


def test_a_connection_with_a_wrong_token_stays_unauthenticated():
    with serving(unauthenticated_s=2.0) as server:
        wrong, guard = connected(server), server.guard
        for _ in range(2):
            with pytest.raises(flight.FlightUnauthenticatedError):
                ask(wrong, options=NO_TOKEN)
        until(lambda: len(guard._unauthenticated) == 1, "it is seen")
        until(lambda: len(guard._unauthenticated) == 0, "it was closed")


def test_a_request_has_a_bound_and_requests_together_have_none():
    with serving(request_bytes_max=2 * MIB) as server:
        client = connected(server)
        for _ in range(8):
            assert ask(client, MIB) == str(MIB).encode()
        with pytest.raises(flight.FlightUnavailableError):
            ask(client, 256 * MIB)
        assert ask(client) == b"1", "it connects again"


def test_what_unauthenticated_connections_bring_is_added_up():
    with serving(unauthenticated_bytes_max=MIB) as server:
        good = connected(server)
        assert ask(good) == b"1"
        crowd = silent(server.port, 8)
        for each in crowd:
            each.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        # Each a quarter of what all may bring: pings, which gRPC has to read.
        pings = (b"\0\0\x08\6\1" + bytes(12)) * (MIB // 4 // 17)
        for each in crowd:
            with suppress(OSError):
                each.sendall(pings)
        until(lambda: sum(map(open_still, crowd)) < len(crowd), "one at least was closed")
        assert ask(good) == b"1"
        close(crowd)


@pytest.mark.parametrize(("location", "host"), [("[::1]", "[::1]"), ("[::]", "127.0.0.1"), ("[::]", "[::1]")])
def test_a_caller_is_recognized_from_any_address(location, host):
    with serving(f"grpc://{location}:0") as server:
        client = connected(server, host)
        assert ask(client) == b"1"
        until(lambda: server.owners == ["reader"], "it is")
        assert len(server.guard._unauthenticated) == 0
        assert ask(client) == b"1"


def test_no_other_socket_of_the_process_is_touched():
    with (
        serving(unauthenticated_max=1, unauthenticated_s=0.05) as server,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        ours = socket.create_connection(other.getsockname())
        theirs, _ = other.accept()
        pair = socket.socketpair()
        assert all(map(ended, silent(server.port, 3)))
        assert all(map(open_still, (ours, theirs, *pair)))
        for each in (ours, theirs, *pair):
            each.close()


def test_a_guard_that_was_closed_watches_no_more():
    before = set(threading.enumerate())
    server = Guarded("grpc://127.0.0.1:0", ConnectionBounds())
    (watching,) = (each for each in set(threading.enumerate()) - before if each.name == "connections")
    server.shutdown()
    until(lambda: not watching.is_alive(), "its thread has ended")
