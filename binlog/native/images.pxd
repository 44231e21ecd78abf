"""What `fast_path` sees of `images`."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from canal_group.binlog.native.columns cimport Plan, Reader, Side
from canal_group.binlog.native.partial cimport Partial


#: what happened to a row; `canal_group.merge.values.chunk.Op`
cdef enum:
    INSERT = 1
    UPDATE = 2
    DELETE = 3
    READ = 64


cdef class Layout:
    cdef Plan* plans
    cdef readonly Py_ssize_t columns
    #: bytes that one image of a row holds beside values of any size
    cdef readonly size_t image_bytes
    cdef list _kept

    cdef bint _describe(self, Plan* plan, str kind, int size, int scale, tuple members) except -1
    cdef int _keep_members(self, Plan* plan, tuple members) except -1


cdef class RowBuffers:
    cdef readonly Layout layout
    cdef readonly size_t zero_dates
    cdef size_t rows
    cdef size_t capacity
    cdef int32_t* headers
    cdef int64_t* ordinals
    cdef uint8_t* ops
    cdef Side before
    cdef Side after
    #: whether the images of the event that is read hold every column, as they are
    cdef bint is_whole
    cdef Partial partial
    #: of the last header: where its rows begin, and the zero dates before them
    cdef int32_t last_header
    cdef size_t mark_rows
    cdef size_t mark_zero_dates
    cdef bint busy
    #: bytes that a row may hold, see `ROW_BYTES_MAX`
    cdef public size_t row_bytes_max
    cdef readonly size_t held
    cdef readonly size_t rest_at
    cdef readonly Py_ssize_t large_column
    cdef readonly size_t large_bytes

    cdef int _read(
        self, Reader* reader, int op, int header, int64_t row_begin, size_t skip, size_t held_max, size_t* count
    ) noexcept nogil
    cdef int _verify(self, Reader* reader, int op, size_t first, size_t zero_dates) noexcept nogil
    cdef size_t _row_bytes(self, int op) noexcept nogil
    cdef int _read_head(self, Reader* reader, int op, int version, int id_size) noexcept nogil
    cdef int _read_row(self, Reader* reader, int op, int header, int64_t ordinal) noexcept nogil
    cdef int _read_side(self, Side* side, Reader* reader, const Side* before) noexcept nogil
    cdef int _make_room(self, size_t rows) noexcept nogil
    cdef void _expect(self, Side* side, const Side* other, size_t rows) noexcept nogil
    cdef void take_back(self, size_t rows, size_t zero_dates) noexcept nogil
    cdef tuple _take_column(self, Side* side, size_t index)
