"""What one who was let in leaves to another: connections and calls are shared by names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight
from ray.exceptions import RayActorError
from support.instance.gateway import destination, gateway_server
from support.security.certificates import Authority
from support.security.guarded_server import (
    DEADLINE_S,
    NO_TOKEN,
    Guarded,
    ask,
    close,
    connected,
    open_still,
    serving,
    silent,
    token,
    until,
)

from canal_group.actors.admission import connection_guard
from canal_group.actors.admission.access import Grant, Grants, token_digest
from canal_group.actors.admission.connection_guard import ConnectionGuard
from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.gateway import group_handle

TWO = Grants.of([("of-a", Grant("a")), ("of-b", Grant("b"))])


def test_the_caller_with_the_most_connections_gives_way():
    """1. a opens all there may be; 2. b's first is known, and a's oldest is closed; 3. so it stays."""
    with serving(grants=TWO, connections_max=4, watched=False) as server:
        of_a = [connected(server) for _ in range(4)]
        for client in of_a:
            assert ask(client, options=token("of-a")) == b"1"
        server.look()
        assert server.refusals == 0
        of_b = connected(server)
        assert ask(of_b, options=token("of-b")) == b"1"
        server.look()
        assert server.owners == ["a", "a", "a", "b"]
        more_of_a = [connected(server) for _ in range(8)]
        for client in more_of_a:
            assert ask(client, options=token("of-a")) == b"1"
        server.look()
        assert server.owners == ["a", "a", "a", "b"]
        assert server.refusals == 1 + 8
        assert ask(of_b, options=token("of-b")) == b"1"
        server.look()
        assert server.owners == ["a", "a", "a", "b"], "it is the same connection"


def test_of_one_name_the_oldest_connection_is_closed():
    with serving(connections_max=2) as server:
        clients = [connected(server) for _ in range(3)]
        assert [ask(client) for client in clients] == [b"1"] * 3
        until(lambda: server.refusals == 1, "one is closed")
        assert [ask(client) for client in clients[1:]] == [b"1"] * 2
        assert server.owners == ["reader"] * 2


def test_callers_between_two_checks_are_not_taken_for_strangers():
    with serving(unauthenticated_max=2, watched=False) as server:
        clients = [connected(server) for _ in range(6)]
        assert [ask(client) for client in clients] == [b"1"] * 6
        server.look()
        assert (server.refusals, server.owners) == (0, ["reader"] * 6)
        assert [ask(client) for client in clients] == [b"1"] * 6


def test_a_call_admitted_during_a_check_is_known_in_that_check():
    """1. a connection that showed nothing yet, and two later ones; 2. sockets are listed, and it calls."""
    with serving(unauthenticated_max=2, watched=False) as server:
        client = connected(server)
        with pytest.raises(flight.FlightUnauthenticatedError):
            ask(client, options=NO_TOKEN)
        crowd = silent(server.port, 2)
        listing = server.guard._connections

        def listed(*arguments: Any) -> Iterator[Any]:
            sockets = list(listing(*arguments))
            assert ask(client) == b"1"
            return iter(sockets)

        server.guard._connections = listed
        server.look()
        assert (server.refusals, server.owners) == (0, ["reader"])
        assert all(map(open_still, crowd))
        close(crowd)


def test_a_new_connection_is_noticed_by_the_descriptor_that_it_takes(monkeypatch):
    """While none was taken the sockets are not listed, and those that are known are looked at."""
    monkeypatch.setattr(connection_guard, "LIST_S", 3_600.0)
    with serving(unauthenticated_max=2, watched=False) as server:
        listings, listing = [], server.guard._list
        server.guard._list = lambda port: (listings.append(port), listing(port))
        client = connected(server)
        assert ask(client) == b"1"
        server.look()
        count = len(listings)
        for _ in range(8):
            server.look()
        assert len(listings) == count
        (known,) = server.guard._connections(server.port, set())
        assert known.received
        crowd = silent(server.port, 3)

        def closed():
            server.look()
            return server.refusals == 1

        until(closed, "one of three gives way")
        assert server.owners == ["reader"]
        assert ask(client) == b"1"
        close(crowd)


def test_a_caller_that_took_the_descriptor_of_another_is_known(monkeypatch):
    monkeypatch.setattr(connection_guard, "LIST_S", 3_600.0)
    monkeypatch.setattr(connection_guard, "_lowest_free", lambda: 7)
    with serving(watched=False) as server:
        server.look()
        client = connected(server)
        assert ask(client) == b"1"
        server.look()
        assert server.owners == ["reader"]


@contextmanager
def waiting(server: Guarded, clients: list[flight.FlightClient], options: Any) -> Iterator[None]:
    """Have each client make a call that is answered at the end."""
    threads = [
        threading.Thread(target=ask, args=(client,), kwargs={"request": "wait", "options": options})
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert server.busy.acquire(timeout=DEADLINE_S)
    try:
        yield
    finally:
        server.go_on.set()
        for thread in threads:
            thread.join(DEADLINE_S)


def test_a_token_has_a_bounded_number_of_calls_answered_at_once():
    with serving(grants=TWO, calls_max=2) as server:
        of_a = token("of-a")
        with waiting(server, [connected(server) for _ in range(2)], of_a):
            with pytest.raises(flight.FlightUnavailableError, match="Too many calls of a "):
                ask(connected(server), options=of_a)
            assert ask(connected(server), options=token("of-b")) == b"1"
        for _ in range(5):
            assert ask(connected(server), options=of_a) == b"1"


def test_so_has_a_certificate_and_takes_none_of_another_s(tmp_path: Path):
    """Also not of a token that is shown with one, nor of a client that is called "certificates"."""
    authority = Authority(tmp_path)
    pair, ca = authority.pair("server"), authority.ca.read_bytes()
    grants = Grants(
        tokens=(
            (token_digest("both"), "both", Grant("BOTH")),
            (token_digest("plain"), "", Grant("certificates")),
        ),
        certificates=(("one", Grant("ONE")), ("two", Grant("TWO"))),
    )
    tls = GatewayTls(pair.cert, pair.key, authority.ca)
    with serving("grpc+tls://127.0.0.1:0", 2, grants, tls) as server:

        def of(name: str) -> flight.FlightClient:
            return connected(server, ca=ca, pair=authority.pair(name, of_consumer=True))

        with waiting(server, [of("one"), of("one")], NO_TOKEN):
            with pytest.raises(flight.FlightUnavailableError, match="Too many calls of ONE "):
                ask(of("one"), options=NO_TOKEN)
            assert ask(of("two"), options=NO_TOKEN) == b"1"
            assert ask(of("both"), options=token("both")) == b"1"
            assert ask(of("whoever"), options=token("plain")) == b"1"
        assert ask(of("one"), options=NO_TOKEN) == b"1"
        with pytest.raises(flight.FlightUnauthenticatedError):
            ask(of("whoever"), options=NO_TOKEN)


class NoGroup:
    """An actor that is away."""

    def __getattr__(self, method: str) -> object:
        raise RayActorError


@pytest.mark.parametrize("method", ["do_action", "do_get"])
def test_a_certificate_without_a_grant_stays_a_strangers(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An authority that signs for others as well does not make them callers."""
    monkeypatch.setattr(group_handle.ray, "get_actor", lambda _: NoGroup())
    monkeypatch.setattr(ConnectionGuard, "start", lambda *_: None)
    authority = Authority(tmp_path)
    pair, ca = authority.pair("server"), authority.ca.read_bytes()
    tls = GatewayTls(pair.cert, pair.key, authority.ca)
    grants = Grants(certificates=(("mirror", Grant("MIRROR")),))

    def call(client: flight.FlightClient) -> None:
        if method == "do_action":
            list(client.do_action(flight.Action("dance", b"{}"), NO_TOKEN))
        else:
            client.do_get(flight.Ticket(b"{}"), NO_TOKEN)

    where = {"location": "grpc+tls://127.0.0.1:0", "tls": tls}
    with gateway_server(destination(grants=grants), **where) as gateway_client:
        stranger = connected(gateway_client, ca=ca, pair=authority.pair("whoever", of_consumer=True))
        with pytest.raises(flight.FlightUnauthenticatedError):
            call(stranger)
        gateway_client._guard._look(gateway_client.port)
        assert (len(gateway_client._guard._unauthenticated), len(gateway_client._guard._authenticated)) == (
            1,
            0,
        )
        trusted = connected(gateway_client, ca=ca, pair=authority.pair("mirror", of_consumer=True))
        if method == "do_action":
            call(trusted)
        else:
            with pytest.raises(flight.FlightServerError, match="None is not served here; served: shop"):
                call(trusted)
        gateway_client._guard._look(gateway_client.port)
        assert (len(gateway_client._guard._unauthenticated), len(gateway_client._guard._authenticated)) == (
            1,
            1,
        )
