"""Text of values: what Arrow's functions would write in many passes, one value after another.

`text.pyi` describes its interface, `text.pxd` the part that other loops use.
"""

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcmp, memcpy

import numpy as np

from canal_group.merge.values.native.digits cimport TENS, write_digits, write_padded, write_pair
from canal_group.merge.values.native.doubles cimport DOUBLE_CHARS, write_double, write_float

cdef extern from *:
    """
    #define CANAL_GROUP_DAY_US 86400000000LL
    #define CANAL_GROUP_DATETIME_MIN (-719528 * CANAL_GROUP_DAY_US)
    #define CANAL_GROUP_DATETIME_MAX (2932897 * CANAL_GROUP_DAY_US - 1)
    #define CANAL_GROUP_HIGH_BITS 0x8080808080808080ULL
    """
    ctypedef unsigned long long uint128_t "unsigned __int128"
    const int64_t DAY "CANAL_GROUP_DAY_US"
    #: the first and the last moment of the years from 0 to 9999
    const int64_t DATETIME_MIN "CANAL_GROUP_DATETIME_MIN"
    const int64_t DATETIME_MAX "CANAL_GROUP_DATETIME_MAX"
    #: the bits that no ASCII character has
    const uint64_t HIGH_BITS "CANAL_GROUP_HIGH_BITS"

cdef enum:
    SECOND = 1_000_000
    #: most digits of a fraction of a second, and after the point of a decimal of 128 and of 256 bits
    FRACTION = 6
    SCALE = 38
    WIDE_SCALE = 76
    #: digits of a part of a large decimal, and its most parts
    EIGHTEEN_DIGITS = 18
    PARTS_MAX = 5
    #: the first day of year 0, and the first of March 400 years before, in days before 1970
    DAY_MIN = -719_528
    MARCH = 719_468 + 146_097
    #: most bytes of a value's text that has no offsets
    TEXT_CHARS = 80

#: kind -> its number, bytes of a value, and the most bytes of its text
_KINDS = {
    "int8": (INT8, 1, 4),
    "int16": (INT16, 2, 6),
    "int32": (INT32, 4, 11),
    "int64": (INT64, 8, 20),
    "uint8": (UINT8, 1, 3),
    "uint16": (UINT16, 2, 5),
    "uint32": (UINT32, 4, 10),
    "uint64": (UINT64, 8, 20),
    "float": (FLOAT, 4, DOUBLE_CHARS),
    "double": (DOUBLE, 8, DOUBLE_CHARS),
    "decimal": (DECIMAL, 16, 42),
    "wide_decimal": (WIDE_DECIMAL, 32, 80),
    "datetime": (DATETIME, 8, 26),
    "time": (TIME, 8, 24),
    "text": (TEXT, 0, 1),
    "latin1": (LATIN1, 0, 2),
    "dictionary": (DICTIONARY, 4, 0),
}
_DIGITS_MAX = {"decimal": SCALE, "wide_decimal": WIDE_SCALE, "datetime": FRACTION, "time": FRACTION}


cdef const uint8_t* _memory(buffer, Py_ssize_t size) except? NULL:
    """Return where a buffer begins that has at least `size` bytes; NULL, if none are needed."""
    if not size:
        return NULL
    if buffer is None or buffer.size < size:
        raise ValueError("a column without the values of its rows")
    return <const uint8_t*><size_t>buffer.address


cdef class Values:
    def __cinit__(
        self, str kind, Py_ssize_t rows, Py_ssize_t offset, buffers, *, int digits=0, Values members=None
    ):
        cdef Column* column = &self.column
        cdef Py_ssize_t width, chars
        column.kind, width, chars = _KINDS[kind]
        self.kind, self.rows, self._owners = kind, rows, (tuple(buffers), members)
        if not (0 <= rows < 0x7fffffff and 0 <= offset < 0x7fffffff):
            raise ValueError("a column of more rows than there can be")
        if not 0 <= digits <= _DIGITS_MAX.get(kind, 0):
            raise ValueError("a number of digits that its kind cannot have")
        if (column.kind == DICTIONARY) != (members is not None and members.column.kind == TEXT):
            raise ValueError("a dictionary without its texts, or texts without their dictionary")
        column.digits, column.width, column.valid, column.valid_offset = digits, width, NULL, offset
        column.data, column.offsets, column.indexes = NULL, NULL, NULL
        self.size_max = rows * chars
        if not rows:
            return
        if self._owners[0][0] is not None:
            column.valid = _memory(self._owners[0][0], (offset + rows + 7) // 8)
        column.data = _memory(self._owners[0][1], (offset + rows) * width) + offset * width if width else NULL
        if column.kind == DATETIME:
            self._check_datetimes()
        elif column.kind == DICTIONARY:
            column.indexes = <const int32_t*>column.data
            column.data, column.offsets = members.column.data, members.column.offsets
            self._check_indexes(members)
        elif column.kind >= TEXT:
            column.offsets = <const int32_t*>_memory(self._owners[0][1], (offset + rows + 1) * 4) + offset
            self._check_offsets()
            self.size_max = (column.offsets[rows] - <int64_t>column.offsets[0]) * chars

    cdef int _check_datetimes(self) except -1:
        cdef Py_ssize_t row
        cdef const int64_t* micros = <const int64_t*>self.column.data
        for row in range(self.rows):
            if not DATETIME_MIN <= micros[row] <= DATETIME_MAX and not is_null(&self.column, row):
                raise ValueError("a date of no year from 0 to 9999")
        return 0

    cdef int _check_indexes(self, Values members) except -1:
        cdef Py_ssize_t row
        cdef int32_t index
        for row in range(self.rows):
            if is_null(&self.column, row):
                continue
            index = self.column.indexes[row]
            if not 0 <= index < members.rows or is_null(&members.column, index):
                raise ValueError("a value that its dictionary does not have")
            self.size_max += members.column.offsets[index + 1] - members.column.offsets[index]
        return 0

    cdef int _check_offsets(self) except -1:
        cdef Py_ssize_t row
        cdef const int32_t* offsets = self.column.offsets
        if offsets[0] < 0:
            raise ValueError("a text before its column's bytes")
        for row in range(self.rows):
            if offsets[row] > offsets[row + 1]:
                raise ValueError("a text that ends before it begins")
        self.column.data = _memory(self._owners[0][2], offsets[self.rows])
        return 0

    def texts(self):
        cdef Py_ssize_t row
        cdef uint8_t* first
        cdef uint8_t* at
        cdef uint8_t[::1] block
        cdef int32_t[::1] begins
        if self.size_max > 0x7fffffff:
            raise ValueError("more text than a column holds")
        data, offsets = np.empty(self.size_max + 1, np.uint8), np.empty(self.rows + 1, np.int32)
        block, begins = data, offsets
        first = &block[0]
        at = first + self.size_max
        with nogil:
            begins[self.rows] = <int32_t>self.size_max
            for row in range(self.rows - 1, -1, -1):
                if not is_null(&self.column, row):
                    at = write_text(at, &self.column, row)
                begins[row] = <int32_t>(at - first)
        return offsets - offsets[0], data[offsets[0] : self.size_max]


# ---- texts of each kind


cdef inline uint8_t* _write_signed(uint8_t* at, int64_t value) noexcept nogil:
    if value >= 0:
        return write_digits(at, <uint64_t>value)
    at = write_digits(at, 0 - <uint64_t>value) - 1
    at[0] = 45
    return at


cdef inline uint8_t* _write_clock(uint8_t* at, uint64_t micros, int digits) noexcept nogil:
    """Write HH:MM:SS and `digits` of the fraction; hours may be any number."""
    cdef uint64_t seconds = micros // SECOND
    cdef uint32_t of_hour = <uint32_t>(seconds % 3_600)
    if digits:
        at = write_padded(at, micros % SECOND // TENS[FRACTION - digits], digits) - 1
        at[0] = 46
    at = write_pair(at, of_hour % 60) - 1
    at[0] = 58
    at = write_pair(at, of_hour // 60) - 1
    at[0] = 58
    seconds //= 3_600
    return write_pair(at, <uint32_t>seconds) if seconds < 100 else write_digits(at, seconds)


cdef inline uint8_t* _write_date(uint8_t* at, int64_t day) noexcept nogil:
    """Write YYYY-MM-DD and a space for a day since 1970, of years from 0 to 9999.

    Days are counted from the first of March, so that the leap day is the last one of its year. Products and
    shifts stand for divisions; see Neri and Schneider, "Euclidean affine functions and their application to
    calendar algorithms".
    """
    cdef uint32_t days = 4 * <uint32_t>(day + MARCH) + 3
    cdef uint32_t century = days // 146_097
    cdef uint32_t of_century = days % 146_097 | 3
    cdef uint64_t product = <uint64_t>2_939_745 * of_century
    cdef uint32_t of_year = <uint32_t>product // 2_939_745 // 4
    cdef uint32_t month = 2_141 * of_year + 197_913
    # In January and February the next year has begun.
    cdef uint32_t year = 100 * century + <uint32_t>(product >> 32) + (of_year >= 306) - 400
    at -= 1
    at[0] = 32
    at = write_pair(at, (month & 0xFFFF) // 2_141 + 1) - 1
    at[0] = 45
    at = write_pair(at, (month >> 16) - (12 if of_year >= 306 else 0)) - 1
    at[0] = 45
    return write_pair(write_pair(at, year % 100), year // 100)


cdef inline uint8_t* _write_datetime(uint8_t* at, int64_t micros, int digits) noexcept nogil:
    cdef uint64_t since = <uint64_t>(micros - DATETIME_MIN)
    cdef uint64_t day = since // <uint64_t>DAY
    at = _write_clock(at, since - day * <uint64_t>DAY, digits)
    return _write_date(at, <int64_t>day + DAY_MIN)


cdef uint8_t* _write_large_decimal(uint8_t* at, uint64_t* words, int count, int scale) noexcept nogil:
    """Write an amount of `count` words, the lowest first, with `scale` digits after its point; the words change."""
    cdef uint8_t[PARTS_MAX * EIGHTEEN_DIGITS] text
    cdef uint8_t* end = text + PARTS_MAX * EIGHTEEN_DIGITS
    cdef uint8_t* begin = end
    cdef uint128_t rest
    cdef int part, index, whole
    for part in range(PARTS_MAX if count > 2 else 3):
        rest = 0
        for index in range(count - 1, -1, -1):
            rest = rest << 64 | words[index]
            words[index] = <uint64_t>(rest // TENS[EIGHTEEN_DIGITS])
            rest = rest % TENS[EIGHTEEN_DIGITS]
        begin = write_padded(begin, <uint64_t>rest, EIGHTEEN_DIGITS)
    while begin < end - scale - 1 and begin[0] == 48:
        begin += 1
    whole = <int>(end - begin) - scale
    if scale:
        at -= scale + 1
        at[0] = 46
        memcpy(at + 1, begin + whole, scale)
    memcpy(at - whole, begin, whole)
    return at - whole


cdef inline uint8_t* _write_decimal(uint8_t* at, const uint64_t* stored, int count, int scale) noexcept nogil:
    """Write a decimal of `count` words, 2 or 4, in two's complement."""
    cdef uint64_t[4] words
    cdef uint64_t sign = 0 - (stored[count - 1] >> 63), high = 0
    cdef uint128_t sum = sign & 1
    cdef int index
    for index in range(count):
        sum += stored[index] ^ sign
        words[index] = <uint64_t>sum
        sum >>= 64
        high |= words[index] if index else 0
    if high or scale > EIGHTEEN_DIGITS:
        at = _write_large_decimal(at, words, count, scale)
    elif scale:
        at = write_padded(at, words[0] % TENS[scale], scale) - 1
        at[0] = 46
        at = write_digits(at, words[0] // TENS[scale])
    else:
        at = write_digits(at, words[0])
    if sign:
        at -= 1
        at[0] = 45
    return at


cdef inline uint8_t* _write_bytes(uint8_t* at, const uint8_t* data, int64_t size) noexcept nogil:
    """Write texts as they are: nothing is copied from nowhere."""
    at -= size
    if size:
        memcpy(at, data, size)
    return at


cdef uint8_t* _write_latin1(uint8_t* at, const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint64_t word
    cdef uint8_t byte
    while size:
        if size >= 8:
            memcpy(&word, data + size - 8, 8)
            if not word & HIGH_BITS:
                at, size = at - 8, size - 8
                memcpy(at, &word, 8)
                continue
        size -= 1
        byte = data[size]
        if byte < 0x80:
            at -= 1
            at[0] = byte
        else:
            at -= 2
            at[0], at[1] = 0xC0 | byte >> 6, 0x80 | byte & 0x3F
    return at


cdef uint8_t* write_text(uint8_t* at, const Column* column, Py_ssize_t row) noexcept nogil:
    cdef const uint8_t* data = column.data
    cdef int32_t index
    if column.kind == TEXT:
        return _write_bytes(at, data + column.offsets[row], column.offsets[row + 1] - column.offsets[row])
    if column.kind == INT32:
        return _write_signed(at, (<const int32_t*>data)[row])
    if column.kind == INT64:
        return _write_signed(at, (<const int64_t*>data)[row])
    if column.kind == UINT64:
        return write_digits(at, (<const uint64_t*>data)[row])
    if column.kind == DATETIME:
        return _write_datetime(at, (<const int64_t*>data)[row], column.digits)
    if column.kind == DECIMAL:
        return _write_decimal(at, <const uint64_t*>data + 2 * row, 2, column.digits)
    if column.kind == WIDE_DECIMAL:
        return _write_decimal(at, <const uint64_t*>data + 4 * row, 4, column.digits)
    if column.kind == DOUBLE:
        return write_double(at, (<const uint64_t*>data)[row])
    if column.kind == DICTIONARY:
        index = column.indexes[row]
        return _write_bytes(at, data + column.offsets[index], column.offsets[index + 1] - column.offsets[index])
    if column.kind == LATIN1:
        return _write_latin1(at, data + column.offsets[row], column.offsets[row + 1] - column.offsets[row])
    if column.kind == INT8:
        return _write_signed(at, (<const int8_t*>data)[row])
    if column.kind == INT16:
        return _write_signed(at, (<const int16_t*>data)[row])
    if column.kind == UINT8:
        return write_digits(at, data[row])
    if column.kind == UINT16:
        return write_digits(at, (<const uint16_t*>data)[row])
    if column.kind == UINT32:
        return write_digits(at, (<const uint32_t*>data)[row])
    if column.kind == FLOAT:
        return write_float(at, (<const uint32_t*>data)[row])
    # TIME
    if (<const int64_t*>data)[row] >= 0:
        return _write_clock(at, (<const uint64_t*>data)[row], column.digits)
    at = _write_clock(at, 0 - (<const uint64_t*>data)[row], column.digits) - 1
    at[0] = 45
    return at


# ---- comparing


cdef bint are_alike(const Column* one, const Column* other) noexcept nogil:
    cdef bint texts = (one.kind == TEXT or one.kind == DICTIONARY) and (
        other.kind == TEXT or other.kind == DICTIONARY
    )
    return texts or (one.kind == other.kind and one.digits == other.digits)


cdef bint is_same(const Column* one, const Column* other, Py_ssize_t row) noexcept nogil:
    cdef uint8_t[2][TEXT_CHARS] texts
    cdef uint8_t* begin
    cdef uint8_t* was
    cdef int64_t size, width = one.width
    cdef Py_ssize_t index = row, before = row
    if one.kind < TEXT:
        if memcmp(one.data + row * width, other.data + row * width, width) == 0:
            return True
        # Numbers that differ may print alike: digits that a column does not have, kinds of NaN.
        begin, was = write_text(texts[0] + TEXT_CHARS, one, row), write_text(texts[1] + TEXT_CHARS, other, row)
        size = texts[0] + TEXT_CHARS - begin
        return size == texts[1] + TEXT_CHARS - was and memcmp(begin, was, size) == 0
    if one.kind == DICTIONARY:
        index = one.indexes[row]
    if other.kind == DICTIONARY:
        before = other.indexes[row]
    size = one.offsets[index + 1] - one.offsets[index]
    if size != other.offsets[before + 1] - other.offsets[before]:
        return False
    return size == 0 or memcmp(one.data + one.offsets[index], other.data + other.offsets[before], size) == 0


cdef bint is_above(const Column* column, Py_ssize_t row, uint64_t number) noexcept nogil:
    if column.kind == UINT64:
        return (<const uint64_t*>column.data)[row] > number
    if column.kind == UINT32:
        return (<const uint32_t*>column.data)[row] > number
    if column.kind == UINT16:
        return (<const uint16_t*>column.data)[row] > number
    return column.kind == UINT8 and column.data[row] > number
