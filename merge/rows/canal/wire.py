"""Fields of a protobuf message, for bytes that are written once and repeated for many rows.

A message of rows is written by `canal_group.merge.rows.native.canal`; clients read it with the protobuf
library.
"""

from __future__ import annotations

_VARINT, _LENGTH = 0, 2
_CONTINUED = 0x80


def varint(value: int) -> bytes:
    """Return a whole number, `-2**63 <= value < 2**64`; a negative one takes ten bytes."""
    rest, digits = value & (1 << 64) - 1, bytearray()
    while rest >= _CONTINUED:
        digits.append(rest & _CONTINUED - 1 | _CONTINUED)
        rest >>= 7
    digits.append(rest)
    return bytes(digits)


def number(field: int, value: int) -> bytes:
    """Return a field with a number; nothing for 0, which a message without the field means."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def text(field: int, value: str) -> bytes:
    """Return a field with a text; nothing for an empty one, which a message without the field means."""
    data = value.encode()
    return varint(field << 3 | _LENGTH) + varint(len(data)) + data if data else b""
