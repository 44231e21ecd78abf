"""The gateway's Flight server on its own: no Ray, no group."""

from __future__ import annotations

import json

import pytest
from pyarrow import flight

from actors import gateway
from actors.gateway import Door, GatewayWiring
from merge.access import Grants


class AskedAtOnce(flight.FlightServerBase):
    """Stands between the door and Flight's server: a consumer calls as soon as that one listens."""

    answer: dict[str, object]

    def __init__(self, location: str, **options: object) -> None:
        super().__init__(location, **options)
        with flight.FlightClient(f"grpc://127.0.0.1:{self.port}") as client:
            request = flight.Action("dance", json.dumps({"destination": "shop"}).encode())
            (result,) = client.do_action(request)
        self.answer = json.loads(result.body.to_pybytes())


class EagerlyAsked(Door, AskedAtOnce):
    pass


def test_a_call_that_comes_while_the_gateway_starts_is_answered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway.ray, "get_actor", lambda name: name)
    wiring = GatewayWiring("grpc://127.0.0.1:0", "shop", Grants(), None, 1_000_000)
    with EagerlyAsked(wiring, "group", "shard/", ["s0"]) as door:
        assert "dance" in str(door.answer["error"])
