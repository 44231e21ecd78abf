"""Compression: unpacks, within bounds, single events that MariaDB compressed (`log_bin_compress`).

QUERY_COMPRESSED and the compressed rows events begin with a byte whose bits 4 to 6 are the algorithm (0 zlib)
and whose bits 0 to 2 are the number of bytes of the unpacked size. That size follows, the highest byte first,
then the zlib stream. MySQL compresses whole transactions instead, see `payload`.

Layout: `binlog_buf_compress` in MariaDB's log_event.cc.
"""

from __future__ import annotations

import zlib

from canal_group.merge.errors import CorruptEvent, UnsupportedEvent

#: no event is larger: the servers' largest max_allowed_packet
EVENT_BYTES_MAX = 1 << 30
#: limit of unpacked bytes for each packed byte; zlib reaches 1032 at most
RATIO_MAX = 1_040


def unpack(packed: bytes) -> bytes:
    """Return the unpacked bytes of a compressed query or rows event of MariaDB.

    Raises:
        CorruptEvent: the bytes are not a zlib stream, or their length is not the announced one.
        UnsupportedEvent: the algorithm is unknown.
    """
    head, width = packed[0], packed[0] & 0x07
    if head & 0x70:
        raise UnsupportedEvent(f"Compression algorithm {head >> 4 & 7} of an event is not known.")
    size = int.from_bytes(packed[1 : 1 + width], "big")
    if size > EVENT_BYTES_MAX:
        raise CorruptEvent(f"A compressed event says that it unpacks to {size} bytes; none is so large.")
    if size > len(packed) * RATIO_MAX:
        raise CorruptEvent(
            f"A compressed event of {len(packed)} bytes says that it unpacks to {size} bytes, more than zlib"
            " can produce.",
            hint="No server writes that: check the source, and proxies on the way to it.",
        )
    unpacker = zlib.decompressobj()
    try:
        # Ask for one byte more than expected, to detect a longer stream without unpacking it.
        data = unpacker.decompress(packed[1 + width :], size + 1)
    except zlib.error as error:
        raise CorruptEvent(f"A compressed event cannot be unpacked ({error}).") from error
    if len(data) != size or not unpacker.eof:
        raise CorruptEvent(f"A compressed event says that it unpacks to {size} bytes, but does not.")
    return data
