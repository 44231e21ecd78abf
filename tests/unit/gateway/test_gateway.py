"""The gateway's Flight server on its own: no Ray, no group."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight
from ray.exceptions import RayActorError
from support.instance.gateway import destination, gateway_server
from support.security.guarded_server import own_connection

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.calls import QUESTIONS_MAX
from canal_group.actors.gateway import group_handle
from canal_group.actors.gateway.address import GatewayAddress
from canal_group.actors.gateway.gateway import GatewayServer
from canal_group.actors.group.wiring import grants as wired_grants
from canal_group.conf.listeners.gateway_settings import GatewaySettings
from canal_group.conf.load import build_instance
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.call import Call, inside
from canal_group.merge.calls.consumers import Locate, OpenSharedMemory, Status, Subscribe
from canal_group.merge.calls.operators import AddShard, GivePolicy, RemoveShard, Trace
from canal_group.merge.errors import AccessDenied, CanalGroupError, ServerUnavailable, UsageError
from canal_group.merge.values.member import Policy
from canal_group.merge.values.position import GroupPosition
from canal_group.operator import Operator, calls
from canal_group.shared_memory.client import SharedMemoryClient
from canal_group.shared_memory.wire import SharedMemoryAddress


class NoGroup:
    """An actor that is away."""

    def __getattr__(self, method: str) -> object:
        raise RayActorError


class AskedAtOnce(flight.FlightServerBase):
    """Stands between the door and Flight's server: a consumer calls as soon as that one listens."""

    answer: dict[str, object]

    def __init__(self, location: str, **options: object) -> None:
        super().__init__(location, **options)
        with own_connection(f"grpc://127.0.0.1:{self.port}") as client:
            request = flight.Action("dance", json.dumps({"destination": "shop"}).encode())
            (result,) = client.do_action(request)
        self.answer = json.loads(result.body.to_pybytes())


class EagerlyAsked(GatewayServer, AskedAtOnce):
    pass


def test_a_call_that_comes_while_the_gateway_starts_is_answered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    with gateway_server(kind=EagerlyAsked) as gateway_client:
        assert "dance" in str(gateway_client.answer["error"])


def test_a_request_of_many_brackets_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    deep = b"[" * 10_000
    with (
        gateway_server() as gateway_client,
        own_connection(f"grpc://127.0.0.1:{gateway_client.port}") as client,
    ):
        (result,) = client.do_action(flight.Action("get", deep))
        with pytest.raises(flight.FlightError, match="The ticket is malformed: RecursionError"):
            client.do_get(flight.Ticket(deep))
    assert "The request 'get' is malformed: RecursionError" in result.body.to_pybytes().decode()


@inside
class Dance(Call[None]):
    """A call that no gateway knows."""


def test_searches_of_one_caller_leave_some_to_others(monkeypatch: pytest.MonkeyPatch):
    """Also a subscription from a time; what searches nothing is answered beside them."""
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    grants = Grants.of([(name, Grant(name, operate=True)) for name in ("a", "b")])
    go_on, busy = threading.Event(), threading.Semaphore(0)

    def search(where: str) -> GroupPosition:
        busy.release()
        assert go_on.wait(60)
        return GroupPosition({})

    with gateway_server(destination(grants=grants)) as gateway, ThreadPoolExecutor(8) as pool:
        served = gateway._destinations._table.served["shop"]
        served.requests._questions.position = search  # type: ignore[method-assign]
        a, b = (GatewayClient(f"grpc://127.0.0.1:{gateway.port}", "shop", name) for name in ("a", "b"))
        answers = [pool.submit(a.ask, Locate("-2h")) for _ in range(QUESTIONS_MAX)]
        answers.append(pool.submit(b.ask, Locate("-2h")))
        try:
            assert all(busy.acquire(timeout=60) for _ in answers), "they run side by side"
            with pytest.raises(ServerUnavailable, match="a may have 4"):
                a.ask(Trace("0-1-1"))
            with pytest.raises(ServerUnavailable, match="a may have 4"):
                a.ask(Subscribe("reader", "x", start="-2h"))
            with pytest.raises(UsageError, match="no action 'Dance'"):
                a.ask(Dance())
        finally:
            go_on.set()
        assert [each.result() for each in answers] == [GroupPosition({}).to_json()] * len(answers)


def test_a_token_is_for_its_client_ids_also_where_rows_are_lent(monkeypatch: pytest.MonkeyPatch):
    """1. Only who has a token is told of the shared memory. 2. It is lent nothing of other client ids."""
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    grants = Grants.of([("s3cret", Grant("reader", client_ids=frozenset({"reader"})))])
    ticket = {"destination": "shop", "epoch": 1, "batch_id": 1, "format": "envelope"}
    with gateway_server(destination(grants=grants)) as gateway_client:
        uri = f"grpc://127.0.0.1:{gateway_client.port}"
        with pytest.raises(AccessDenied):
            GatewayClient(uri, "shop").ask(OpenSharedMemory())
        address = SharedMemoryAddress.from_dict(GatewayClient(uri, "shop", "s3cret").ask(OpenSharedMemory()))
        client = SharedMemoryClient(address, timeout_s=20.0)
        with pytest.raises(AccessDenied, match="client id other"):
            client.borrow({**ticket, "client_id": "other"})
        with pytest.raises(UsageError, match="not a text"):
            client.borrow({**ticket, "client_id": None})
        with pytest.raises(UsageError, match="'elsewhere' is not served here; served: shop"):
            client.borrow({**ticket, "client_id": "reader", "destination": "elsewhere"})
        client.close()


@pytest.mark.parametrize("client_id", [None, 7, ["reader"], True])
@pytest.mark.parametrize("request_of", ["subscribe", "get", "lease_state", "outstanding"])
def test_a_malformed_client_id_never_reaches_the_group(
    monkeypatch: pytest.MonkeyPatch, client_id: object, request_of: str
):
    """It would pass by the client ids that a token is for, and break what takes it for a text."""
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    reader = Grants.of([("s3cret", Grant("reader", client_ids=frozenset({"reader"})))])
    body = {"destination": "shop", "client_id": client_id, "epoch": 1, "holder": "x", "rows_max": 1}
    options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer s3cret")])
    with (
        gateway_server(destination(grants=reader)) as gateway_client,
        own_connection(f"grpc://127.0.0.1:{gateway_client.port}") as client,
    ):
        action = flight.Action(request_of, json.dumps({**body, "timeout_s": 0}).encode())
        (result,) = client.do_action(action, options)
        assert "not a text" in str(json.loads(result.body.to_pybytes())["error"])
        with pytest.raises(flight.FlightServerError, match="not a text"):
            client.do_get(flight.Ticket(json.dumps({**body, "batch_id": 1}).encode()), options).read_all()


def test_a_loopback_caller_operates_nothing_and_this_users_commands_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """1. settings that name nobody; 2. without the token, or with a wrong one, no operation is heard; 3. an
    operator without a token of its own finds the one that was made: its call comes as far as the group."""
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shard = {"name": "a", "host": "db", "user": "canal"}
    settings = build_instance({"preset": "memory", "destination": "shop", "shards": [shard]})
    with GatewayAddress(GatewaySettings(port=0)) as address:
        grants = wired_grants(settings, address.operator_token)
        with gateway_server(destination(grants=grants), location=address.location):
            address.publish_operator_token()
            for token in (None, "guessed"):
                stranger = GatewayClient(address.uri, "shop", token)
                hold = GivePolicy("a", Policy.HOLD)
                for operation in (AddShard({}), RemoveShard("a"), hold, Dance()):
                    with pytest.raises(AccessDenied, match="A token is needed"):
                        stranger.ask(operation)
                stranger.close()
            operator = Operator(address.uri, "shop")
            with pytest.raises(CanalGroupError) as heard:
                operator.ask(calls.GivePolicy("a", Policy.HOLD))
            assert not isinstance(heard.value, AccessDenied)
            operator.close()


def test_a_status_shows_only_the_cursors_of_the_tokens_client_ids(
    monkeypatch: pytest.MonkeyPatch,
):
    cursor = GroupPosition().to_json()
    clients = [{"client_id": name, "cursor": cursor, "unread": {}} for name in ("a", "b", "c")]
    full = {
        "shard": "s0",
        "clients": ["a", "b"],
        "since_s": 9.0,
        "why": "s0 waits: kept for client a, client b",
    }
    group = {"active": True, "shards": [], "clients": clients, "full_rings": [full]}
    monkeypatch.setattr(group_handle.GroupHandle, "status", lambda _: group)
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    grants = Grants.of(
        [
            ("a-s3cret", Grant("a", client_ids=frozenset({"a"}))),
            ("ab-s3cret", Grant("ab", client_ids=frozenset({"a", "b"}))),
            ("none-s3cret", Grant("none", client_ids=frozenset({"d"}))),
            ("all-s3cret", Grant("all")),
            ("ops-s3cret", Grant("ops", client_ids=frozenset({"a"}), operate=True)),
        ]
    )
    with gateway_server(destination(grants=grants)) as gateway_client:

        def group_seen_by(token: str) -> Any:
            uri = f"grpc://127.0.0.1:{gateway_client.port}"
            return GatewayClient(uri, "shop", f"{token}-s3cret").ask(Status())["group"]

        def shown(token: str) -> str:
            return "".join(client["client_id"] for client in group_seen_by(token)["clients"])

        (seen,) = group_seen_by("a")["full_rings"]
        assert (seen["shard"], seen["clients"]) == ("s0", ["a"])
        assert "b" not in seen["why"].split(), "nor does the sentence name the others"
        assert group_seen_by("ab")["full_rings"] == [full]

        assert [shown(each) for each in ("a", "ab", "none", "all", "ops")] == ["a", "ab", "", "abc", "abc"]
        group = {"active": False, "error": "another server is"}
        assert (
            GatewayClient(f"grpc://127.0.0.1:{gateway_client.port}", "shop", "a-s3cret").ask(Status())[
                "group"
            ]
            == group
        )
