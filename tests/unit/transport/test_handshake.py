"""The handshake of RPC and of lent rows, without a connection."""

from __future__ import annotations

import pytest

from canal_group.shared_memory.handshake import (
    GREETING_BYTES,
    NONCE_BYTES,
    RESPONSE_BYTES,
    ClientHandshake,
    ServerHandshake,
    new_secret,
)

SECRET = new_secret()


def test_ends_that_know_the_secret_believe_each_other():
    client = ClientHandshake(SECRET)
    server = ServerHandshake(SECRET, client.hello)
    response = client.response(server.greeting)
    server.check(response)
    assert (len(client.hello), len(server.greeting)) == (NONCE_BYTES, GREETING_BYTES)
    assert len(response) == RESPONSE_BYTES
    assert SECRET not in client.hello + server.greeting + response


def test_an_end_with_another_secret_is_not_believed():
    client = ClientHandshake(SECRET)
    with pytest.raises(PermissionError):
        client.response(ServerHandshake(new_secret(), client.hello).greeting)
    for response in (bytes(RESPONSE_BYTES), new_secret(), b""):
        with pytest.raises(PermissionError):
            ServerHandshake(SECRET, client.hello).check(response)


def test_what_was_sent_in_another_handshake_is_not_believed():
    first, second = ClientHandshake(SECRET), ClientHandshake(SECRET)
    server = ServerHandshake(SECRET, first.hello)
    with pytest.raises(PermissionError):
        second.response(server.greeting)
    with pytest.raises(PermissionError):
        ServerHandshake(SECRET, first.hello).check(first.response(server.greeting))


def test_what_an_end_has_sent_is_not_believed_when_it_comes_back():
    client = ClientHandshake(SECRET)
    server = ServerHandshake(SECRET, client.hello)
    with pytest.raises(PermissionError):
        server.check(server.greeting[NONCE_BYTES:])
