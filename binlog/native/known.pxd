"""Known: the tables and GTID sources that the fast path has learned from the grammar.

The low bits of a table's id give its slot; two tables that share a slot replace each other.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from canal_group.binlog.native.gtids cimport TAG_BYTES_MAX, UUID_BYTES, Start


cdef enum:
    TABLES = 1024
    SOURCES = 16
    ID_SIZE = 6
    #: of a TABLE_MAP: the id and two bytes of flags
    TABLE_HEAD = 8


cdef enum Known:
    #: its table map was read
    MAPPED
    #: and it is not selected
    LEFT_OUT
    #: and its rows are gathered
    GATHERED


cdef struct Table:
    uint64_t id
    #: its table map after id and flags; NULL: the slot is empty
    const uint8_t* version
    size_t version_size
    Known known
    #: where its rows go
    void* rows


cdef struct Source:
    uint8_t key[UUID_BYTES + TAG_BYTES_MAX]
    size_t key_size
    #: index of its name in the chunk
    uint32_t name


cdef struct Sources:
    Source entries[SOURCES]
    size_t count
    #: index of the last one that was looked up
    size_t last


cdef size_t slot_of(const uint8_t* body) noexcept nogil


cdef Table* table_of(Table* tables, const uint8_t* body, size_t size) noexcept nogil


cdef bint is_version(const Table* table, const uint8_t* version, size_t size) noexcept nogil


cdef Source* source_of(Sources* sources, const Start* start) noexcept nogil
