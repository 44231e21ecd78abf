"""Doubles: the shortest text that reads back as the same FLOAT or DOUBLE, in MySQL's notation.

Digits: Giulietti's Schubfach ("The Schubfach way to render doubles"). An interval of numbers rounds to the value;
the power of ten is chosen so that at least one and at most ten of its multiples lie in the interval, and of those
the multiple of ten is chosen if there is one, otherwise the one that is closest. Products are computed with 128 bits
of the power, which the paper proves to be enough.

Notation, as MySQL's `my_gcvt`: plain for numbers from 1e-15 to below 1e15, and up to 1e16 if digits follow the
point; otherwise like 1.5e300.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    #: most characters: sign, "0.", fourteen zeros and seventeen digits
    DOUBLE_CHARS = 40


cdef uint8_t* write_double(uint8_t* at, uint64_t bits) noexcept nogil
cdef uint8_t* write_float(uint8_t* at, uint32_t bits) noexcept nogil
