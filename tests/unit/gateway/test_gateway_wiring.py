"""What the settings say of a gateway's callers is what the gateway goes by."""

from __future__ import annotations

import threading

import pytest
from pyarrow import flight
from ray.exceptions import RayActorError
from support.instance.gateway import gateway_server
from support.security.guarded_server import DEADLINE_S, own_connection

from canal_group.actors.driver.gateway_process import gateway_wiring
from canal_group.actors.gateway import group_handle
from canal_group.actors.gateway.address import GatewayAddress
from canal_group.conf.listeners.gateway_settings import GatewayBounds
from canal_group.conf.load import build_instance

BOUNDS = {
    "connections_max": 1_023,
    "unauthenticated_max": 63,
    "unauthenticated_s": 9.5,
    "unauthenticated_bytes_max": 2_097_151,
    "request_bytes_max": 16_777_213,
    "unsent_bytes_max": 67_108_859,
    "lent_bytes_max": 134_217_689,
}


class NoGroup:
    """An actor that is away."""

    def __getattr__(self, method: str) -> object:
        raise RayActorError


def test_settings_reach_the_guard_and_the_count_of_calls(monkeypatch: pytest.MonkeyPatch):
    shard = {"name": "a", "host": "db", "user": "canal"}
    gateway = {"port": 0, "calls_max": 1, "reply_bytes_max": 4_194_301, **BOUNDS}
    settings = build_instance(
        {"preset": "memory", "destination": "shop", "shards": [shard], "gateway": gateway}
    )
    bounds = GatewayBounds(calls_max=1, reply_bytes_max=4_194_301, **BOUNDS)
    assert not set(BOUNDS.values()) & {getattr(GatewayBounds(), name) for name in BOUNDS}
    busy, go_on = threading.Event(), threading.Event()

    def status(_: object) -> dict[str, object]:
        busy.set()
        go_on.wait(DEADLINE_S)
        return {"active": False, "error": "another server is"}

    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    monkeypatch.setattr(group_handle.GroupHandle, "status", status)
    with GatewayAddress(settings.gateway) as address:
        wiring = gateway_wiring(settings, address, None, None)
        assert wiring.bounds == bounds
        with (
            gateway_server(location=wiring.location, bounds=wiring.bounds) as gateway_client,
            own_connection(address.uri) as client,
        ):
            assert gateway_client._guard._bounds == bounds
            assert gateway_client._unsent._unsent._bytes_max == bounds.unsent_bytes_max
            assert gateway_client._shared_memory._lent._left == bounds.lent_bytes_max
            action = flight.Action("status", b'{"destination": "shop"}')
            first = threading.Thread(target=lambda: list(client.do_action(action)))
            first.start()
            assert busy.wait(DEADLINE_S)
            with pytest.raises(flight.FlightUnavailableError, match="Too many calls of everybody"):
                list(client.do_action(action))
            go_on.set()
            first.join(DEADLINE_S)
            assert list(client.do_action(action))
