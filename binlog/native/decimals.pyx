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


cdef inline int shift_in(uint64_t* limbs, size_t count, const uint8_t* data, size_t digits) noexcept nogil:
    """Append a group of digits: limbs = limbs * 10 ** digits + group."""
    cdef uint64_t group
    cdef uint32_t power
    cdef uint128_t product
    cdef uint64_t carry
    cdef size_t index
    power = power10(digits)
    group = load_big(data, 4) if digits > 6 else load_big(data, group_size(digits))
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
    cdef uint8_t plain[PACKED_MAX]
    cdef size_t size = packed_size(whole, fraction), index, at = 0, used = 1
    cdef uint8_t mask = 0 if data[0] & 0x80 else 0xFF
    cdef uint64_t carry
    cdef int fault
    plain[0] = 0
    for index in range(size):
        plain[index] = data[index] ^ mask
    plain[0] ^= 0x80
    for index in range(count):
        limbs[index] = 0
    if whole + fraction > 38:
        used = 4
    elif whole + fraction > 18:
        used = 2
    if whole % 9:
        fault = shift_in(limbs, used, plain, whole % 9)
        if fault:
            return fault
        at = group_size(whole % 9)
    for index in range(whole // 9 + fraction // 9):
        fault = shift_in(limbs, used, plain + at, 9)
        if fault:
            return fault
        at += 4
    if fraction % 9:
        fault = shift_in(limbs, used, plain + at, fraction % 9)
        if fault:
            return fault
    if mask:
        carry = 1
        for index in range(count):
            limbs[index] = ~limbs[index] + carry
            carry = carry and limbs[index] == 0
    return FINE
