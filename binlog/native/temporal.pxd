"""Temporal values: MySQL's stored dates and times to Arrow's days and microseconds since 1970.

Layouts: `my_time_packed_to_binary` and its like in MySQL's mysys/my_time.cc. Fractions of a second follow in
(digits + 1) / 2 bytes, big-endian. Functions return False for an invalid date: one with a zero or impossible part. They
write its parts all the same, so that conditions order it as the server does: see `canal_group.merge.values.rows.moments`.

Before MySQL 5.6 there were no fractions. MariaDB had them before (`mysql56_temporal_format=OFF`, and up to
10.0): a date and time is one big-endian number, counted in units of the last digit of the fraction. Layouts:
`Field_time_hires` and its like in MariaDB's field.cc.
"""

from libc.stdint cimport INT32_MIN, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t

from canal_group.binlog.native.numbers cimport load_big

cdef enum:
    SECOND_US = 1000000

cdef extern from *:
    """
    static const unsigned char canal_group_days[16] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    #define CANAL_GROUP_DAY_US 86400000000LL
    """
    const unsigned char* DAYS "canal_group_days"
    const int64_t DAY_US "CANAL_GROUP_DAY_US"


cdef inline bint day_of(uint64_t year, uint64_t month, uint64_t day, int64_t* out) noexcept nogil:
    """Write the days since 1970 of a date of the years 1 to 9999."""
    cdef int64_t y, era, of_era, of_year, last
    if year < 1 or year > 9999 or month < 1 or month > 12 or day < 1:
        return False
    last = DAYS[month & 15]
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        last = 29
    if <int64_t>day > last:
        return False
    # Years begin in March here, so that the leap day is a year's last; an era has 400 years.
    y = <int64_t>year - (month <= 2)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (<int64_t>month + (9 if month <= 2 else -3)) + 2) // 5 + <int64_t>day - 1
    out[0] = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return True


cdef inline int64_t no_date(uint64_t year, uint64_t month, uint64_t day) noexcept nogil:
    """Return a number by which dates with zero or impossible parts are in the server's order."""
    return <int64_t>(year << 9 | month << 5 | day)


cdef inline int64_t fraction_us(uint64_t stored, size_t size) noexcept nogil:
    """Return a fraction of `size` bytes in microseconds."""
    if size == 1:
        return <int64_t>stored * 10000
    if size == 2:
        return <int64_t>stored * 100
    return <int64_t>stored


cdef inline bint read_date(const uint8_t* data, int32_t* out) noexcept nogil:
    """Read 3 bytes, little-endian: 15 bits year, 4 month, 5 day."""
    cdef uint64_t stored = data[0] | data[1] << 8 | <uint64_t>data[2] << 16
    cdef int64_t day = 0
    if not day_of(stored >> 9, stored >> 5 & 15, stored & 31, &day):
        out[0] = <int32_t>(INT32_MIN + <int64_t>stored)
        return False
    out[0] = <int32_t>day
    return True


cdef inline bint read_datetime2(const uint8_t* data, size_t fraction, int64_t* out) noexcept nogil:
    """Read 1 bit sign, 17 bits year * 13 + month, 5 day, 5 hour, 6 minute, 6 second, and the fraction."""
    cdef uint64_t whole = load_big(data, 5)
    cdef uint64_t months = whole >> 22 & 0x1FFFF
    cdef int64_t day = 0, seconds
    cdef bint is_date = day_of(months // 13, months % 13, whole >> 17 & 31, &day)
    if not is_date:
        day = no_date(months // 13, months % 13, whole >> 17 & 31)
    seconds = <int64_t>((whole >> 12 & 31) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63))
    out[0] = day * DAY_US + seconds * SECOND_US + fraction_us(load_big(data + 5, fraction), fraction)
    if not is_date:
        out[0] += INT64_MIN
    return is_date


cdef inline bint read_timestamp2(const uint8_t* data, size_t fraction, int64_t* out) noexcept nogil:
    """Read 4 bytes of seconds, big-endian, and the fraction; all zeros is the zero date."""
    cdef uint64_t seconds = load_big(data, 4), rest = load_big(data + 4, fraction)
    out[0] = <int64_t>seconds * SECOND_US + fraction_us(rest, fraction) if seconds | rest else INT64_MIN
    return (seconds | rest) != 0


cdef inline int64_t read_time2(const uint8_t* data, size_t fraction) noexcept nogil:
    """Read 24 bits and the fraction as one number, offset by its highest bit: negative times carry over."""
    cdef size_t bits = 8 * fraction
    cdef int64_t value = <int64_t>load_big(data, 3 + fraction) - (<int64_t>1 << (bits + 23))
    cdef int64_t sign = 1, whole, seconds
    if value < 0:
        sign, value = -1, -value
    whole = value >> bits
    seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    return sign * (seconds * SECOND_US + fraction_us(value & ((<int64_t>1 << bits) - 1), fraction))


cdef inline bint read_old_datetime(uint64_t stored, int64_t* out) noexcept nogil:
    """Read decimal digits YYYYMMDDhhmmss."""
    cdef uint64_t date = stored // 1000000, clock = stored % 1000000
    cdef int64_t day = 0, seconds
    cdef bint is_date = day_of(date // 10000, date // 100 % 100, date % 100, &day)
    if not is_date:
        day = no_date(date // 10000, date // 100 % 100, date % 100)
    seconds = <int64_t>(clock // 10000 * 3600 + clock // 100 % 100 * 60 + clock % 100)
    out[0] = day * DAY_US + seconds * SECOND_US
    if not is_date:
        out[0] += INT64_MIN
    return is_date


cdef inline int64_t read_old_time(const uint8_t* data) noexcept nogil:
    """Read signed decimal digits hhmmss in 3 bytes, little-endian."""
    cdef int64_t stored = data[0] | data[1] << 8 | <int64_t>data[2] << 16
    cdef int64_t sign = 1
    if stored & 0x800000:
        sign, stored = -1, 0x1000000 - stored
    return sign * (stored // 10000 * 3600 + stored // 100 % 100 * 60 + stored % 100) * SECOND_US


cdef inline bint is_old_datetime(uint64_t stored) noexcept nogil:
    """Return whether decimal digits are those of a DATETIME, be it a zero or an impossible date."""
    cdef uint64_t date = stored // 1000000, clock = stored % 1000000
    if date > 99991231 or date // 100 % 100 > 12 or date % 100 > 31:
        return False
    return clock // 10000 < 24 and clock // 100 % 100 < 60 and clock % 100 < 60


cdef inline bint is_old_time(const uint8_t* data) noexcept nogil:
    """Return whether decimal digits are those of a TIME."""
    cdef int64_t stored = data[0] | data[1] << 8 | <int64_t>data[2] << 16
    if stored & 0x800000:
        stored = 0x1000000 - stored
    return stored // 10000 <= 838 and stored // 100 % 100 < 60 and stored % 100 < 60


cdef inline int64_t unit_us(size_t digits) noexcept nogil:
    """Return the microseconds of one in the last of a fraction's digits."""
    cdef int64_t unit = SECOND_US
    cdef size_t index
    for index in range(digits):
        unit //= 10
    return unit


cdef inline int64_t read_hires_time(const uint8_t* data, size_t size, size_t digits) noexcept nogil:
    """Read a number that is 0 for -838:59:59.999999, less one unit."""
    cdef int64_t unit = unit_us(digits), zero = <int64_t>(838 * 3600 + 59 * 60 + 60) * (SECOND_US // unit)
    return (<int64_t>load_big(data, size) - zero) * unit


cdef inline bint read_hires_datetime(
    const uint8_t* data, size_t size, size_t digits, int64_t* out
) noexcept nogil:
    """Read ((((year * 13 + month) * 32 + day) * 24 + hour) * 60 + minute) * 60 + second, and the fraction."""
    cdef uint64_t units = <uint64_t>(SECOND_US // unit_us(digits))
    cdef uint64_t stored = load_big(data, size), seconds = stored // units, days = seconds // 86400
    cdef int64_t day = 0
    cdef bint is_date = day_of(days // 32 // 13, days // 32 % 13, days % 32, &day)
    if not is_date:
        day = no_date(days // 32 // 13, days // 32 % 13, days % 32)
    out[0] = day * DAY_US + <int64_t>(seconds % 86400) * SECOND_US + <int64_t>(stored % units) * unit_us(digits)
    if not is_date:
        out[0] += INT64_MIN
    return is_date


cdef inline bint read_hires_timestamp(
    const uint8_t* data, size_t size, size_t digits, int64_t* out
) noexcept nogil:
    """Read 4 bytes of seconds and the fraction, both big-endian; all zeros is the zero date."""
    cdef uint64_t seconds = load_big(data, 4), rest = load_big(data + 4, size - 4)
    out[0] = <int64_t>seconds * SECOND_US + <int64_t>rest * unit_us(digits) if seconds | rest else INT64_MIN
    return (seconds | rest) != 0
