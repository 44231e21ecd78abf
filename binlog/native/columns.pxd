"""Columns: how one column's values are stored, and the buffers they go to.

A `Plan` describes how values are stored, for every row; a `Target` holds the buffers, one for each image of a row.
Values of fixed size are in `slots`, `width` bytes a row. Values of any size are in `data`, one after the other,
and `slots` has their offsets, int32, one more than rows. `valid` is Arrow's validity bitmap; bits of later rows
are 1.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from canal_group.binlog.native.faults cimport FINE, ROW_TOO_LARGE
from canal_group.binlog.native.memory cimport Bytes


cdef enum Kind:
    #: little-endian and as wide as its slot: integers, FLOAT, DOUBLE
    PLAIN1
    PLAIN2
    PLAIN4
    PLAIN8
    INT24
    UINT24
    DECIMAL
    DATE
    TIME
    DATETIME
    TIMESTAMP
    TIME2
    DATETIME2
    TIMESTAMP2
    TIME_HIRES
    DATETIME_HIRES
    TIMESTAMP_HIRES
    YEAR
    BIT
    ENUM
    #: from here on values of any size
    SET
    STRING
    BINARY
    JSON
    LIST
    PACKED


cdef struct Plan:
    int kind
    #: bytes read in any case: the value, or the length before it
    size_t stored
    #: bytes of a slot
    size_t width
    #: BINARY: bytes at least; LIST: bytes of an element; ENUM: values; BIT: bits; DECIMAL: digits before the point;
    #: TIME2 and the like: bytes of the fraction; TIME_HIRES and the like: its digits
    size_t size
    #: DECIMAL: digits after the point
    size_t scale
    #: ENUM, SET: the text of its values, one after the other, and where each ends; owned by the plan's owner
    const uint8_t* members
    const uint32_t* ends


cdef struct Target:
    uint8_t* slots
    uint8_t* valid
    Bytes data


#: one image of the rows: before or after their change
cdef struct Side:
    Target* targets
    size_t columns
    #: slots that are filled
    size_t rows
    #: slots there is room for
    size_t capacity


cdef struct Reader:
    const uint8_t* begin
    const uint8_t* at
    const uint8_t* end
    #: bytes that values of the row may still hold
    size_t room
    #: the column whose value has no room, and the bytes of that value
    const Plan* large
    size_t large_bytes


cdef inline int take_room(Reader* reader, const Plan* plan, size_t size) noexcept nogil:
    """Take room for a value; called before the value is made, except for JSON."""
    if reader.room < size:
        reader.large, reader.large_bytes = plan, size
        return ROW_TOO_LARGE
    reader.room -= size
    return FINE


cdef size_t remaining(const Reader* reader) noexcept nogil


cdef bint is_sized(const Plan* plan) noexcept nogil


cdef int make_room(const Plan* plans, Side* side, size_t rows) noexcept nogil


cdef int fill_absent(const Plan* plans, Side* side, size_t rows) noexcept nogil


cdef void take_back(Side* side, size_t rows) noexcept nogil


cdef void put_null(const Plan* plan, Target* target, size_t row) noexcept nogil


cdef size_t member_size(const Plan* plan, size_t number) noexcept nogil


cdef int put_set(const Plan* plan, Bytes* out, uint64_t bits, Reader* reader) noexcept nogil


cdef int put_value(
    const Plan* plan, Target* target, size_t row, Reader* reader, size_t* zero_dates
) noexcept nogil


cdef int read_image(const Plan* plans, Side* side, Reader* reader, size_t* zero_dates) noexcept nogil
