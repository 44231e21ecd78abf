"""The gateway's address: its port is its own, also while it does not listen."""

import socket
import threading
import time

import pytest
from pyarrow import flight

from canal_group.actors.gateway.address import GatewayAddress
from canal_group.conf.listeners.gateway_settings import GatewaySettings
from canal_group.merge.errors import ConfigError


def test_a_gateway_keeps_its_port_while_it_restarts():
    """1. it listens; 2. it is gone, and the port is not free; 3. it listens again; 4. it is given up."""
    with GatewayAddress(GatewaySettings(port=0)) as address:
        port = int(address.uri.rpartition(":")[2])
        for _ in range(2):
            with flight.FlightServerBase(address.location) as server:
                assert server.port == port
            with pytest.raises(OSError, match="in use"), socket.socket() as plain:
                plain.bind(("127.0.0.1", port))
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", port))


def test_a_port_in_use_is_refused_with_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            GatewayAddress(GatewaySettings(port=port))


@pytest.mark.parametrize(
    ("settings", "advertised"),
    [
        ({}, "127.0.0.1"),
        ({"advertise": "db.example.org"}, "db.example.org"),
        ({"host": "::1"}, "[::1]"),
        ({"host": "0.0.0.0", "token_env": "T"}, socket.gethostname()),
    ],
)
def test_others_reach_it_by_what_it_advertises(settings, advertised, monkeypatch):
    monkeypatch.setenv("T", "open sesame")
    with GatewayAddress(GatewaySettings(port=0, **settings)) as address:
        assert address.advertised.rpartition(":")[0] == advertised
        assert address.uri == f"grpc://{address.advertised}"


def test_a_port_is_awaited_until_no_process_listens():
    with GatewayAddress(GatewaySettings(port=0)) as address:
        address.await_unused(0.0)
        with flight.FlightServerBase(address.location) as server:
            began_s = time.monotonic()
            address.await_unused(0.1)
            assert time.monotonic() >= began_s + 0.1
            ends = threading.Timer(0.2, server.shutdown)
            ends.start()
            began_s = time.monotonic()
            address.await_unused(60.0)
            assert 0.1 < time.monotonic() - began_s < 60.0
            ends.join()
