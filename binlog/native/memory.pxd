"""Memory: buffers that grow, and bitmaps in Arrow's order (lowest bit first)."""

from libc.stdint cimport INT32_MAX, uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy, memset

from canal_group.binlog.native.faults cimport FINE, NO_MEMORY, TOO_LARGE


cdef struct Bytes:
    uint8_t* data
    size_t size
    size_t capacity


cdef inline int reserve(Bytes* bytes_, size_t more) noexcept nogil:
    """Make room for `more` bytes after `size`. At most 2 GiB - 1 in all: Arrow's offsets have 31 bits."""
    cdef size_t capacity
    cdef void* moved
    if more > <size_t>INT32_MAX - bytes_.size:
        return TOO_LARGE
    if bytes_.capacity - bytes_.size >= more:
        return FINE
    capacity = bytes_.capacity * 2 if bytes_.capacity else 64
    if capacity < bytes_.size + more:
        capacity = bytes_.size + more
    moved = realloc(bytes_.data, capacity)
    if moved == NULL:
        return NO_MEMORY
    bytes_.data = <uint8_t*>moved
    bytes_.capacity = capacity
    return FINE


cdef inline int append(Bytes* bytes_, const void* data, size_t size) noexcept nogil:
    cdef int fault = reserve(bytes_, size)
    if fault == FINE and size:
        memcpy(bytes_.data + bytes_.size, data, size)
        bytes_.size += size
    return fault


cdef inline void clear_bit(uint8_t* bitmap, size_t index) noexcept nogil:
    bitmap[index >> 3] &= <uint8_t>~(1 << (index & 7))


cdef inline void fill_bits(uint8_t* bitmap, size_t begin, size_t end, bint value) noexcept nogil:
    """Set the bits [begin, end) to one value."""
    cdef size_t whole
    while begin < end and begin & 7:
        if value:
            bitmap[begin >> 3] |= <uint8_t>(1 << (begin & 7))
        else:
            clear_bit(bitmap, begin)
        begin += 1
    if begin < end:
        whole = (end - begin) >> 3
        memset(bitmap + (begin >> 3), 0xFF if value else 0, whole)
        begin += whole << 3
    while begin < end:
        if value:
            bitmap[begin >> 3] |= <uint8_t>(1 << (begin & 7))
        else:
            clear_bit(bitmap, begin)
        begin += 1


cdef inline size_t count_zeros(const uint8_t* bitmap, size_t size) noexcept nogil:
    """Return how many of the first `size` bits are 0."""
    cdef size_t zeros = 0, index, whole = size >> 3
    cdef unsigned int byte
    for index in range(whole):
        byte = bitmap[index]
        if byte != 0xFF:
            byte = byte ^ 0xFF
            while byte:
                byte &= byte - 1
                zeros += 1
    for index in range(whole << 3, size):
        zeros += not bitmap[index >> 3] >> (index & 7) & 1
    return zeros
