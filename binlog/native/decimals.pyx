"""Decimals: the bodies of the functions that `decimals.pxd` declares and describes."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from canal_group.binlog.native.faults cimport BAD_DECIMAL, FINE
from canal_group.binlog.native.numbers cimport load_big


cdef extern from *:
    """
    static const unsigned int canal_group_powers[10] = {
        1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
    """
    const uint32_t* POWERS "canal_group_powers"
    ctypedef unsigned long long uint128_t "unsigned __int128"


cdef size_t group_size(size_t digits) noexcept nogil:
    """Return the bytes of a group of 0 to 9 digits."""
    return 4 if digits > 6 else (digits + 1) // 2


cdef uint32_t power10(size_t digits) noexcept nogil:
    """Return 10 ** digits, of 0 to 9 digits."""
    return POWERS[digits]


cdef size_t packed_size(size_t whole, size_t fraction) noexcept nogil:
    """Return the bytes of a number with these numbers of digits before and after the point."""
    return whole // 9 * 4 + group_size(whole % 9) + fraction // 9 * 4 + group_size(fraction % 9)


cdef inline int shift_in(uint64_t* limbs, size_t count, uint64_t group, size_t digits) noexcept nogil:
    """Append a group of digits: limbs = limbs * 10 ** digits + group."""
    cdef uint32_t power = power10(digits)
    cdef uint128_t product
    cdef uint64_t carry
    cdef size_t index
    if group >= power:
        return BAD_DECIMAL
    if count == 1:
        limbs[0] = limbs[0] * power + group
        return FINE
    carry = group
    for index in range(count):
        product = <uint128_t>limbs[index] * power + carry
        limbs[index] = <uint64_t>product
        carry = <uint64_t>(product >> 64)
    return FINE


cdef int read_decimal(
    const uint8_t* data, size_t whole, size_t fraction, uint64_t* limbs, size_t count
) noexcept nogil:
    """Write a packed number's digits, without the point, into `count` limbs of 64 bits.

    `packed_size(whole, fraction)` bytes are read; whole + fraction is at least 1 and fits the limbs.
    """
    cdef size_t groups = whole // 9 + fraction // 9, index, size, used = 1
    cdef bint negative = not data[0] & 0x80
    #: what the bits of a group are inverted by, and the first bit, which is none of its digits
    cdef uint64_t inverted = <uint64_t>0xFFFFFFFF if negative else 0, first = 0x80
    cdef uint64_t carry
    cdef int fault = FINE
    for index in range(count):
        limbs[index] = 0
    if whole + fraction > 38:
        used = 4
    elif whole + fraction > 18:
        used = 2
    size = group_size(whole % 9)
    if size:
        fault = shift_in(limbs, used, read_group(data, size, inverted, first), whole % 9)
        data, first = data + size, 0
    for index in range(groups):
        fault |= shift_in(limbs, used, read_group(data, 4, inverted, first), 9)
        data, first = data + 4, 0
    size = group_size(fraction % 9)
    if size:
        fault |= shift_in(limbs, used, read_group(data, size, inverted, first), fraction % 9)
    if negative:
        carry = 1
        for index in range(count):
            limbs[index] = ~limbs[index] + carry
            carry = carry and limbs[index] == 0
    return fault


cdef inline uint64_t read_group(const uint8_t* data, size_t size, uint64_t inverted, uint64_t first) noexcept nogil:
    """Return a group of 1 to 4 bytes; of the number's first one, `first` is the first byte's sign."""
    return load_big(data, size) ^ inverted >> 8 * (4 - size) ^ first << 8 * (size - 1)
