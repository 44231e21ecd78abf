"""The texts that can be tokens."""

from __future__ import annotations


def is_header_text(token: str) -> bool:
    """Return whether a token can be sent in a request's header."""
    return token.isascii() and token.isprintable() and token == token.strip()
