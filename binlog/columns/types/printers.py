"""Printers: values that are stored as bytes, to the text that the server prints.

MariaDB's table maps call UUID and INET6 a BINARY(16), and INET4 a BINARY(4): only a table lookup knows what
they are, and without one they stay bytes. In the binlog a UUID's bytes are in the order of its text.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa

_WORDS = 8
#: words before the IPv4 address in an IPv6 address that holds one
_MAPPED, _COMPATIBLE = (0, 0, 0, 0, 0, 0xFFFF), (0, 0, 0, 0, 0, 0)


def printed(printer: Callable[[bytes], str], stored: Any) -> Any:
    """Return the text of a column; each distinct value is printed once.

    Args:
        printer: one of `PRINTERS`.
        stored: (n,) binary Array, all values of the type's size.
    """
    distinct = stored.dictionary_encode()
    texts = [None if value is None else printer(value) for value in distinct.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(distinct.indices, pa.array(texts, pa.utf8())).dictionary_decode()


def _uuid(value: bytes) -> str:
    return str(uuid.UUID(bytes=value))


def _inet4(value: bytes) -> str:
    return str(ipaddress.IPv4Address(value))


def _inet6(value: bytes) -> str:
    """Print an address as MariaDB does: a single zero word is left out too, unlike in RFC 5952."""
    words = tuple(int.from_bytes(value[at : at + 2], "big") for at in range(0, 16, 2))
    begin, size = _zeros(words)
    if words[:6] == _MAPPED or (words[:6] == _COMPATIBLE and words[6]):
        return ("::ffff:" if words[5] else "::") + _inet4(value[12:])
    groups = [f"{word:x}" for word in words]
    if not size:
        return ":".join(groups)
    return ":".join(groups[:begin]) + "::" + ":".join(groups[begin + size :])


def _zeros(words: tuple[int, ...]) -> tuple[int, int]:
    """Return where the first of the longest runs of zeros begins, and its length."""
    best = (0, 0)
    begin = 0
    for index in range(_WORDS):
        if words[index]:
            begin = index + 1
        elif index + 1 - begin > best[1]:
            best = begin, index + 1 - begin
    return best


#: type, as a column's metadata has it -> what prints a value
PRINTERS: dict[str, Callable[[bytes], str]] = {"uuid": _uuid, "inet4": _inet4, "inet6": _inet6}
