"""The part of `accumulator` that `fast_path` uses."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t


#: the state of reading
cdef enum:
    IDLE = 0
    ANNOUNCED = 1
    INSIDE = 2

#: a record of `canal_group.merge.values.header.HEADER`
cdef packed struct Header:
    int64_t sequence
    uint16_t shard
    uint16_t flags
    int32_t rows
    int64_t row_begin
    int64_t row_end
    int64_t bytes
    int64_t commit_us
    int64_t key_us
    uint32_t file
    int64_t begin_offset
    int64_t end_offset
    uint32_t gtid_source
    int64_t gtid_number
    int64_t order_id
    int64_t order_key


cdef class Accumulator:
    cdef readonly int64_t bytes_max
    cdef readonly int64_t rows_max
    cdef readonly int64_t headers_max
    cdef readonly int64_t bytes
    cdef readonly int64_t rows
    cdef Header* headers
    cdef size_t count
    cdef size_t capacity
    cdef public int phase
    cdef public int32_t current_file
    cdef readonly int64_t begun
    cdef readonly bint is_open
    cdef readonly uint32_t file
    cdef readonly uint32_t source
    cdef readonly int64_t row
    cdef readonly int64_t skip
    cdef readonly int64_t number
    cdef readonly int64_t begin_offset
    cdef int64_t commit_us
    cdef readonly int64_t row_begin
    cdef int64_t open_rows
    cdef int64_t open_bytes
    cdef bint cut
    cdef bint ddl

    cdef void start(
        self, uint32_t file, int64_t begin_offset, int64_t commit_us, uint32_t source, int64_t number
    ) noexcept nogil
    cdef void count_rows(self, int64_t rows, int64_t added, int64_t size) noexcept nogil
    cdef bint close_header(self, int64_t end_offset, bint last) noexcept nogil
