"""Compression: what servers pack, and how it is unpacked within bounds.

TRANSACTION_PAYLOAD (MySQL from 8.0.20 on, `binlog_transaction_compression`): fields of type, length and
number, each length-encoded: 1 the payload's bytes, 2 its compression (0 zstd, 255 none), 3 its bytes
unpacked; type 0 ends them. The payload is a run of events without checksums. Layout:
`Transaction_payload_event` in MySQL's control_events.h.

QUERY_COMPRESSED and the compressed rows of MariaDB (`log_bin_compress`): a byte of which bits 4 to 6 are the
algorithm (0 zlib) and bits 0 to 2 say in how many bytes, the highest first, the unpacked size follows; then
the zlib stream. Layout: `binlog_buf_compress` in MariaDB's log_event.cc.

Nothing is unpacked into more memory than one event takes, and no event is larger than EVENT_BYTES_MAX.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from merge.errors import CorruptEvent, UnsupportedEvent

#: no event is larger: the servers' largest max_allowed_packet
EVENT_BYTES_MAX = 1 << 30
#: bytes of a transaction's events unpacked; they are never held at once
PAYLOAD_BYTES_MAX = 16 << 30
_READ_BYTES = 1 << 20
_HEADER_SIZE = 19
_END, _SIZE, _COMPRESSION, _UNPACKED_SIZE = 0, 1, 2, 3
_ZSTD, _NONE = 0, 255
_SIZES = {252: 2, 253: 3, 254: 8}


class Payload(NamedTuple):
    """TRANSACTION_PAYLOAD: a transaction's events, packed."""

    compression: int
    unpacked_size: int
    data: memoryview

    def events(self) -> Iterator[bytes]:
        """Yield the events one by one, each with its header and without checksum.

        Raises:
            CorruptEvent: the bytes are no such stream, or not as long as they say.
        """
        read = _Unpacked(self)
        while True:
            header = read.take(_HEADER_SIZE)
            if not header:
                break
            size = struct.unpack_from("<I", header, 9)[0] if len(header) == _HEADER_SIZE else 0
            if not _HEADER_SIZE <= size <= EVENT_BYTES_MAX:
                raise CorruptEvent(f"An event of {size} bytes stands in a payload.")
            yield header + read.take(size - _HEADER_SIZE)
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
        CorruptEvent: its lengths do not fit.
        UnsupportedEvent: a compression that is not known, or more bytes than PAYLOAD_BYTES_MAX.
    """
    fields = {_COMPRESSION: _NONE}
    at = 0
    while True:
        field, at = _packed(body, at)
        if field == _END:
            break
        size, at = _packed(body, at)
        fields[field], end = _packed(body, at)
        at += size
        if end != at:
            raise CorruptEvent(f"Field {field} of a payload says {size} bytes and has another length.")
    data = memoryview(body)[at:]
    if fields.get(_SIZE) != len(data):
        raise CorruptEvent(f"A payload says {fields.get(_SIZE)} bytes and has {len(data)}.")
    compression, unpacked = fields[_COMPRESSION], fields.get(_UNPACKED_SIZE, len(data))
    if compression not in (_ZSTD, _NONE):
        raise UnsupportedEvent(f"Compression {compression} of a transaction is not known.")
    if unpacked > PAYLOAD_BYTES_MAX:
        raise UnsupportedEvent(
            f"A compressed transaction says {unpacked} bytes; {PAYLOAD_BYTES_MAX} are read at most."
        )
    return Payload(compression, unpacked, data)


def _packed(body: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded integer of the protocol, and where it ends."""
    first = body[at]
    if first < 251:  # noqa: PLR2004
        return first, at + 1
    size = _SIZES.get(first, 0)
    end = at + 1 + size
    if not size or end > len(body):
        raise CorruptEvent("A number in a payload's fields has no end.")
    return int.from_bytes(body[at + 1 : end], "little"), end


def unpack(packed: bytes) -> bytes:
    """Return what MariaDB packed into a query or a rows event.

    Raises:
        CorruptEvent: the bytes are no such stream, or not as long as they say.
        UnsupportedEvent: an algorithm that is not known.
    """
    head, width = packed[0], packed[0] & 0x07
    if head & 0x70:
        raise UnsupportedEvent(f"Compression {head >> 4 & 7} of an event is not known.")
    size = int.from_bytes(packed[1 : 1 + width], "big")
    if size > EVENT_BYTES_MAX:
        raise CorruptEvent(f"A compressed event says {size} bytes; none is so large.")
    unpacker = zlib.decompressobj()
    try:
        # One byte more than expected is asked for: a stream that goes on is seen, and not unpacked.
        data = unpacker.decompress(packed[1 + width :], size + 1)
    except zlib.error as error:
        raise CorruptEvent(f"A compressed event cannot be unpacked ({error}).") from error
    if len(data) != size or not unpacker.eof:
        raise CorruptEvent(f"A compressed event says {size} bytes and has another length.")
    return data
