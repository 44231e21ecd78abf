"""Text: the bodies of the functions that `text.pxd` declares and describes."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from canal_group.binlog.native.numbers cimport load64


cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(unsigned long long bits) noexcept nogil


cdef size_t ascii_run(const uint8_t* data, size_t size) noexcept nogil:
    """Return how many bytes at the beginning are ASCII."""
    cdef size_t at = 0
    cdef uint64_t others
    while size - at >= 8:
        others = load64(data + at) & <uint64_t>0x8080808080808080
        if others:
            return at + <size_t>(trailing_zeros(others) >> 3)
        at += 8
    while at < size and data[at] < 0x80:
        at += 1
    return at


cdef inline size_t character_size(const uint8_t* data, size_t size) noexcept nogil:
    """Return the bytes of the character that begins here, 0 if none does (RFC 3629); size is 1 at least."""
    cdef uint8_t first = data[0], low = 0x80, high = 0xBF
    cdef size_t length, index
    if first < 0x80:
        return 1
    if first < 0xC2:
        return 0
    if first < 0xE0:
        length = 2
    elif first < 0xF0:
        length = 3
        if first == 0xE0:  # nothing that fits two bytes
            low = 0xA0
        elif first == 0xED:  # no surrogates
            high = 0x9F
    elif first < 0xF5:
        length = 4
        if first == 0xF0:  # nothing that fits three bytes
            low = 0x90
        elif first == 0xF4:  # nothing beyond U+10FFFF
            high = 0x8F
    else:
        return 0
    if size < length or data[1] < low or data[1] > high:
        return 0
    for index in range(2, length):
        if data[index] & 0xC0 != 0x80:
            return 0
    return length


cdef bint is_utf8(const uint8_t* data, size_t size) noexcept nogil:
    cdef size_t at = 0, step
    while True:
        at += ascii_run(data + at, size - at)
        if at == size:
            return True
        while at < size and data[at] >= 0x80:
            step = character_size(data + at, size - at)
            if not step:
                return False
            at += step


cdef bint is_utf8_column(const uint8_t* data, const int32_t* offsets, size_t rows) noexcept nogil:
    """Return whether each of a column's strings is UTF-8; `rows` + 1 offsets from 0 on."""
    cdef size_t size = offsets[rows], run = ascii_run(data, size), row
    if run == size:
        return True
    if not is_utf8(data + run, size - run):
        return False
    for row in range(1, rows):
        if <size_t>offsets[row] < size and data[offsets[row]] & 0xC0 == 0x80:
            return False
    return True


cdef bint convert_size(
    const uint8_t* data, size_t size, const uint32_t* table, size_t* out
) noexcept nogil:
    """Write the bytes that single-byte text takes in UTF-8; False if it holds an undefined byte."""
    cdef size_t total = 0, index, length
    for index in range(size):
        length = table[data[index]] >> 24
        if not length:
            return False
        total += length
    out[0] = total
    return True


cdef void convert(
    const uint8_t* data,
    const int32_t* offsets,
    size_t rows,
    const uint32_t* table,
    uint8_t* out,
    int32_t* out_offsets,
) noexcept nogil:
    """Convert a column of single-byte text; `table` has per byte its UTF-8, lowest first, and the length."""
    cdef size_t row, at = 0
    cdef int32_t index
    cdef uint32_t entry, length
    out_offsets[0] = 0
    for row in range(rows):
        for index in range(offsets[row], offsets[row + 1]):
            entry = table[data[index]]
            length = entry >> 24
            out[at] = <uint8_t>entry
            if length > 1:
                out[at + 1] = <uint8_t>(entry >> 8)
                if length > 2:
                    out[at + 2] = <uint8_t>(entry >> 16)
            at += length
        out_offsets[row + 1] = <int32_t>at
