"""The part of `partial` that `images` uses."""

from libc.stdint cimport uint8_t

from canal_group.binlog.native.columns cimport Plan, Reader, Side
from canal_group.binlog.native.json_difference cimport Document, Span
from canal_group.binlog.native.memory cimport Bytes


#: which columns an event's images before or after have
cdef struct Present:
    #: a bit for each column, the lowest first; valid while the event is read
    const uint8_t* bits
    #: number of bits that are set
    size_t count


cdef struct Partial:
    Present before
    Present after
    #: whether images after say which JSON columns are differences
    bint differences
    #: bitmaps of the unknown columns, one for each row up to the last with such; later rows have all columns
    Bytes absent_before
    Bytes absent_after
    #: for each column: where the last image before has its JSON; begin and end are NULL where it has none
    Span* documents
    #: memory for changing them
    Document document


cdef void free_partial(Partial* partial) noexcept
cdef bint set_present(Present* present, const uint8_t* bits, size_t columns) noexcept nogil
cdef void take_back_absent(Partial* partial, size_t columns, size_t rows) noexcept nogil
cdef int read_before(
    const Plan* plans, Side* side, Partial* partial, Reader* reader, size_t* zero_dates
) noexcept nogil
cdef int read_after(
    const Plan* plans, const Side* before, Side* side, Partial* partial, Reader* reader, size_t* zero_dates
) noexcept nogil
