"""Text of others, made safe to print: it can neither steer a terminal nor begin a line of its own.

Sources name tables and write error messages, callers name themselves. What is printed of that has no control
characters, no ends of lines, nothing that reorders text, and nothing that cannot be encoded.
"""

from __future__ import annotations

import re
from typing import Any, Final

#: controls of ASCII and of ISO 8859-1, ends of lines, overrides of direction, halves of surrogate pairs, and
#: what marks the order of bytes
UNPRINTABLE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def escaped(text: str) -> str:
    """Return a text with an escape, as Python writes it, for each character that must not be printed."""
    return UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def printable(value: Any) -> Any:
    """Return a JSON value whose texts are `escaped`, those of its keys too."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {printable(key): printable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [printable(each) for each in value]
    return value


def is_header_text(token: str) -> bool:
    """Return whether a token can be sent in a request's header."""
    return token.isascii() and token.isprintable() and token == token.strip()
