"""Accumulator: the headers of a chunk, and the transaction that is open, for both ways of reading events.

`accumulator.pyi` describes its interface.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef enum:
    #: bits of `canal_group.merge.values.header.Flag`
    BEGIN = 1
    END = 2
    DDL = 4

HEADER_BYTES = sizeof(Header)


cdef class Accumulator:
    def __cinit__(self, int64_t bytes_max, int64_t rows_max, int64_t headers_max):
        self.bytes_max, self.rows_max, self.headers_max = bytes_max, rows_max, headers_max
        self.phase = IDLE
        self.current_file = -1

    def __dealloc__(self):
        free(self.headers)

    def __len__(self):
        return self.count

    @property
    def full(self):
        return (
            self.bytes >= self.bytes_max
            or self.rows >= self.rows_max
            or <int64_t>self.count >= self.headers_max
        )

    @property
    def has_rows(self):
        return self.open_rows > 0

    def begin(
        self,
        uint32_t file,
        int64_t begin_offset,
        int64_t commit_us,
        uint32_t source,
        int64_t number,
        int64_t skip,
    ):
        self.current_file = <int32_t>file
        self.start(file, begin_offset, commit_us, source, number)
        self.skip = self.row_begin = skip
        self.cut = skip > 0

    cdef void start(
        self, uint32_t file, int64_t begin_offset, int64_t commit_us, uint32_t source, int64_t number
    ) noexcept nogil:
        self.is_open = True
        self.begun += 1
        self.file, self.source, self.number = file, source, number
        self.begin_offset, self.commit_us = begin_offset, commit_us
        self.row = self.row_begin = self.skip = self.open_rows = self.open_bytes = 0
        self.cut = self.ddl = False

    def add(self, int64_t rows, int64_t added, int64_t size):
        self.count_rows(rows, added, size)

    cdef void count_rows(self, int64_t rows, int64_t added, int64_t size) noexcept nogil:
        self.row += rows
        if added:
            self.open_rows += added
            self.open_bytes += size
            self.rows += added
            self.bytes += size

    def mark_ddl(self):
        self.ddl = True

    def end_header(self, int64_t end_offset, bint last):
        if not self.close_header(end_offset, last):
            raise MemoryError

    cdef bint close_header(self, int64_t end_offset, bint last) noexcept nogil:
        """Write the header of the gathered part of the open transaction; False if there is no memory for it."""
        cdef size_t capacity
        cdef void* moved
        cdef Header* header
        if self.count == self.capacity:
            capacity = self.capacity * 2 if self.capacity else 64
            moved = realloc(self.headers, capacity * sizeof(Header))
            if moved == NULL:
                return False
            self.headers = <Header*>moved
            self.capacity = capacity
        header = &self.headers[self.count]
        memset(header, 0, sizeof(Header))
        header.flags = (0 if self.cut else BEGIN) | (END if last else 0) | (DDL if self.ddl else 0)
        header.rows = <int32_t>self.open_rows
        header.row_begin = self.row_begin
        # A selection that was narrowed since can leave fewer rows than were handed over before.
        header.row_end = self.row if self.row > self.row_begin else self.row_begin
        header.bytes = self.open_bytes if self.open_bytes > 1 else 1
        header.commit_us = self.commit_us
        header.file = self.file
        header.begin_offset = self.begin_offset
        header.end_offset = end_offset
        header.gtid_source = self.source
        header.gtid_number = self.number
        self.count += 1
        self.cut, self.row_begin = True, header.row_end
        self.open_rows = self.open_bytes = 0
        if last:
            self.is_open = False
        return True

    def discard(self):
        self.rows -= self.open_rows
        self.bytes -= self.open_bytes
        self.open_rows = self.open_bytes = 0
        self.is_open = False

    def restart(self):
        self.rows -= self.open_rows
        self.bytes -= self.open_bytes
        self.row = self.row_begin = self.open_rows = self.open_bytes = 0
        self.ddl = False

    @property
    def was_cut(self):
        return self.cut

    def take(self):
        cdef bytes headers = PyBytes_FromStringAndSize(<const char*>self.headers, self.count * sizeof(Header))
        self.count = 0
        self.rows = self.bytes = 0
        self.current_file = -1
        return headers

    def rename(self, uint32_t file, uint32_t source):
        self.file, self.source = file, source
