"""Byte cursor: reads the parts of an event that are not rows; `native` reads the rows."""

from __future__ import annotations

from canal_group.merge.errors import CorruptEvent

#: first byte of a length-encoded integer -> how many follow
_PACKED_SIZES = {252: 2, 253: 3, 254: 8}


class ByteCursor:
    """Reads numbers and strings from bytes. A cursor is true while bytes remain.

    Every read raises CorruptEvent if too few bytes remain.

    Args:
        data: the bytes to read.
        at: offset at which reading begins.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        begin, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise CorruptEvent("The event ends inside a field.")
        return self.data[begin : self.at]

    def u8(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def packed(self) -> int:
        """Return a length-encoded integer of the protocol."""
        first = self.u8()
        if first < 251:  # noqa: PLR2004 - the largest that is a number itself is 250
            return first
        if first not in _PACKED_SIZES:
            raise CorruptEvent(f"A length-encoded integer begins with byte {first}, which none does.")
        return int.from_bytes(self.take(_PACKED_SIZES[first]), "little")

    def text(self) -> str:
        """Return a string that has its length-encoded size before it; replace invalid UTF-8."""
        return self.take(self.packed()).decode("utf-8", "replace")

    def __bool__(self) -> bool:
        return self.at < len(self.data)
