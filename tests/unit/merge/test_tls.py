"""Contexts of TLS, by connections that use them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest
from support.security.certificates import Authority

from canal_group.merge.tls import TlsFileUnusable, client_context, server_context


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def meet(client, server, host="127.0.0.1"):
    """Let the ends of a connection do their handshakes, and the server send a byte."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.settimeout(10)

    def serve():
        with theirs, contextlib.suppress(OSError), server.wrap_socket(theirs, server_side=True) as encrypted:
            encrypted.send(b"!")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours, client.wrap_socket(ours, server_hostname=host) as encrypted:
            return encrypted.recv(1) == b"!"
    finally:
        thread.join()


def test_a_client_verifies_the_server_and_its_name(authority, tmp_path):
    pair = authority.pair("server")
    server = server_context(pair.cert, pair.key)
    assert meet(client_context(authority.ca), server)
    assert meet(client_context(ca_pem=authority.ca.read_text()), server)
    for client, host in (
        (client_context(), "127.0.0.1"),
        (client_context(Authority(tmp_path, "other").ca), "127.0.0.1"),
        (client_context(authority.ca), "127.0.0.2"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            meet(client, server, host)
    assert meet(client_context(unverified=True), server, "anything")


def test_a_server_verifies_clients_if_their_authority_is_given(authority, tmp_path):
    pair, ours = authority.pair("server"), authority.pair("ours", of_consumer=True)
    foreign = Authority(tmp_path, "other").pair("foreign", of_consumer=True)
    server = server_context(pair.cert, pair.key, authority.ca)
    assert meet(client_context(authority.ca, ours.cert, ours.key), server)
    for files in ((), (foreign.cert, foreign.key)):
        with pytest.raises(OSError, match=r"(?i)certificate|reset|eof|unknown"):
            meet(client_context(authority.ca, *files), server)


def test_a_file_that_cannot_be_used_is_named(authority, tmp_path):
    pair, other, junk, nothing = (
        authority.pair("a"),
        authority.pair("b"),
        tmp_path / "junk",
        tmp_path / "none",
    )
    junk.write_text("no PEM")
    for part, why, make in (
        ("ca", "cannot be read (No such file or directory)", lambda: client_context(nothing)),
        ("ca", "cannot be used (no certificate or crl found)", lambda: client_context(junk)),
        ("cert", "cannot be used (no certificate or crl found)", lambda: server_context(junk, pair.key)),
        ("cert", "cannot be read (No such file or directory)", lambda: server_context(nothing, pair.key)),
        ("key", "cannot be used (key values mismatch)", lambda: client_context(None, pair.cert, other.key)),
        ("ca", "cannot be read (No such file or directory)", lambda: server_context(*_of(pair), nothing)),
    ):
        with pytest.raises(TlsFileUnusable) as told:
            make()
        assert (told.value.part, str(told.value)) == (part, why)


def _of(pair):
    return pair.cert, pair.key
