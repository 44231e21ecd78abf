"""Payload: a transaction's events, compressed into one event.

TRANSACTION_PAYLOAD (MySQL from 8.0.20 on, `binlog_transaction_compression`) begins with fields of type,
length and number, each length-encoded: 1 the payload's bytes, 2 its compression (0 zstd, 255 none), 3 its
bytes unpacked. Type 0 ends them. The payload is a run of events without checksums.

It is unpacked while it is read, so memory holds only one of its events. The number of events is bounded in
proportion to the compressed bytes: each event costs time, and a few kilobytes could hold millions.

Layout: `Transaction_payload_event` in MySQL's control_events.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from canal_group.binlog.formats.byte_cursor import ByteCursor
from canal_group.binlog.formats.compression import EVENT_BYTES_MAX
from canal_group.binlog.formats.event_types import EventType, type_name
from canal_group.binlog.formats.events import HEADER_SIZE, Event, parse_header
from canal_group.merge.errors import CorruptEvent, UnsupportedEvent

#: unpacked bytes of a transaction's events; they are never in memory at once
PAYLOAD_BYTES_MAX = 16 << 30
#: most unpacked bytes for each packed byte of zstd: a block of 128 KiB takes 4 bytes or more
RATIO_MAX = 1 << 15
_BLOCK_BYTES = 128 << 10
#: events that a payload may hold: a fixed number, and some for each of its bytes. A million equal statements
#: with a row of one column come to 270 or 300 events for each byte; fewer statements come to less
EVENTS_FREE = 1 << 14
EVENTS_PER_BYTE = 384
_READ_BYTES = 1 << 20
_TOO_MUCH_HINT = (
    "Inspect the transaction on the source (mysqlbinlog, from that offset). If it is intended, write it in"
    " smaller transactions, or with binlog_transaction_compression=OFF."
)
_END, _SIZE, _COMPRESSION, _UNPACKED_SIZE = 0, 1, 2, 3
_ZSTD, _NONE = 0, 255
#: events that a payload never holds: they concern files, or the payload itself
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
    """TRANSACTION_PAYLOAD: a transaction's events, compressed."""

    compression: int
    unpacked_size: int
    data: memoryview

    def events(self) -> Iterator[bytes]:
        """Yield the events one by one, each with its header and without checksum.

        Raises:
            CorruptEvent: the bytes cannot be unpacked, or their length is not the announced one.
            UnsupportedEvent: they hold more events than the bound for this number of bytes.
        """
        read = _Unpacked(self)
        remaining = bound = EVENTS_FREE + EVENTS_PER_BYTE * len(self.data)
        while True:
            header = read.take(HEADER_SIZE)
            if not header:
                break
            remaining -= 1
            if remaining < 0:
                raise UnsupportedEvent(
                    f"A compressed transaction of {len(self.data)} bytes holds more than {bound} events.",
                    hint=_TOO_MUCH_HINT,
                )
            size = struct.unpack_from("<I", header, 9)[0] if len(header) == HEADER_SIZE else 0
            if not HEADER_SIZE <= size <= EVENT_BYTES_MAX:
                raise CorruptEvent(f"A payload holds an event of {size} bytes, which is impossible.")
            yield header + read.take(size - HEADER_SIZE)
        if read.count != self.unpacked_size:
            raise CorruptEvent(f"A payload says {self.unpacked_size} unpacked bytes, but has {read.count}.")


class _Unpacked:
    """Reads a payload's unpacked bytes in blocks; never more of them than the payload says."""

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
                raise CorruptEvent(f"A payload says {self._size} unpacked bytes, but has more.")
            size -= len(part)
            parts.append(part)
        return b"".join(parts)


def parse_payload(body: bytes) -> Payload:
    """Return a TRANSACTION_PAYLOAD event's content; nothing is unpacked yet.

    Raises:
        CorruptEvent: its lengths do not fit, or exceed what the compression can produce of so few bytes.
        UnsupportedEvent: the compression is unknown, or there are more bytes than PAYLOAD_BYTES_MAX.
    """
    fields = {_COMPRESSION: _NONE}
    cursor = ByteCursor(body)
    while (field := cursor.packed()) != _END:
        end = cursor.packed() + cursor.at
        fields[field] = cursor.packed()
        if cursor.at != end:
            raise CorruptEvent(f"Field {field} of a payload does not have the length that it says.")
    data = memoryview(body)[cursor.at :]
    if fields.get(_SIZE) != len(data):
        raise CorruptEvent(f"A payload says {fields.get(_SIZE)} bytes, but has {len(data)}.")
    compression, unpacked = fields[_COMPRESSION], fields.get(_UNPACKED_SIZE, len(data))
    if compression not in (_ZSTD, _NONE):
        raise UnsupportedEvent(f"Compression algorithm {compression} of a transaction is not known.")
    if unpacked > PAYLOAD_BYTES_MAX:
        raise UnsupportedEvent(
            f"A compressed transaction says that it unpacks to {unpacked} bytes; the limit is"
            f" {PAYLOAD_BYTES_MAX}.",
            hint=_TOO_MUCH_HINT,
        )
    if unpacked > len(data) * RATIO_MAX + _BLOCK_BYTES:
        raise CorruptEvent(
            f"A compressed transaction of {len(data)} bytes says that it unpacks to {unpacked} bytes, more"
            " than zstd can produce.",
            hint="No server writes that: check the source, and proxies on the way to it.",
        )
    return Payload(compression, unpacked, data)


def inner_events(event: Event) -> Iterator[Event]:
    """Yield the events of a TRANSACTION_PAYLOAD.

    Raises:
        CorruptEvent, UnsupportedEvent: see `parse_payload`; or an event is not allowed in a payload.
    """
    for each in parse_payload(event.body).events():
        header = parse_header(each)
        if header.event_type in _NOT_IN_PAYLOAD:
            raise CorruptEvent(f"A payload must not hold events of type {type_name(header.event_type)}.")
        yield event._replace(
            type=header.event_type, timestamp=header.timestamp, body=each[HEADER_SIZE:], flags=header.flags
        )
