"""Handshake: client and server prove to each other that they know a secret, which itself is never sent.

The client sends a nonce; the server answers with its own nonce and its response; then the client sends its
response. Neither end reads anything else before that. How the bytes travel is their connection's business.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

NONCE_BYTES = 16
RESPONSE_BYTES = hashlib.sha256().digest_size
#: the server's message: nonce and response
GREETING_BYTES = NONCE_BYTES + RESPONSE_BYTES
SECRET_BYTES = 32
#: how long it may take as a whole, together with connecting and TLS, seconds
GREETING_TIMEOUT_S = 5.0


def new_secret() -> bytes:
    """Return a new secret for both ends, `SECRET_BYTES` long."""
    return secrets.token_bytes(SECRET_BYTES)


class ClientHandshake:
    """The client's end of one handshake.

    Args:
        secret: what both ends know.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        #: what to send first: a nonce
        self.hello = secrets.token_bytes(NONCE_BYTES)

    def response(self, greeting: bytes) -> bytes:
        """Return the last message, to a server that has proved itself.

        Args:
            greeting: what it sent, `GREETING_BYTES` long.

        Raises:
            PermissionError: the server does not know the secret.
        """
        theirs = greeting[:NONCE_BYTES]
        _check(greeting[NONCE_BYTES:], _response(self._secret, b"server", self.hello, theirs))
        return _response(self._secret, b"client", self.hello, theirs)


class ServerHandshake:
    """The server's end of one handshake.

    Args:
        secret: what both ends know.
        hello: what the client sent, `NONCE_BYTES` long.
    """

    def __init__(self, secret: bytes, hello: bytes) -> None:
        mine = secrets.token_bytes(NONCE_BYTES)
        #: what to send
        self.greeting = mine + _response(secret, b"server", hello, mine)
        self._expected = _response(secret, b"client", hello, mine)

    def check(self, response: bytes) -> None:
        """Return if the client knows the secret.

        Args:
            response: what it sent last, `RESPONSE_BYTES` long.

        Raises:
            PermissionError: it does not.
        """
        _check(response, self._expected)


def _response(secret: bytes, end: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
    return hmac.digest(secret, end + client_nonce + server_nonce, "sha256")


def _check(shown: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(shown, expected):
        raise PermissionError("the other end does not know the secret")
