"""Text: checks whether a whole column of strings is valid, and converts single-byte charsets to UTF-8.

A column's strings are stored one after the other, with separate offsets. The column is valid UTF-8 if all its
bytes together are, and no string begins inside a character.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t


cdef size_t ascii_run(const uint8_t* data, size_t size) noexcept nogil


cdef bint is_utf8(const uint8_t* data, size_t size) noexcept nogil


cdef bint is_utf8_column(const uint8_t* data, const int32_t* offsets, size_t rows) noexcept nogil


cdef bint convert_size(
    const uint8_t* data, size_t size, const uint32_t* table, size_t* out
) noexcept nogil


cdef void convert(
    const uint8_t* data,
    const int32_t* offsets,
    size_t rows,
    const uint32_t* table,
    uint8_t* out,
    int32_t* out_offsets,
) noexcept nogil
