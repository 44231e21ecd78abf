"""Decimals: MySQL's packed DECIMAL to Arrow's decimals, little-endian two's complement of 16 or 32 bytes.

Layout (`decimal2bin` in MySQL's strings/decimal.cc): groups of nine digits in 4 bytes, big-endian, counted from
the point; the digits left over at both ends take as few bytes as hold them. The first bit is 1 for numbers from 0 on;
of negative ones every bit is inverted.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t


#: the largest number of digits, which 32 bytes hold
cdef enum:
    DIGITS_MAX = 76
    PACKED_MAX = 40


cdef size_t group_size(size_t digits) noexcept nogil


cdef uint32_t power10(size_t digits) noexcept nogil


cdef size_t packed_size(size_t whole, size_t fraction) noexcept nogil


cdef int read_decimal(
    const uint8_t* data, size_t whole, size_t fraction, uint64_t* limbs, size_t count
) noexcept nogil


cdef int read_decimal_text(
    const uint8_t* text, size_t size, size_t whole, size_t fraction, uint64_t* limbs, size_t count
) noexcept nogil
