"""Numbers: bytes to integers. Callers have checked that the bytes exist."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


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
    cdef uint64_t value = 0
    cdef size_t index
    if size == 1:
        return data[0]
    if size == 2:
        return load16(data)
    for index in range(size):
        value |= <uint64_t>data[index] << (8 * index)
    return value


cdef inline uint64_t load_big(const uint8_t* data, size_t size) noexcept nogil:
    """Return `size` bytes, at most 8, highest first."""
    cdef uint64_t value = 0
    cdef size_t index
    for index in range(size):
        value = value << 8 | data[index]
    return value
