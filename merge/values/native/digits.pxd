"""Digits of numbers, written from the last to the first: each function returns where the text begins."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    static const char canal_group_pairs[201] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
        "9899";
    static const unsigned long long canal_group_tens[20] = {
        1ULL, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL, 1000000ULL, 10000000ULL, 100000000ULL, 1000000000ULL,
        10000000000ULL, 100000000000ULL, 1000000000000ULL, 10000000000000ULL, 100000000000000ULL,
        1000000000000000ULL, 10000000000000000ULL, 100000000000000000ULL, 1000000000000000000ULL,
        10000000000000000000ULL};
    """
    #: the numbers from 0 to 99, two digits each
    const uint8_t* PAIRS "((const unsigned char *)canal_group_pairs)"
    #: powers of ten
    const unsigned long long* TENS "canal_group_tens"


cdef inline uint8_t* write_pair(uint8_t* at, uint32_t value) noexcept nogil:
    """Write two digits; the number is below 100."""
    memcpy(at - 2, PAIRS + 2 * value, 2)
    return at - 2


cdef inline uint8_t* write_digits(uint8_t* at, uint64_t value) noexcept nogil:
    """Write a number, at most twenty digits."""
    cdef uint32_t part
    while value >= 100_000_000:
        part = <uint32_t>(value % 100_000_000)
        value //= 100_000_000
        memcpy(at - 2, PAIRS + 2 * (part % 100), 2)
        memcpy(at - 4, PAIRS + 2 * (part // 100 % 100), 2)
        memcpy(at - 6, PAIRS + 2 * (part // 10_000 % 100), 2)
        memcpy(at - 8, PAIRS + 2 * (part // 1_000_000), 2)
        at -= 8
    part = <uint32_t>value
    while part >= 100:
        at = write_pair(at, part % 100)
        part //= 100
    if part >= 10:
        return write_pair(at, part)
    at -= 1
    at[0] = <uint8_t>(48 + part)
    return at


cdef inline uint8_t* write_padded(uint8_t* at, uint64_t value, int width) noexcept nogil:
    """Write a number with exactly `width` digits; it has no more."""
    cdef uint8_t* begin = at - width
    while width >= 2:
        at = write_pair(at, <uint32_t>(value % 100))
        value //= 100
        width -= 2
    if width:
        begin[0] = <uint8_t>(48 + value)
    return begin
