"""Packed values: the bodies of the functions that `packed.pxd` declares and describes."""

from libc.stdint cimport uint8_t, uint64_t

from canal_group.binlog.native.faults cimport BAD_PACKED, FINE
from canal_group.binlog.native.memory cimport Bytes, append
from canal_group.binlog.native.numbers cimport load_big


cdef size_t unpacked_size(const uint8_t* value, size_t size) noexcept nogil:
    """Return the bytes that a stored value says it unpacks to; `put_unpacked` refuses a value that has others."""
    cdef size_t width
    if not size or not value[0]:
        return size
    width = value[0] & 7
    if width == 0 or size - 1 < width:
        return size
    return min(load_big(value + 1, width), (size - 1 - width) * RATIO_MAX)


cdef int put_unpacked(Bytes* out, const uint8_t* value, size_t size) noexcept nogil:
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
    if expected > VALUE_BYTES_MAX or expected > (size - 1 - width) * RATIO_MAX:
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
