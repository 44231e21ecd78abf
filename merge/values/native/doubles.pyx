"""The compiled part of texts of FLOAT and DOUBLE; `doubles.pxd` says how."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from canal_group.merge.values.native.digits cimport TENS, write_digits, write_padded

cdef extern from *:
    ctypedef unsigned long long uint128_t "unsigned __int128"

cdef enum:
    #: powers of ten that a DOUBLE may need
    POWER_MIN = -292
    POWER_MAX = 324
    #: decimal exponents that MySQL still writes plain; one more, if digits follow the point
    PLAIN_MIN = -15
    PLAIN_MAX = 14
    #: digits of the longest number
    DIGITS_MAX = 17


cdef struct _Decimal:
    uint64_t digits
    int exponent


#: 10**power as a number of 128 bits, the highest one set: the upper and the lower half, rounded up
cdef uint64_t[POWER_MAX - POWER_MIN + 1][2] _powers


def _fill_powers():
    for power in range(POWER_MIN, POWER_MAX + 1):
        if power >= 0:
            shift = 128 - (10**power).bit_length()
            bits = 10**power << shift if shift >= 0 else -(-(10**power) >> -shift)
        else:
            bits = -(-(1 << 127 + (10**-power).bit_length()) // 10**-power)
        _powers[power - POWER_MIN][0], _powers[power - POWER_MIN][1] = bits >> 64, bits & (1 << 64) - 1


_fill_powers()


cdef inline uint64_t _scaled(int power, uint64_t value) noexcept nogil:
    """Return the product's upper 64 bits; the lowest one is set if anything was cut off ("round to odd")."""
    cdef uint128_t low = <uint128_t>_powers[power - POWER_MIN][1] * value
    cdef uint128_t high = <uint128_t>_powers[power - POWER_MIN][0] * value + (low >> 64)
    return <uint64_t>(high >> 64) | (<uint64_t>high > 1)


cdef _Decimal _shortest(uint64_t fraction, int exponent, int fraction_bits, int bias) noexcept nogil:
    """Return the digits of a finite number above zero, given its bits."""
    cdef _Decimal decimal
    cdef uint64_t value = fraction, lower, middle, upper, whole, tens
    cdef int binary = 1 - bias, power, shift
    cdef bint odd, closer = fraction == 0 and exponent > 1, under, over
    if exponent:
        value |= <uint64_t>1 << fraction_bits
        binary = exponent - bias
        if -fraction_bits <= binary <= 0 and not value & ((<uint64_t>1 << -binary) - 1):
            decimal.digits, decimal.exponent = value >> -binary, 0
            return decimal
    odd = value & 1
    # floor(log10(2**binary)), or of three quarters of it: the interval is smaller below a power of two
    power = (binary * 1_262_611 - (524_031 if closer else 0)) >> 22
    shift = binary + ((-power * 1_741_647) >> 19) + 1
    # the interval that rounds to the value, in quarters; its ends belong to it if the value is even
    lower = _scaled(-power, (4 * value - 2 + closer) << shift) + odd
    middle = _scaled(-power, (4 * value) << shift)
    upper = _scaled(-power, (4 * value + 2) << shift) - odd
    whole = middle // 4
    if whole >= 10:
        tens = whole // 10
        under, over = lower <= 40 * tens, 40 * tens + 40 <= upper
        if under != over:
            decimal.digits, decimal.exponent = tens + over, power + 1
            return decimal
    under, over = lower <= 4 * whole, 4 * whole + 4 <= upper
    if under == over:
        over = middle > 4 * whole + 2 or (middle == 4 * whole + 2 and whole & 1)
    decimal.digits, decimal.exponent = whole + over, power
    return decimal


cdef inline int _count(uint64_t value) noexcept nogil:
    cdef int count = 1
    while count < DIGITS_MAX + 2 and value >= TENS[count]:
        count += 1
    return count


cdef uint8_t* _write(uint8_t* at, _Decimal number) noexcept nogil:
    cdef int count, exponent, index
    while number.digits % 10 == 0:
        number.digits //= 10
        number.exponent += 1
    count = _count(number.digits)
    exponent = number.exponent + count - 1
    if exponent < PLAIN_MIN or exponent > PLAIN_MAX + 1 or (exponent > PLAIN_MAX and number.exponent >= 0):
        at = write_digits(at, -exponent if exponent < 0 else exponent)
        if exponent < 0:
            at -= 1
            at[0] = 45
        at -= 1
        at[0] = 101
        if count > 1:
            at = write_padded(at, number.digits % TENS[count - 1], count - 1) - 1
            at[0] = 46
        return write_digits(at, number.digits // TENS[count - 1])
    if number.exponent >= 0:
        for index in range(number.exponent):
            at -= 1
            at[0] = 48
        return write_digits(at, number.digits)
    if exponent >= 0:
        at = write_padded(at, number.digits % TENS[-number.exponent], -number.exponent) - 1
        at[0] = 46
        return write_digits(at, number.digits // TENS[-number.exponent])
    at = write_digits(at, number.digits)
    for index in range(-exponent - 1):
        at -= 1
        at[0] = 48
    at -= 2
    at[0], at[1] = 48, 46
    return at


cdef inline uint8_t* _write_bits(
    uint8_t* at, uint64_t fraction, int exponent, bint negative, int fraction_bits, int bias, int last
) noexcept nogil:
    if exponent == last:
        at -= 3
        memcpy(at, <const char*>b"nan" if fraction else <const char*>b"inf", 3)
        negative = negative and not fraction
    elif fraction or exponent:
        at = _write(at, _shortest(fraction, exponent, fraction_bits, bias))
    else:
        at -= 1
        at[0] = 48
    if negative:
        at -= 1
        at[0] = 45
    return at


cdef uint8_t* write_double(uint8_t* at, uint64_t bits) noexcept nogil:
    return _write_bits(at, bits & ((<uint64_t>1 << 52) - 1), bits >> 52 & 0x7FF, bits >> 63, 52, 1_075, 0x7FF)


cdef uint8_t* write_float(uint8_t* at, uint32_t bits) noexcept nogil:
    return _write_bits(at, bits & ((<uint32_t>1 << 23) - 1), bits >> 23 & 0xFF, bits >> 31, 23, 150, 0xFF)
