"""What a token can be, so that a request carries it."""

from __future__ import annotations


def is_header_text(token: str) -> bool:
    """Return whether a request can carry a token in its header."""
    return token.isascii() and token.isprintable() and token == token.strip()
