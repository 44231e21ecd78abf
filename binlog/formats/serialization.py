"""Serialization: MySQL's own format of numbered fields, which GTID_TAGGED events use.

A message holds its version, its size and the id of the last field that a reader must understand; then, in the
order of ids, the id and value of each field. Every number has a variable length: the trailing one bits of its
first byte count the bytes that follow, the other bits are the value, the lowest first. Signed numbers keep
their sign in the lowest bit. A text is its length and its bytes; an array of fixed length is its elements.

Layout: `libs/mysql/serialization/` in MySQL's source (readme and `variable_length_integers.h`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from canal_group.merge.errors import CorruptEvent, UnsupportedEvent

_VERSION = 1
_LONGEST = 8
_T = TypeVar("_T", int, bytes)


class Fields:
    """Reads the fields of one message; the caller of `ids` reads each field's value before the next id.

    Raises:
        CorruptEvent: from any method, if the message ends inside a value.
        UnsupportedEvent: on construction, if the message has another version.
    """

    def __init__(self, message: bytes) -> None:
        self._data = message
        self._at = 0
        self._end = len(message)
        version = self.unsigned()
        if version != _VERSION:
            raise UnsupportedEvent(f"Version {version} of MySQL's serialization format is not supported.")
        size = self.unsigned()
        if size > self._end:
            raise CorruptEvent(f"A message says {size} bytes, but has {self._end}.")
        self._end = size
        self._must_be_known = self.unsigned()

    def ids(self, known_max: int) -> Iterator[int]:
        """Yield the ids of the fields up to `known_max`; skip the later ones if that is allowed.

        Raises:
            UnsupportedEvent: a later field must be understood.
            CorruptEvent: the ids do not grow.
        """
        last = -1
        while self._at < self._end:
            number = self.unsigned()
            if number <= last:
                raise CorruptEvent(f"Field {number} comes after field {last}.")
            if number > known_max:
                if number <= self._must_be_known:
                    raise UnsupportedEvent(f"Field {number} of a GTID is not known, but must be understood.")
                return
            last = number
            yield number

    def unsigned(self) -> int:
        """Return a number without sign."""
        first = self._take(1)[0]
        more = (~first & (first + 1)).bit_length() - 1
        value = int.from_bytes(self._take(more), "little")
        return value if more == _LONGEST else (value << 8 | first) >> (more + 1)

    def signed(self) -> int:
        """Return a number with sign."""
        folded = self.unsigned()
        return folded >> 1 ^ -(folded & 1)

    def byte(self) -> int:
        """Return a number that fits a byte."""
        value = self.unsigned()
        if value > 0xFF:  # noqa: PLR2004
            raise CorruptEvent(f"A number is {value}, but must fit a byte.")
        return value

    def text(self) -> str:
        """Return a text."""
        return self._take(self.unsigned()).decode("utf-8")

    @staticmethod
    def require(value: _T, name: str) -> _T:
        """Return a value, which must have been among the fields.

        Raises:
            CorruptEvent: it was not.
        """
        if not value:
            raise CorruptEvent(f"A GTID lacks its {name}.")
        return value

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > self._end:
            raise CorruptEvent("A message ends inside a field.")
        return self._data[begin : self._at]
