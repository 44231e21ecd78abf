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
    cdef size_t groups = whole // 9 + fraction // 9, index, size, used
    cdef bint negative = not data[0] & 0x80
    #: what the bits of a group are inverted by, and the first bit, which is none of its digits
    cdef uint64_t inverted = <uint64_t>0xFFFFFFFF if negative else 0, first = 0x80
    cdef int fault = FINE
    for index in range(count):
        limbs[index] = 0
    used = limbs_of(whole + fraction)
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
        negate(limbs, count)
    return fault


cdef int read_decimal_text(
    const uint8_t* text, size_t size, size_t whole, size_t fraction, uint64_t* limbs, size_t count
) noexcept nogil:
    """Write a number's digits, as a server prints them, without the point, into `count` limbs of 64 bits.

    There are `fraction` digits after the point, and at most `whole` before it, but for leading zeros.
    """
    cdef size_t at = 0, index, used = limbs_of(whole + fraction), digits = 0, before = 0, after = 0
    cdef bint negative = size and text[0] == b"-", is_after = False
    cdef uint64_t group = 0
    cdef uint8_t digit
    for index in range(count):
        limbs[index] = 0
    at = negative
    if at == size:
        return BAD_DECIMAL
    while at < size and text[at] == b"0":
        at += 1
    for index in range(at, size):
        if text[index] == b"." and not is_after:
            is_after = True
            continue
        digit = text[index] - <uint8_t>b"0"
        if digit > 9:
            return BAD_DECIMAL
        if is_after:
            after += 1
        else:
            before += 1
        group = group * 10 + digit
        digits += 1
        if digits == 9:
            shift_in(limbs, used, group, digits)
            group = digits = 0
    if before > whole or after != fraction:
        return BAD_DECIMAL
    shift_in(limbs, used, group, digits)
    if negative:
        negate(limbs, count)
    return FINE


cdef inline size_t limbs_of(size_t digits) noexcept nogil:
    """Return how many limbs a number of some digits has."""
    return 4 if digits > 38 else 2 if digits > 18 else 1


cdef inline void negate(uint64_t* limbs, size_t count) noexcept nogil:
    cdef uint64_t carry = 1
    cdef size_t index
    for index in range(count):
        limbs[index] = ~limbs[index] + carry
        carry = carry and limbs[index] == 0


cdef inline uint64_t read_group(const uint8_t* data, size_t size, uint64_t inverted, uint64_t first) noexcept nogil:
    """Return a group of 1 to 4 bytes; of the number's first one, `first` is the first byte's sign."""
    return load_big(data, size) ^ inverted >> 8 * (4 - size) ^ first << 8 * (size - 1)
