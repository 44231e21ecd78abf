"""Handshake: client and server prove to each other that they know a secret, which itself is never sent.

The client sends a nonce; the server answers with its own nonce and its response; then the client sends its
response. Neither end reads anything else before that.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

NONCE_BYTES = 16
HANDSHAKE_BYTES = hashlib.sha256().digest_size
SECRET_BYTES = 32


def new_secret() -> bytes:
    """Return a new secret for both ends, `SECRET_BYTES` long."""
    return secrets.token_bytes(SECRET_BYTES)


def new_nonce() -> bytes:
    """Return a new nonce: a response is valid for one nonce of each end."""
    return secrets.token_bytes(NONCE_BYTES)


def server_response(secret: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
    """Return the server's response to the nonces of both ends."""
    return hmac.digest(secret, b"server" + client_nonce + server_nonce, "sha256")


def client_response(secret: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
    """Return the client's response to the nonces of both ends."""
    return hmac.digest(secret, b"client" + client_nonce + server_nonce, "sha256")


def check(shown: bytes, expected: bytes) -> None:
    """Return if a response is the expected one.

    Raises:
        PermissionError: it is not.
    """
    if not hmac.compare_digest(shown, expected):
        raise PermissionError("the other end does not know the secret")
