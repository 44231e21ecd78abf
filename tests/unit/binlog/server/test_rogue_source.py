"""What a source that is not the one it should be, or somebody on the way to it, gets to see."""

from __future__ import annotations

import contextlib
import dataclasses
from base64 import b64decode
from collections.abc import Callable, Sequence

import pymysql
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from support.defaults import address_of
from support.security.certificates import Authority
from support.security.rogue_server import OK, PUBLIC_KEY, SALT, Wire, rogue
from support.security.rogue_server import login as let_in

from canal_group.binlog.server import login
from canal_group.binlog.server.answers import Row
from canal_group.binlog.server.password import RenewedPassword
from canal_group.binlog.server.preflight.preflight import preflight
from canal_group.binlog.server.server_lookup import ServerLookup
from canal_group.binlog.server.source import SourceAddress, connect, query, query_one
from canal_group.merge.errors import CanalGroupError, SourceUnfit
from canal_group.programs.command.binlog.tool import server_at

PASSWORD = "hunter2-hunter2"
DENIED = b"\xff\x15\x04#28000Access denied"
BLIND = {"ca": None, "cert": None, "key": None, "verify": False}


def address(server, **changes) -> SourceAddress:
    fields = {"name": "s1", "host": "127.0.0.1", "port": server.port, "user": "canal", "password": PASSWORD}
    return address_of(**{**fields, "server_id": 9, "read_timeout_s": 5.0, **changes})


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def far(monkeypatch):
    """Loopback is taken for another machine."""
    monkeypatch.setattr("canal_group.binlog.server.login.is_loopback", lambda _: False)


# ---- tricks: each learns the password of a client that plays along


def clear(wire: Wire) -> None:
    wire.switch("mysql_clear_password", b"")
    let_in(wire)


def dialog(wire: Wire) -> None:
    wire.switch("dialog", b"\x05Password: ")
    let_in(wire)


def old(wire: Wire) -> None:
    wire.switch("mysql_old_password", SALT[:8] + b"\0")
    let_in(wire)


def sha256_by_key(wire: Wire) -> None:
    if wire.switch("sha256_password") == b"\x01":
        wire.decrypted(wire.more(PUBLIC_KEY))
    let_in(wire)


def caching_sha2_by_key(wire: Wire) -> None:
    wire.switch("caching_sha2_password")
    full_by_key(wire)


def full_by_key(wire: Wire) -> None:
    if wire.more(b"\x04") == b"\x02":
        wire.decrypted(wire.more(PUBLIC_KEY))
    let_in(wire)


def caching_sha2_fast(wire: Wire) -> None:
    wire.switch("caching_sha2_password")
    wire.send(b"\x01\x03")
    let_in(wire)


def caching_sha2_in_tls(wire: Wire) -> None:
    wire.switch("caching_sha2_password")
    wire.more(b"\x04")
    let_in(wire)


def as_greeted(wire: Wire) -> None:
    let_in(wire)


def key_as_greeted(wire: Wire) -> None:
    wire.decrypted(wire.more(PUBLIC_KEY))
    let_in(wire)


SHOWING = (clear, dialog, sha256_by_key, caching_sha2_by_key)


@pytest.mark.parametrize("trick", [*SHOWING, old])
def test_without_tls_no_plugin_that_shows_the_password_is_played(trick, far):
    with rogue(trick) as server:
        with pytest.raises(SourceUnfit) as refused:
            connect(address(server))
        assert not server.knows(PASSWORD)
        assert PASSWORD not in f"{refused.value!r} {refused.value}"
    assert "ssl" in refused.value.hint or trick is old
    assert len(server.heard) == 2 if trick is caching_sha2_by_key else 1, "nothing but the first answer"


@pytest.mark.parametrize("trick", [clear, dialog, old])
def test_nor_is_it_on_loopback(trick):
    with rogue(trick) as server:
        with pytest.raises(SourceUnfit):
            connect(address(server))
        assert not server.knows(PASSWORD)
        assert len(server.heard) == 1


@pytest.mark.parametrize("trick", [sha256_by_key, caching_sha2_by_key])
def test_a_server_on_loopback_may_send_its_password_key(trick):
    with rogue(trick) as server:
        connect(address(server)).close()
        assert server.knows(PASSWORD), "the trick works on whoever trusts it"


@pytest.mark.parametrize(
    ("plugin", "trick"),
    [("sha256_password", key_as_greeted), ("caching_sha2_password", full_by_key)],
)
def test_a_greeting_cannot_bypass_the_check(plugin, trick, far):
    with rogue(trick, plugin=plugin) as server:
        with pytest.raises(SourceUnfit, match="asks for the password itself"):
            connect(address(server))
        assert not server.knows(PASSWORD)


@pytest.mark.parametrize("trick", [as_greeted, caching_sha2_fast])
def test_what_shows_no_password_lets_in(trick, far):
    with rogue(trick) as server:
        connect(address(server)).close()
        assert not server.knows(PASSWORD)


def test_the_challenge_of_ed25519_is_answered_as_mariadb_verifies_it(far):
    """The public key is what MariaDB's PASSWORD('secret') keeps for VIA ed25519, as its manual shows it."""
    key = Ed25519PublicKey.from_public_bytes(b64decode("ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY="))
    challenge = bytes(range(32))

    def verify(wire: Wire) -> None:
        with contextlib.suppress(InvalidSignature):
            key.verify(wire.switch("client_ed25519", challenge), challenge)
            let_in(wire)
        wire.send(DENIED)

    with rogue(verify) as server:
        connect(address(server, password="secret")).close()
        with pytest.raises(SourceUnfit, match="Access denied"):
            connect(address(server, password="another"))
        assert not server.knows("secret")


# ---- TLS


@pytest.mark.parametrize("ssl", [BLIND, {**BLIND, "verify": True}])
def test_ssl_means_tls_or_no_connection(ssl):
    with rogue() as server:
        with pytest.raises(SourceUnfit, match="offers no TLS") as refused:
            connect(address(server, ssl=ssl))
        assert "have_ssl" in refused.value.hint
        assert server.heard == [], "not even the user's name"


def test_without_verifying_it_is_encrypted(authority):
    with rogue(pair=authority.pair("any")) as server:
        connect(address(server, ssl=BLIND)).close()
        assert server.encrypted


def test_a_driver_that_goes_on_without_tls_is_not_believed(authority, monkeypatch):
    """Another version of the driver may do otherwise: what counts is the socket."""
    monkeypatch.setattr(pymysql.connections.Connection, "_request_authentication", lambda _: None)
    with (
        rogue(pair=authority.pair("any")) as server,
        pytest.raises(SourceUnfit, match="offers no TLS"),
    ):
        connect(address(server, ssl=BLIND))


def test_a_verifying_client_meets_the_host_it_named(authority):
    """Also without `ca`: that the certificate is any public authority's does not do."""
    pair = authority.pair("other", host="127.0.0.2")
    ssl = {"ca": str(authority.ca), "verify": True}
    with rogue(pair=pair) as server, pytest.raises(SourceUnfit, match="certificate that is not trusted"):
        connect(address(server, ssl=ssl))
    context = login.tls_context({**ssl, "ca": None})
    assert context.check_hostname


def test_binlog_lookup_uses_tls_with_given_authorities(authority):
    with rogue(pair=authority.pair("server")) as server:
        connect(server_at(f"canal@127.0.0.1:{server.port}", PASSWORD, authority.ca)).close()
        assert server.encrypted
    with rogue() as server:
        with pytest.raises(SourceUnfit, match="offers no TLS"):
            connect(server_at(f"canal@127.0.0.1:{server.port}", PASSWORD, authority.ca))
        assert server.heard == []


@pytest.mark.parametrize(
    ("trick", "clear_password"), [(clear, True), (dialog, True), (caching_sha2_in_tls, False)]
)
def test_within_tls_the_password_may_be_asked_for(trick, clear_password, authority):
    ssl = {"ca": str(authority.ca), "verify": True}
    with rogue(trick, pair=authority.pair("server")) as server:
        connect(address(server, ssl=ssl, clear_password=clear_password)).close()
        assert server.knows(PASSWORD)


@pytest.mark.parametrize("trick", [clear, dialog])
@pytest.mark.parametrize(("clear_password", "verify"), [(False, True), (True, False)])
def test_clear_text_takes_a_setting_and_a_verified_server(trick, clear_password, verify, authority):
    ssl = {"ca": str(authority.ca), "verify": verify}
    with rogue(trick, pair=authority.pair("server")) as server:
        with pytest.raises(SourceUnfit, match="asks for the password in clear text") as refused:
            connect(address(server, ssl=ssl, clear_password=clear_password))
        assert "clear_password: true" in refused.value.hint
        assert not server.knows(PASSWORD)


def test_a_token_that_is_longer_than_255_bytes_is_sent_whole(authority, tmp_path):
    """As those of clouds are; the file is read when the connection is opened."""
    token = "t0ken" * 500
    (tmp_path / "token").write_text(f"{token}\nnot part of it\n")
    renewed = RenewedPassword(file=str(tmp_path / "token"), timeout_s=5, lifetime_s=0)
    ssl = {"ca": str(authority.ca), "verify": True}
    with rogue(clear, pair=authority.pair("server")) as server:
        connect(address(server, ssl=ssl, clear_password=True, password=renewed)).close()
        assert token.encode() + b"\0" in server.heard


# ---- files of ours


@pytest.mark.parametrize("trick", ["connect", "query"])
def test_a_request_for_a_file_is_refused_in_a_sentence(trick, tmp_path):
    file = tmp_path / "secret"
    file.write_text(PASSWORD)

    def infile(wire: Wire) -> None:
        wire.send(OK)
        while True:
            command = wire.receive()
            if trick == "connect" or b"SHOW" in command:
                wire.send(b"\xfb" + str(file).encode())
            else:
                wire.send(OK)

    with rogue(infile) as server:
        with pytest.raises(SourceUnfit, match="does not follow the protocol"):
            query(address(server), connect(address(server)), "SHOW x")
        assert not server.knows(PASSWORD)
        able = int.from_bytes(server.heard[0][:4], "little")
        assert not able & 0x80, "CLIENT_LOCAL_FILES is not offered"


@pytest.mark.parametrize("greeting", [b"", b"\x0a", b"\x0aabc\0" + bytes(60), b"\xff", bytes(4)])
def test_garbage_is_an_error_of_ours(greeting):
    with rogue() as server:
        server._greet = lambda wire: wire.send(greeting)
        with pytest.raises(CanalGroupError):
            connect(address(server))


# ---- answers that no server gives


def answering(rows: Sequence[bytes]) -> Callable[[Wire], None]:
    """A server that lets everybody in, and answers every statement with the same packets."""

    def answer(wire: Wire) -> None:
        wire.send(OK)
        while True:
            wire.receive()
            for packet in rows:
                wire.send(packet)

    return answer


def test_an_ok_packet_instead_of_rows_is_refused():
    with rogue(answering([OK])) as server, pytest.raises(SourceUnfit, match="no column server_id"):
        preflight(address(server))


def test_an_answer_without_a_row_is_an_error_of_ours():
    with rogue(answering([OK])) as server:
        where = address(server)
        with contextlib.closing(connect(where)) as open_one, pytest.raises(SourceUnfit, match="has no row"):
            query_one(where, open_one, "SELECT 1")


@pytest.mark.parametrize("value", [None, "x", b"\xff"])
def test_a_malformed_number_from_a_source_is_our_error(value):
    with pytest.raises(SourceUnfit, match="not a number"):
        Row({"Position": value}, SourceUnfit).number("Position")


# ---- who connects


@pytest.mark.parametrize(
    "ask",
    [
        preflight,
        lambda where: ServerLookup(where, connect(where)).columns("shop", "orders"),
        lambda where: connect(
            dataclasses.replace(server_at(f"canal@127.0.0.1:{where.port}", PASSWORD), connect_timeout_s=5.0)
        ),
    ],
    ids=["check", "lookup", "binlog --lookup"],
)
def test_every_kind_of_connection_keeps_the_password(ask):
    with rogue(clear) as server:
        with pytest.raises(SourceUnfit, match="asks for the password itself"):
            ask(address(server))
        assert not server.knows(PASSWORD)
