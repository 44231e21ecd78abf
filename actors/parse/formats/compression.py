"""Compression: single events that MariaDB packs (`log_bin_compress`), unpacked within bounds.

QUERY_COMPRESSED and the compressed rows: a byte of which bits 4 to 6 are the algorithm (0 zlib) and bits 0 to
2 say in how many bytes, the highest first, the unpacked size follows; then the zlib stream. MySQL packs whole
transactions instead, see `payload`.

Layout: `binlog_buf_compress` in MariaDB's log_event.cc.
"""

from __future__ import annotations

import zlib

from merge.errors import CorruptEvent, UnsupportedEvent

#: no event is larger: the servers' largest max_allowed_packet
EVENT_BYTES_MAX = 1 << 30
#: what zlib makes of one byte at most is 1032
RATIO_MAX = 1_040


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
    if size > len(packed) * RATIO_MAX:
        raise CorruptEvent(
            f"A compressed event of {len(packed)} bytes says that they become {size}, more than zlib can make"
            " of them.",
            hint="No server writes that: look at the source, and at what stands between it and here.",
        )
    unpacker = zlib.decompressobj()
    try:
        # One byte more than expected is asked for: a stream that goes on is seen, and not unpacked.
        data = unpacker.decompress(packed[1 + width :], size + 1)
    except zlib.error as error:
        raise CorruptEvent(f"A compressed event cannot be unpacked ({error}).") from error
    if len(data) != size or not unpacker.eof:
        raise CorruptEvent(f"A compressed event says {size} bytes and has another length.")
    return data
