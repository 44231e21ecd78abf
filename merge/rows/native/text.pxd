"""Texts of a column's values, written one by one from the last byte to the first.

`Values` has checked what a `Column` points to: rows from 0 to `rows - 1` may be read, and their texts have at most
`size_max` bytes together.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef enum Kind:
    INT8
    INT16
    INT32
    INT64
    UINT8
    UINT16
    UINT32
    UINT64
    FLOAT
    DOUBLE
    #: 128 bits
    DECIMAL
    #: 256 bits
    WIDE_DECIMAL
    #: microseconds since 1970
    DATETIME
    #: microseconds
    TIME
    #: from here on values with offsets
    TEXT
    #: bytes, each of which is the ISO-8859-1 character of its number
    LATIN1
    #: numbers of texts
    DICTIONARY


cdef struct Column:
    Kind kind
    #: bytes of a value; 0: it has offsets
    int width
    #: values, from row 0 on; bytes of the texts
    const uint8_t* data
    const int32_t* offsets
    #: of a dictionary: which text each row has
    const int32_t* indexes
    #: digits after the point
    int digits
    #: Arrow's validity bitmap, and the bit of row 0; NULL: all rows are valid
    const uint8_t* valid
    int64_t valid_offset


cdef class Values:
    cdef Column column
    cdef readonly Py_ssize_t rows
    cdef readonly int64_t size_max
    cdef readonly str kind
    #: what the pointers point into
    cdef tuple _owners

    cdef int _check_datetimes(self) except -1
    cdef int _check_indexes(self, Values members) except -1
    cdef int _check_offsets(self) except -1


cdef inline bint is_null(const Column* column, Py_ssize_t row) noexcept nogil:
    cdef int64_t bit = column.valid_offset + row
    return column.valid != NULL and not column.valid[bit >> 3] >> (bit & 7) & 1


#: writes the text of a valid value, so that it ends at `at`; returns where it begins
cdef uint8_t* write_text(uint8_t* at, const Column* column, Py_ssize_t row) noexcept nogil
#: whether values of two columns can be compared
cdef bint are_alike(const Column* one, const Column* other) noexcept nogil
#: whether two valid values have the same text, of columns that are alike
cdef bint is_same(const Column* one, const Column* other, Py_ssize_t row) noexcept nogil
#: whether a valid value is an unsigned integer above a number
cdef bint is_above(const Column* column, Py_ssize_t row, uint64_t number) noexcept nogil
