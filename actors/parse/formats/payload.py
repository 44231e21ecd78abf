"""Payload: a transaction's events, packed into one event.

TRANSACTION_PAYLOAD (MySQL from 8.0.20 on, `binlog_transaction_compression`): fields of type, length and
number, each length-encoded: 1 the payload's bytes, 2 its compression (0 zstd, 255 none), 3 its bytes
unpacked; type 0 ends them. The payload is a run of events without checksums.

It is unpacked as it is read: what is held is one of its events. How many there may be is bounded by the bytes
that came: each costs a reader time, and a few kilobytes could hold millions.

Layout: `Transaction_payload_event` in MySQL's control_events.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from actors.parse.formats.byte_cursor import ByteCursor
from actors.parse.formats.compression import EVENT_BYTES_MAX
from actors.parse.formats.event_types import EventType, type_name
from actors.parse.formats.events import HEADER_SIZE, Event, parse_header
from merge.errors import CorruptEvent, UnsupportedEvent

#: bytes of a transaction's events unpacked; they are never held at once
PAYLOAD_BYTES_MAX = 16 << 30
#: what zstd makes of one byte at most: a block of 128 KiB takes 4 bytes or more
RATIO_MAX = 1 << 15
_BLOCK_BYTES = 128 << 10
#: events of a payload, however few its bytes are, and for each of its bytes. A million statements that are
#: all the same, of a row of one column, come to 270 or 300 a byte, and fewer of them to less
EVENTS_FREE = 1 << 14
EVENTS_PER_BYTE = 384
_READ_BYTES = 1 << 20
_TOO_MUCH_HINT = (
    "Look on the source what the transaction is (mysqlbinlog, from that offset). If it is meant, write it in"
    " smaller transactions, or with binlog_transaction_compression=OFF."
)
_END, _SIZE, _COMPRESSION, _UNPACKED_SIZE = 0, 1, 2, 3
_ZSTD, _NONE = 0, 255
#: events that a payload never holds: they are about files, or about the payload itself
_NOT_IN_PAYLOAD = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.ROTATE,
        EventType.GTID,
        EventType.GTID_TAGGED,
        EventType.ANONYMOUS_GTID,
        EventType.TRANSACTION_PAYLOAD,
    }
)


class Payload(NamedTuple):
    """TRANSACTION_PAYLOAD: a transaction's events, packed."""

    compression: int
    unpacked_size: int
    data: memoryview

    def events(self) -> Iterator[bytes]:
        """Yield the events one by one, each with its header and without checksum.

        Raises:
            CorruptEvent: the bytes are no such stream, or not as long as they say.
            UnsupportedEvent: they hold more events than their number lets one expect.
        """
        read = _Unpacked(self)
        left = bound = EVENTS_FREE + EVENTS_PER_BYTE * len(self.data)
        while True:
            header = read.take(HEADER_SIZE)
            if not header:
                break
            left -= 1
            if left < 0:
                raise UnsupportedEvent(
                    f"A compressed transaction of {len(self.data)} bytes holds more than {bound} events.",
                    hint=_TOO_MUCH_HINT,
                )
            size = struct.unpack_from("<I", header, 9)[0] if len(header) == HEADER_SIZE else 0
            if not HEADER_SIZE <= size <= EVENT_BYTES_MAX:
                raise CorruptEvent(f"An event of {size} bytes stands in a payload.")
            yield header + read.take(size - HEADER_SIZE)
        if read.count != self.unpacked_size:
            raise CorruptEvent(f"A payload says {self.unpacked_size} bytes and has {read.count}.")


class _Unpacked:
    """Reads a payload's bytes unpacked, in blocks; never more of them than it says."""

    def __init__(self, payload: Payload) -> None:
        stream: Any = pa.BufferReader(pa.py_buffer(payload.data))
        self._stream = stream if payload.compression == _NONE else pa.CompressedInputStream(stream, "zstd")
        self._size = payload.unpacked_size
        self.count = 0

    def take(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self._stream.read(min(size, _READ_BYTES))
            except (pa.ArrowException, OSError) as error:
                raise CorruptEvent(f"A payload cannot be unpacked ({error}).") from error
            if not part:
                break
            self.count += len(part)
            if self.count > self._size:
                raise CorruptEvent(f"A payload says {self._size} bytes and has more.")
            size -= len(part)
            parts.append(part)
        return b"".join(parts)


def parse_payload(body: bytes) -> Payload:
    """Return a TRANSACTION_PAYLOAD event's content; nothing is unpacked yet.

    Raises:
        CorruptEvent: its lengths do not fit, or are more than their compression can make of so few bytes.
        UnsupportedEvent: a compression that is not known, or more bytes than PAYLOAD_BYTES_MAX.
    """
    fields = {_COMPRESSION: _NONE}
    cursor = ByteCursor(body)
    while (field := cursor.packed()) != _END:
        end = cursor.packed() + cursor.at
        fields[field] = cursor.packed()
        if cursor.at != end:
            raise CorruptEvent(f"Field {field} of a payload is not as long as it says.")
    data = memoryview(body)[cursor.at :]
    if fields.get(_SIZE) != len(data):
        raise CorruptEvent(f"A payload says {fields.get(_SIZE)} bytes and has {len(data)}.")
    compression, unpacked = fields[_COMPRESSION], fields.get(_UNPACKED_SIZE, len(data))
    if compression not in (_ZSTD, _NONE):
        raise UnsupportedEvent(f"Compression {compression} of a transaction is not known.")
    if unpacked > PAYLOAD_BYTES_MAX:
        raise UnsupportedEvent(
            f"A compressed transaction says {unpacked} bytes; {PAYLOAD_BYTES_MAX} are read at most.",
            hint=_TOO_MUCH_HINT,
        )
    if unpacked > len(data) * RATIO_MAX + _BLOCK_BYTES:
        raise CorruptEvent(
            f"A compressed transaction of {len(data)} bytes says that they become {unpacked}, more than zstd"
            " can make of them.",
            hint="No server writes that: look at the source, and at what stands between it and here.",
        )
    return Payload(compression, unpacked, data)


def inner_events(event: Event) -> Iterator[Event]:
    """Yield the events of a TRANSACTION_PAYLOAD.

    Raises:
        CorruptEvent, UnsupportedEvent: see `parse_payload`; or one of them has no place there.
    """
    for each in parse_payload(event.body).events():
        header = parse_header(each)
        if header.event_type in _NOT_IN_PAYLOAD:
            raise CorruptEvent(f"A payload holds an event of type {type_name(header.event_type)}.")
        yield event._replace(
            type=header.event_type, timestamp=header.timestamp, body=each[HEADER_SIZE:], flags=header.flags
        )
