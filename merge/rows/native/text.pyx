"""Text of values, written one after another: what Arrow's functions would write in many passes.

`text.pyi` says what callers see. `out` has room for the longest text that a value may have, times the values;
that is checked once, before the loop.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    ctypedef long long int128_t "__int128"
    ctypedef unsigned long long uint128_t "unsigned __int128"

cdef enum:
    #: most characters of each kind of value
    TIME_CHARS = 24
    DATETIME_CHARS = 32
    DECIMAL_CHARS = 80
    #: most digits of a fraction of a second
    FRACTION = 6
    #: most digits behind the point of a decimal of 128 bits
    SCALE = 38

cdef int64_t SECOND = 1_000_000
cdef int64_t DAY = 86_400 * SECOND
cdef int64_t[7] UNITS = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1]


cdef int _check(Py_ssize_t rows, const int32_t[::1] out_offsets, const uint8_t[::1] out, int chars) except -1:
    if out_offsets.shape[0] != rows + 1:
        raise ValueError("offsets of another number of values")
    if out.shape[0] < rows * chars or rows > 0x7fffffff // chars:
        raise ValueError("no room for so much text")
    return 0


cdef inline uint8_t* _digits(uint8_t* at, uint64_t value, int width) noexcept nogil:
    """Write a number with at least `width` digits; return where it ends."""
    cdef uint8_t reversed_digits[20]
    cdef int count = 0
    while value or count < width:
        reversed_digits[count] = <uint8_t>(48 + value % 10)
        value //= 10
        count += 1
    while count:
        count -= 1
        at[0] = reversed_digits[count]
        at += 1
    return at


cdef inline uint8_t* _clock(uint8_t* at, uint64_t micros, int digits) noexcept nogil:
    """Write HH:MM:SS and `digits` of the fraction; hours may be any number."""
    cdef uint64_t seconds = micros // SECOND
    at = _digits(at, seconds // 3_600, 2)
    at[0] = 58
    at = _digits(at + 1, seconds // 60 % 60, 2)
    at[0] = 58
    at = _digits(at + 1, seconds % 60, 2)
    if digits:
        at[0] = 46
        at = _digits(at + 1, micros % SECOND // UNITS[digits], digits)
    return at


def write_times(const int64_t[::1] micros, int digits, int32_t[::1] out_offsets, uint8_t[::1] out):
    cdef Py_ssize_t i, rows = micros.shape[0]
    cdef uint8_t* at
    cdef uint8_t* begin
    _check(rows, out_offsets, out, TIME_CHARS)
    if not 0 <= digits <= FRACTION:
        raise ValueError("a fraction of a second has up to six digits")
    out_offsets[0] = 0
    if not rows:
        return
    begin = at = &out[0]
    with nogil:
        for i in range(rows):
            if micros[i] < 0:
                at[0] = 45
                at += 1
                at = _clock(at, 0 - <uint64_t>micros[i], digits)
            else:
                at = _clock(at, <uint64_t>micros[i], digits)
            out_offsets[i + 1] = <int32_t>(at - begin)


def write_datetimes(const int64_t[::1] micros, int digits, int32_t[::1] out_offsets, uint8_t[::1] out):
    cdef Py_ssize_t i, rows = micros.shape[0]
    cdef int64_t day, era, day_of_era, year_of_era, day_of_year, month, year
    cdef int64_t last_day = 0
    cdef int32_t date_chars = 0
    cdef uint8_t date[16]
    cdef uint8_t* at
    cdef uint8_t* begin
    _check(rows, out_offsets, out, DATETIME_CHARS)
    if not 0 <= digits <= FRACTION:
        raise ValueError("a fraction of a second has up to six digits")
    out_offsets[0] = 0
    if not rows:
        return
    begin = at = &out[0]
    with nogil:
        for i in range(rows):
            day = micros[i] // DAY
            if micros[i] % DAY < 0:
                day -= 1
            if not date_chars or day != last_day:
                # Days of the proleptic Gregorian calendar, counted from the first of March of year 0 in eras of
                # 400 years: the leap day is the last one of its year, and months have a regular length.
                last_day = day
                era = (day + 719_468) // 146_097
                if (day + 719_468) % 146_097 < 0:
                    era -= 1
                day_of_era = day + 719_468 - era * 146_097
                year_of_era = (
                    day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
                ) // 365
                day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
                month = (5 * day_of_year + 2) // 153
                year = era * 400 + year_of_era + (1 if month >= 10 else 0)
                if not 0 <= year <= 9_999:
                    with gil:
                        raise ValueError("a date of no year from 0 to 9999")
                _digits(date, year, 4)
                date[4] = 45
                _digits(date + 5, month + 3 if month < 10 else month - 9, 2)
                date[7] = 45
                _digits(date + 8, day_of_year - (153 * month + 2) // 5 + 1, 2)
                date[10] = 32
                date_chars = 11
            memcpy(at, date, date_chars)
            at = _clock(at + date_chars, <uint64_t>(micros[i] - day * DAY), digits)
            out_offsets[i + 1] = <int32_t>(at - begin)


def write_decimals(const uint64_t[:, ::1] values, int scale, int32_t[::1] out_offsets, uint8_t[::1] out):
    cdef Py_ssize_t i, rows = values.shape[0]
    cdef int count
    cdef uint128_t amount
    cdef uint64_t part
    cdef uint8_t reversed_digits[64]
    cdef uint8_t* at
    cdef uint8_t* begin
    _check(rows, out_offsets, out, DECIMAL_CHARS)
    if values.shape[1] != 2:
        raise ValueError("a decimal has two words")
    if not 0 <= scale <= SCALE:
        raise ValueError("a decimal has up to 38 digits behind its point")
    out_offsets[0] = 0
    if not rows:
        return
    begin = at = &out[0]
    with nogil:
        for i in range(rows):
            amount = (<uint128_t>values[i, 1] << 64) | values[i, 0]
            if values[i, 1] >> 63:
                at[0] = 45
                at += 1
                amount = 0 - amount
            count = 0
            while amount >> 64:
                reversed_digits[count] = <uint8_t>(48 + <int>(amount % 10))
                amount = amount // 10
                count += 1
            part = <uint64_t>amount
            while part or count <= scale:
                reversed_digits[count] = <uint8_t>(48 + part % 10)
                part //= 10
                count += 1
            while count > scale:
                count -= 1
                at[0] = reversed_digits[count]
                at += 1
            if scale:
                at[0] = 46
                at += 1
            while count:
                count -= 1
                at[0] = reversed_digits[count]
                at += 1
            out_offsets[i + 1] = <int32_t>(at - begin)


def count_high(const uint8_t[::1] data):
    cdef Py_ssize_t i
    cdef int64_t high = 0
    with nogil:
        for i in range(data.shape[0]):
            high += data[i] >> 7
    return high


def write_latin1(
    const int32_t[::1] offsets, const uint8_t[::1] data, int32_t[::1] out_offsets, uint8_t[::1] out
):
    cdef Py_ssize_t i, rows = offsets.shape[0] - 1
    cdef int64_t at = 0, place, room = out.shape[0], size = data.shape[0]
    cdef uint8_t byte
    if rows < 0 or out_offsets.shape[0] != rows + 1:
        raise ValueError("offsets of another number of values")
    if room > 0x7fffffff:
        raise ValueError("no room for so much text")
    out_offsets[0] = 0
    with nogil:
        for i in range(rows):
            if not 0 <= offsets[i] <= offsets[i + 1] <= size:
                with gil:
                    raise ValueError("an offset beyond the data")
            for place in range(offsets[i], offsets[i + 1]):
                byte = data[place]
                if at + 1 + (byte >> 7) > room:
                    with gil:
                        raise ValueError("no room for so much text")
                if byte < 0x80:
                    out[at] = byte
                    at += 1
                else:
                    out[at] = 0xC0 | (byte >> 6)
                    out[at + 1] = 0x80 | (byte & 0x3F)
                    at += 2
            out_offsets[i + 1] = <int32_t>at
