"""Row fragments: MariaDB's rows events that are larger than `binlog_row_event_fragment_threshold`.

MariaDB 12.3 and later write such an event as a group of PARTIAL_ROW_DATA events, without other events between
them. Body of each: number of fragments u32, its own number from 1 on u32, flags u8, in the first one the size
of the whole event u64, and a part of the event. The joined parts are the rows event with its header.

Layout: "PARTIAL_ROW_DATA_EVENT" in MariaDB's documentation.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from canal_group.binlog.formats.event_types import ROWS_V1, ROWS_V2, UNPACKED_ROWS, type_name
from canal_group.binlog.formats.events import CHECKSUM_SIZE, HEADER_SIZE, EventHeader, header_of
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent

#: size of the largest rows event that is joined, bytes: as large as one that comes in one piece
JOINED_BYTES_MAX: Final = 1 << 30

_HEAD: Final = struct.Struct("<IIB")
_SIZE: Final = struct.Struct("<Q")
_HAS_SIZE: Final = 0x01
_JOINED: Final = ROWS_V1 | ROWS_V2 | UNPACKED_ROWS.keys()


class RowFragments:
    """Joins the fragments of one rows event at a time.

    Args:
        bytes_max: size of the largest event that is joined.
    """

    def __init__(self, bytes_max: int = JOINED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        #: bytes of the parts, bytes of the whole event, and how many fragments it has
        self._held = self._size = self._count = 0

    @property
    def open(self) -> bool:
        """Whether a group of fragments has begun and not ended."""
        return bool(self._parts)

    def drop(self) -> None:
        """Forget an incomplete group: its file ends before the transaction does."""
        self._parts.clear()
        self._held = 0

    def add(self, body: bytes) -> tuple[EventHeader, bytes] | None:
        """Take the next fragment; return the header and body of the rows event after its last one, else None.

        Raises:
            CorruptEvent: a fragment is missing, repeated or out of order, or the parts are not a rows
                event of the announced size.
            UnsupportedEvent: the event is larger than `bytes_max`.
        """
        count, number, flags = _HEAD.unpack_from(body)
        at = _HEAD.size
        expected = len(self._parts) + 1
        if number != expected:
            raise CorruptEvent(f"Fragment {number} of a rows event comes where {expected} was expected.")
        if bool(flags & _HAS_SIZE) != (number == 1) or flags & ~_HAS_SIZE:
            raise CorruptEvent(f"Fragment {number} of a rows event has impossible flags: {flags:#04x}.")
        if number == 1:
            (self._size,) = _SIZE.unpack_from(body, at)
            at += _SIZE.size
            self._count = count
            self._require_possible()
        elif count != self._count:
            raise CorruptEvent(
                f"Fragment {number} says that it is one of {count}, the first one {self._count}."
            )
        part = body[at:]
        self._held += len(part)
        if not part or self._held > self._size:
            raise CorruptEvent(
                f"Fragment {number} of {count} has {len(part)} bytes, after which there are {self._held} of "
                f"{self._size}."
            )
        self._parts.append(part)
        return self._joined() if number == count else None

    def require_ended(self) -> None:
        """Return if no group is open, because another event follows.

        Raises:
            CorruptEvent: the last fragments are missing.
        """
        if self._parts:
            raise CorruptEvent(
                f"Another event comes after fragment {len(self._parts)} of {self._count} of a rows event."
            )

    def _require_possible(self) -> None:
        if self._size > self._bytes_max:
            raise UnsupportedEvent(
                f"A rows event in fragments has {self._size} bytes; at most {self._bytes_max} are joined.",
                hint="Change fewer or smaller rows in one statement, and start after this transaction.",
            )
        if self._size < HEADER_SIZE or not 0 < self._count <= self._size:
            raise CorruptEvent(f"A rows event of {self._size} bytes cannot have {self._count} fragments.")

    def _joined(self) -> tuple[EventHeader, bytes]:
        whole, size = b"".join(self._parts), self._size
        self.drop()
        if len(whole) != size:
            raise CorruptEvent(f"The fragments of a rows event have {len(whole)} bytes together, not {size}.")
        header = header_of(whole)
        if header.event_type not in _JOINED or header.size not in (size, size + CHECKSUM_SIZE):
            raise CorruptEvent(
                f"The fragments of a rows event are a {type_name(header.event_type)} of {header.size} bytes, "
                f"but have {size}."
            )
        # Each fragment has a checksum of its own. One of the whole event is recognised by its value.
        body = whole[HEADER_SIZE:]
        checksum = zlib.crc32(memoryview(whole)[:-CHECKSUM_SIZE]).to_bytes(CHECKSUM_SIZE, "little")
        return header, body[:-CHECKSUM_SIZE] if body.endswith(checksum) else body
