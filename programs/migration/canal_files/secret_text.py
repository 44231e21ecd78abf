"""Secret text: which of canal's entries hold secrets, and a text as it may be shown."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = (
    "passw",
    "pwd",
    "secret",
    "accesskey",
    "token",
    "credential",
    "jaas.config",
    "publickey",
    "keystore.key",
)
#: what stands before the at sign of a URI, or of an address: `scheme://user:password@`, `user:password@`
_USER_OF_URI = re.compile(r"(?:(?<=://).*|\S*)@", re.DOTALL)
#: a parameter with the name of a secret
_PARAMETER = re.compile(r"(passw|pwd|secret|token|access_?key)\w*\s*[=:]", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Return whether the value of a key is not to be shown."""
    return any(word in key.lower() for word in _WORDS)


def masked(text: str) -> str:
    """Return a text without the secrets that it may hold: all of it, or the user of a URI."""
    return "(not shown)" if _PARAMETER.search(text) else _USER_OF_URI.sub("***@", text)
