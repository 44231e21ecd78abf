"""The gateway's Flight server on its own: no Ray, no group."""

from __future__ import annotations

import json

import pytest
from pyarrow import flight
from ray.exceptions import RayActorError

from actors import group_handle
from actors.gateway import Door, GatewayWiring
from canal_group.door import GatewayDoor
from canal_group.near import NearAddress
from canal_group.near_client import NearClient
from merge.access import Grant, Grants
from merge.errors import AccessDenied, UsageError


class NoGroup:
    """An actor that is away."""

    def __getattr__(self, method: str) -> object:
        raise RayActorError


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
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    wiring = GatewayWiring("grpc://127.0.0.1:0", "shop", Grants(), None, 1_000_000, 10.0)
    with EagerlyAsked(wiring, "group", "shard/", ["s0"]) as door:
        assert "dance" in str(door.answer["error"])


def test_a_token_is_for_its_client_ids_also_where_rows_are_lent(monkeypatch: pytest.MonkeyPatch):
    """1. a consumer is told of the near door only with a token; 2. it is lent nothing of other client ids."""
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    grants = Grants.of([("s3cret", Grant("reader", client_ids=frozenset({"reader"})))])
    wiring = GatewayWiring("grpc://127.0.0.1:0", "shop", grants, None, 1_000_000, 10.0)
    ticket = {"destination": "shop", "epoch": 1, "batch_id": 1, "format": "envelope"}
    with Door(wiring, "group", "shard/", ["s0"]) as door:
        uri = f"grpc://127.0.0.1:{door.port}"
        with pytest.raises(AccessDenied):
            GatewayDoor(uri, "shop").ask("near")
        address = NearAddress.from_dict(GatewayDoor(uri, "shop", "s3cret").ask("near"))
        client = NearClient(address, timeout_s=20.0)
        with pytest.raises(AccessDenied, match="client id other"):
            client.borrow({**ticket, "client_id": "other"})
        with pytest.raises(UsageError, match="no text"):
            client.borrow({**ticket, "client_id": None})
        with pytest.raises(UsageError, match="serves 'shop'"):
            client.borrow({**ticket, "client_id": "reader", "destination": "elsewhere"})
        client.close()


@pytest.mark.parametrize("client_id", [None, 7, ["reader"], True])
@pytest.mark.parametrize("request_of", ["subscribe", "get", "standing", "outstanding"])
def test_a_client_id_that_is_none_never_reaches_the_group(
    monkeypatch: pytest.MonkeyPatch, client_id: object, request_of: str
):
    """It would pass by the client ids that a token is for, and break what takes it for a text."""
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    reader = Grants.of([("s3cret", Grant("reader", client_ids=frozenset({"reader"})))])
    wiring = GatewayWiring("grpc://127.0.0.1:0", "shop", reader, None, 1_000_000, 10.0)
    body = {"destination": "shop", "client_id": client_id, "epoch": 1, "holder": "x", "rows_max": 1}
    options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer s3cret")])
    with (
        Door(wiring, "group", "shard/", ["s0"]) as door,
        flight.FlightClient(f"grpc://127.0.0.1:{door.port}") as client,
    ):
        action = flight.Action(request_of, json.dumps({**body, "timeout_s": 0}).encode())
        (result,) = client.do_action(action, options)
        assert "no text" in str(json.loads(result.body.to_pybytes())["error"])
        with pytest.raises(flight.FlightServerError, match="no text"):
            client.do_get(flight.Ticket(json.dumps({**body, "batch_id": 1}).encode()), options).read_all()
