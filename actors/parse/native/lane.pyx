"""Lane: rows events that follow one another in one table, without a step of Python for each.

`lane.pyi` says what callers see. Layout of an event's header: see `actors.parse.events`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from actors.parse.native.columns cimport Reader
from actors.parse.native.crc32 cimport crc32, make_tables
from actors.parse.native.images cimport DELETE, INSERT, UPDATE, RowBuffers
from actors.parse.native.numbers cimport load16, load32

import zlib

cdef enum:
    HEADER_SIZE = 19
    CHECKSUM_SIZE = 4
    ID_SIZE = 6
    #: of a TABLE_MAP: the id and two bytes of flags
    TABLE_HEAD = 8
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    DELETE_ROWS_V1 = 25
    WRITE_ROWS = 30
    DELETE_ROWS = 32
    ARTIFICIAL = 0x20
    #: from here on zlib is faster, call included
    ZLIB_BYTES = 512

make_tables()


cdef class RowsLane:
    #: end of the last event: where it was set, which may be any number, and what was taken since
    cdef object begin
    cdef long long advanced
    cdef uint32_t log_pos
    cdef readonly bint is_open
    cdef bint prepared
    cdef bint checksum
    cdef bytes version
    cdef bytes table_id
    cdef RowBuffers rows
    cdef int header
    cdef long long row
    cdef size_t rows_left
    cdef size_t bytes_left
    cdef size_t rows_taken
    cdef size_t bytes_taken

    def __cinit__(self):
        self.offset = 0

    @property
    def offset(self):
        return self.begin + self.advanced

    @offset.setter
    def offset(self, value):
        self.begin, self.advanced, self.log_pos = value, 0, value & <long long>0xFFFFFFFF

    def prepare(
        self,
        bytes body not None,
        bytes version not None,
        RowBuffers rows not None,
        int header,
        long long row,
        long long rows_left,
        long long bytes_left,
    ):
        self.prepared = rows_left > 0 and bytes_left > 0 and len(body) > ID_SIZE
        if self.prepared:
            self.table_id, self.version, self.rows = body[:ID_SIZE], version, rows
            self.header, self.row = header, row
            self.rows_left, self.bytes_left = rows_left, bytes_left

    def enter(self, bint checksum):
        self.is_open, self.checksum = self.prepared, checksum

    def leave(self):
        cdef size_t rows = self.rows_taken, size = self.bytes_taken
        self.is_open = self.prepared = False
        self.rows_taken = self.bytes_taken = 0
        self.rows = None
        return rows, size

    def take(self, bytes event not None):
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(event)
        cdef size_t size = PyBytes_GET_SIZE(event), end
        cdef int kind
        if not self.is_open or size < HEADER_SIZE + CHECKSUM_SIZE + TABLE_HEAD:
            return 0
        kind = data[4]
        if not (
            kind == TABLE_MAP or WRITE_ROWS <= kind <= DELETE_ROWS or WRITE_ROWS_V1 <= kind <= DELETE_ROWS_V1
        ):
            return 0
        if load32(data + 9) != size or load16(data + 17) & ARTIFICIAL:
            return 0
        if not load32(data + 13) or load32(data + 13) != <uint32_t>(self.log_pos + size):
            return 0
        if memcmp(data + HEADER_SIZE, PyBytes_AS_STRING(self.table_id), ID_SIZE):
            return 0
        end = size
        if self.checksum:
            end = size - CHECKSUM_SIZE
            if load32(data + end) != (
                crc32(data, end) if end < ZLIB_BYTES else <uint32_t>zlib.crc32(memoryview(event)[:-CHECKSUM_SIZE])
            ):
                return 0
        if kind == TABLE_MAP:
            if not self._is_known(data + HEADER_SIZE + TABLE_HEAD, end - HEADER_SIZE - TABLE_HEAD):
                return 0
        elif not self._take_rows(kind, data + HEADER_SIZE, end - HEADER_SIZE):
            return 0
        self.advanced += size
        self.log_pos += <uint32_t>size
        return kind

    cdef bint _is_known(self, const uint8_t* version, size_t size):
        return (
            size == <size_t>PyBytes_GET_SIZE(self.version)
            and memcmp(version, PyBytes_AS_STRING(self.version), size) == 0
        )

    cdef bint _take_rows(self, int kind, const uint8_t* body, size_t size) except -1:
        """Add an event's rows; False, and nothing was changed, if they are not for the lane."""
        cdef size_t first = self.rows.rows, zero_dates = self.rows.zero_dates, count = 0
        cdef int version = 2 if kind >= WRITE_ROWS else 1
        cdef int op = INSERT + kind - (WRITE_ROWS if version == 2 else WRITE_ROWS_V1)
        cdef Reader reader
        if size >= self.bytes_left:
            return False
        reader.begin = reader.at = body
        reader.end = body + size
        if self.rows.read(&reader, op, version, ID_SIZE, self.header, self.row, 0, &count):
            return False
        if count >= self.rows_left:
            self.rows.take_back(first, zero_dates)
            return False
        self.row += count
        self.rows_left -= count
        self.rows_taken += count
        if count:
            self.bytes_left -= size
            self.bytes_taken += size
        return True


def checksum_of(bytes data not None):
    return crc32(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
