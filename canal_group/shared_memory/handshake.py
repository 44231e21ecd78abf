"""Proofs: two ends show each other that they know a secret, which itself never travels.

Whoever connects sends a nonce; the door answers with one of its own and its proof; then the caller proves
itself. Only after that is anything read that could do harm.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

NONCE_BYTES = 16
HANDSHAKE_BYTES = hashlib.sha256().digest_size
SECRET_BYTES = 32


def new_secret() -> bytes:
    """Return what both ends know."""
    return secrets.token_bytes(SECRET_BYTES)


def new_nonce() -> bytes:
    """Return what a proof is good for, once."""
    return secrets.token_bytes(NONCE_BYTES)


def server_response(secret: bytes, callers: bytes, doors: bytes) -> bytes:
    """Return the door's proof for the nonces of both."""
    return hmac.digest(secret, b"gateway_client" + callers + doors, "sha256")


def client_response(secret: bytes, callers: bytes, doors: bytes) -> bytes:
    """Return the caller's proof for the nonces of both."""
    return hmac.digest(secret, b"caller" + callers + doors, "sha256")


def check(shown: bytes, expected: bytes) -> None:
    """Return if a proof is the expected one.

    Raises:
        PermissionError: it is not.
    """
    if not hmac.compare_digest(shown, expected):
        raise PermissionError("the other end does not know the secret")
