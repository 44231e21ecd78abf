"""Numbers: bytes to integers. Callers have checked that the bytes exist."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    uint16_t bswap16 "__builtin_bswap16"(uint16_t value) noexcept nogil
    uint32_t bswap32 "__builtin_bswap32"(uint32_t value) noexcept nogil


cdef inline uint16_t load16(const uint8_t* data) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, data, 2)
    return value


cdef inline uint32_t load32(const uint8_t* data) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, data, 4)
    return value


cdef inline uint64_t load64(const uint8_t* data) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, data, 8)
    return value


cdef inline uint64_t load_little(const uint8_t* data, size_t size) noexcept nogil:
    """Return `size` bytes, at most 8, lowest first."""
    # Two loads overlap: a loop over bytes takes several times as long.
    if size >= 4:
        return load32(data) | <uint64_t>load32(data + size - 4) << 8 * (size - 4)
    if size >= 2:
        return load16(data) | <uint64_t>load16(data + size - 2) << 8 * (size - 2)
    return data[0] if size else 0


cdef inline uint64_t load_big(const uint8_t* data, size_t size) noexcept nogil:
    """Return `size` bytes, at most 8, highest first."""
    if size >= 4:
        return <uint64_t>bswap32(load32(data)) << 8 * (size - 4) | bswap32(load32(data + size - 4))
    if size >= 2:
        return <uint64_t>bswap16(load16(data)) << 8 * (size - 2) | bswap16(load16(data + size - 2))
    return data[0] if size else 0
