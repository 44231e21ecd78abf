"""One listener of several destinations: who comes in, and what each request's destination lets it do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyarrow import flight
from ray.exceptions import RayActorError
from support.instance.gateway import ANYBODY, destination, gateway_server
from support.security.guarded_server import DEADLINE_S, own_connection

from canal_group.actors.admission.access import READER, Grant, Grants
from canal_group.actors.admission.token_middleware import Caller, TokenMiddleware
from canal_group.actors.gateway import group_handle
from canal_group.actors.gateway.destinations import Destinations
from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import OpenSharedMemory, Status
from canal_group.merge.errors import AccessDenied, ServerUnavailable, UsageError
from canal_group.shared_memory.client import SharedMemoryClient
from canal_group.shared_memory.wire import SharedMemoryAddress


class NoGroup:
    """An actor that is away."""

    def __getattr__(self, method: str) -> object:
        raise RayActorError


@pytest.fixture(autouse=True)
def groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    monkeypatch.setattr(group_handle.GroupHandle, "status", lambda _: {"active": False, "error": "away"})


@pytest.fixture
def table(groups: None) -> Iterator[Destinations]:
    """A table of no destination; what a test adds is withdrawn."""
    table = Destinations()
    yield table
    table.serve([])


def of(name: str, token: str) -> Grants:
    """Return the grants of a destination that one token is for."""
    return Grants.of([(token, Grant(name, destinations=frozenset({name})))])


def asked(port: int, name: str, token: str | None = None) -> object:
    client = GatewayClient(f"grpc://127.0.0.1:{port}", name, token)
    try:
        return client.ask(Status())["destination"]
    finally:
        client.close()


def test_a_token_is_for_the_destinations_that_know_it_and_for_no_other():
    both = ("both", Grant("both", operate=True))
    grants = [Grants.of([(f"{name}-s3cret", Grant(name)), both]) for name in ("a", "b")]
    with gateway_server(*map(destination, ("a", "b"), grants)) as server:
        for name, token in (("a", "a-s3cret"), ("b", "b-s3cret"), ("a", "both"), ("b", "both")):
            assert asked(server.port, name, token) == name
        with pytest.raises(AccessDenied, match="The token of a does not allow destination b"):
            asked(server.port, "b", "a-s3cret")
        with pytest.raises(AccessDenied, match="missing or wrong"):
            asked(server.port, "b", "guessed")


def test_an_open_destination_opens_no_other_one():
    with gateway_server(destination("open"), destination("shut", of("shut", "s3cret"))) as server:
        assert asked(server.port, "open") == "open"
        assert asked(server.port, "shut", "s3cret") == "shut"
        for token in (None, "guessed"):
            with pytest.raises(AccessDenied, match="A token is needed for destination shut"):
                asked(server.port, "shut", token)


def test_an_unknown_destination_is_told_from_an_absent_one():
    """An absent one is asked for again; of the others those are named that the caller may read."""
    gone = destination("gone", of("gone", "gone-s3cret"), group=None)
    mine, other = destination("mine", of("mine", "s3cret")), destination("other", of("other", "x"))
    with gateway_server(mine, other, destination("open"), gone) as server:
        with pytest.raises(UsageError, match="'x' is not served here; served: mine, open"):
            asked(server.port, "x", "s3cret")
        with pytest.raises(ServerUnavailable, match="'gone' is not served here now; served: open"):
            asked(server.port, "gone", "gone-s3cret")
        with pytest.raises(AccessDenied, match="token of mine does not allow destination gone"):
            asked(server.port, "gone", "s3cret")
        with own_connection(f"grpc://127.0.0.1:{server.port}") as client:
            for body in (b"{}", b'{"destination": ["open"]}', b'{"destination": 7}'):
                (result,) = client.do_action(flight.Action("status", body))
                assert "is not served here; served: open" in str(json.loads(result.body.to_pybytes()))
        described = server._destinations.describe(server._destinations.counters_of("open"))
        assert (described["unserved_calls"], described["counters"]["calls"]) == (6, {})


def test_rows_are_lent_by_the_grants_of_the_tickets_destination():
    with gateway_server(destination("a", of("a", "s3cret")), destination("b", of("b", "x"))) as server:
        client = GatewayClient(f"grpc://127.0.0.1:{server.port}", "a", "s3cret")
        address = SharedMemoryAddress.from_dict(client.ask(OpenSharedMemory()))
        client.close()
        lender = SharedMemoryClient(address, timeout_s=20.0)
        ticket = {"client_id": "r", "epoch": 1, "batch_id": 1, "format": "envelope"}
        with pytest.raises(AccessDenied, match="does not allow destination b"):
            lender.borrow({**ticket, "destination": "b"})
        lender.close()


def test_counters_are_those_of_the_destination_that_was_asked():
    with gateway_server(destination("a"), destination("b")) as server:
        for name in ("a", "b", "b"):
            asked(server.port, name)
        counted = {name: server._destinations.counters_of(name).calls for name in ("a", "b")}
        with pytest.raises(UsageError):
            asked(server.port, "c")
        with pytest.raises(ServerUnavailable, match="does not serve c now"):
            server._destinations.state_of("c")  # Else each that is away would count the calls for none.
    assert counted == {"a": 1, "b": 2}


def test_what_is_served_already_goes_on_and_a_new_launch_replaces_the_old(table: Destinations):
    table.serve([destination("a"), destination("b")])
    a, b = table._table.served["a"], table._table.served["b"]
    table.serve([destination("a"), destination("b", group="again")])
    assert table._table.served["a"] is a
    assert table._table.served["b"] is not b
    with pytest.raises(ServerUnavailable):
        b.group.ask(Status())  # type: ignore[arg-type]
    table.serve([destination("a")])
    assert list(table._table.served) == ["a"]


def test_a_token_of_another_destination_takes_nothing_from_a_certificate(table: Destinations):
    """Commands send the operator's token, which is of destinations without clients, wherever it is stored."""
    mine = Grants(certificates=(("ops.example", Grant("ops", operate=True, shows="certificate")),))
    table.serve(
        [destination("open", replace(of("operator", "s3cret"), anybody=READER)), destination("b", mine)]
    )

    def found(token: str, certificate: str) -> str:
        return table.find("b", Caller(token, certificate, READER))[1].name

    assert [found(token, "ops.example") for token in ("", "s3cret")] == ["ops", "ops"]
    for token, certificate in (("guessed", "ops.example"), ("s3cret", "x.example"), ("s3cret", "")):
        with pytest.raises(AccessDenied):
            found(token, certificate)


def test_a_group_that_is_gone_keeps_no_other_from_being_served(
    table: Destinations, monkeypatch: pytest.MonkeyPatch
):
    """As when the process is started anew after a group could not be: it is absent, and asked for again."""
    gone = ["dead"]

    def get_actor(name: str) -> NoGroup:
        if name in gone:
            raise ValueError(name)
        return NoGroup()

    monkeypatch.setattr(group_handle.ray, "get_actor", get_actor)
    wirings = [destination("a", group="dead"), destination("b")]
    assert table.serve(wirings) == {"a": "There is no actor dead."}
    b = table._table.served["b"]
    with pytest.raises(ServerUnavailable, match="'a' is not served here now; served: b"):
        table.find("a", Caller("", "", READER))
    gone.clear()
    assert table.serve(wirings) == {}
    assert table._table.served["b"] is b
    assert table.find("a", Caller("", "", READER))[0].name == "a"


def test_a_withdrawn_destination_leaves_no_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_handle, "CLOSE_S", 0.0)
    before = set(threading.enumerate())
    table = Destinations()
    table.serve([destination("a")])
    assert set(threading.enumerate()) - before
    table.serve([destination("b", group=None)])
    until_s = time.monotonic() + DEADLINE_S
    while set(threading.enumerate()) - before and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


def test_destinations_callers_of_one_name_have_their_own_share():
    """A token that one destination gave must not use up the calls and connections of another's."""
    by_token = [Grants.of([(token, Grant("one"))]) for token in ("a-s3cret", "b-s3cret")]
    by_certificate = Grants(certificates=(("a.example", Grant("one", shows="certificate")),))
    merged = Grants.merged([*by_token, by_certificate])
    tokens = TokenMiddleware(lambda: merged, calls_max=1)

    def begun(token: str, certificate: str = "") -> str:
        return tokens.start_call(None, {"authorization": [f"Bearer {token}"]}).caller(certificate).owner

    owners = {begun("a-s3cret"), begun("b-s3cret"), begun("", "a.example")}
    assert len(owners) == 3
    with pytest.raises(flight.FlightUnavailableError, match="Too many calls of one "):
        begun("a-s3cret")
    assert not any("s3cret" in owner for owner in owners)


def test_a_caller_counts_under_the_name_of_the_token_that_it_shows():
    merged = Grants.merged([ANYBODY, of("a", "s3cret"), of("b", "s3cret")])
    found = merged.find("s3cret")
    assert found is not None
    assert found.name == "b", "one entry for a token that several destinations know"
    assert merged.find("") == ANYBODY.anybody
    assert len(merged.tokens) == 1
    assert not Grants.merged([of("a", "x"), of("b", "y")]).may_come_in("z")
    caller = Caller("s3cret", "", found)
    assert "s3cret" not in repr(caller)
