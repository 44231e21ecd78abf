"""Packed values: MariaDB's compressed columns, unpacked.

A value that is not empty begins with a byte. If it is 0, the value follows uncompressed. If its upper four bits
are 8, the value is compressed with zlib: bit 3 says that the stream has no header and no checksum of its own, and
the lowest three bits are the number of bytes of the unpacked size. That size follows, the highest byte first, then
the stream. Layout: `compress_zlib` in MariaDB's sql/field_comp.cc.

Python's zlib unpacks: it exists wherever Python does, and the call costs less than the unpacking.
"""

from libc.stdint cimport uint8_t, uint64_t

from actors.parse.native.faults cimport BAD_PACKED, FINE
from actors.parse.native.memory cimport Bytes, append
from actors.parse.native.numbers cimport load_big

cdef enum:
    ZLIB = 8
    #: no value is larger: the servers' largest packet
    VALUE_BYTES_MAX = 1 << 30


cdef inline int put_unpacked(Bytes* out, const uint8_t* value, size_t size) noexcept nogil:
    """Append a stored value, unpacked."""
    cdef size_t width
    cdef uint64_t expected
    if not size:
        return FINE
    if not value[0]:
        return append(out, value + 1, size - 1)
    width = value[0] & 7
    if value[0] >> 4 != ZLIB or width == 0 or size - 1 < width:
        return BAD_PACKED
    expected = load_big(value + 1, width)
    if expected > VALUE_BYTES_MAX:
        return BAD_PACKED
    return put_inflated(out, value + 1 + width, size - 1 - width, expected, value[0] & 8)


cdef inline int put_inflated(
    Bytes* out, const uint8_t* packed, size_t size, size_t expected, bint raw
) noexcept with gil:
    cdef bytes unpacked
    from zlib import MAX_WBITS, decompressobj, error

    try:
        stream = decompressobj(-MAX_WBITS if raw else MAX_WBITS)
        # Ask for one byte more than expected, to detect a longer stream without unpacking it.
        unpacked = stream.decompress((<const char*>packed)[:size], expected + 1)
        if len(unpacked) != expected or not stream.eof:
            return BAD_PACKED
    except (error, MemoryError):
        return BAD_PACKED
    return append(out, <const char*>unpacked, expected)
