"""Who comes in by canal's protocol: passwords, TLS, and connections that never log in."""

from __future__ import annotations

import ssl
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
from integration.canal_clients import RawClient, Refused
from integration.shared_servers import SharedShop
from support.security.certificates import Authority

PASSWORD = "pass wörd"


@pytest.fixture(scope="module")
def shared_options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("secrets") / "canal"
    file.write_text(PASSWORD)
    limits = {"login_s": 1.0, "login_max": 4, "connections_max": 3, "idle_s": 2.0}
    return {"canal": {"port": 0, "user": "canal", "password_file": str(file), **limits}}


def connection(served: SharedShop) -> RawClient:
    return RawClient(served.instance.canal_address, served.destination)


def test_a_password_is_asked_for_and_must_be_scrambled(served: SharedShop):
    with connection(served) as client:
        client.log_in("canal", PASSWORD).subscribe()
    for user, password, plain, why in (
        ("canal", "other", False, "user or password is wrong"),
        ("root", PASSWORD, False, "user or password is wrong"),
        ("canal", PASSWORD, True, "is not scrambled"),
        ("canal", None, False, "is not scrambled"),
    ):
        with connection(served) as client:
            with pytest.raises(Refused, match=f"400 .*{why}"):
                client.log_in(user, password, plain=plain)
            with pytest.raises(ConnectionError):
                client.receive()


def test_nothing_is_answered_before_the_login(served: SharedShop):
    with (
        connection(served) as client,
        pytest.raises(Refused, match="A login is expected, not a packet of type SUB"),
    ):
        client.subscribe()


def test_a_client_without_a_login_and_an_idle_client_are_disconnected(served: SharedShop):
    with connection(served) as silent, pytest.raises(ConnectionError):
        silent.receive()
    with connection(served) as client:
        client.log_in("canal", PASSWORD)
        with pytest.raises(Refused, match=r"idle for 2 s"):
            client.acknowledged()


def test_one_connection_more_closes_the_oldest(served: SharedShop):
    clients = [connection(served).log_in("canal", PASSWORD) for _ in range(4)]
    with pytest.raises(ConnectionError):
        clients[0].receive()
    clients[3].subscribe()
    for client in clients:
        client.close()


def test_a_digest_stands_for_its_password_and_tls_encrypts(served: SharedShop, tmp_path: Path):
    authority = Authority(tmp_path)
    pair = authority.pair("canal")
    digest = tmp_path / "digest"
    digest.write_text("*" + sha1(sha1(PASSWORD.encode()).digest()).hexdigest().upper())
    options = {"user": "canal", "password_file": str(digest)}
    options |= {"ssl": {"cert": str(pair.cert), "key": str(pair.key)}}
    coordination = {"kind": "local"}
    with served.serve(
        canal={"port": 0, **options}, coordination=coordination, cursor={"kind": "memory"}
    ) as instance:
        tls = ssl.create_default_context(cafile=authority.ca)
        with RawClient(instance.canal_address, served.destination, tls=tls) as client:
            client.log_in("canal", PASSWORD)
        with pytest.raises((ConnectionError, TimeoutError)):
            RawClient(instance.canal_address, served.destination, wait_s=2.0)
