"""Known: the bodies of the functions that `known.pxd` declares and describes."""

from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from canal_group.binlog.native.gtids cimport Start
from canal_group.binlog.native.numbers cimport load_little


cdef size_t slot_of(const uint8_t* body) noexcept nogil:
    """Return the slot of the table whose id, 6 bytes, a body begins with."""
    return load_little(body, 2) % TABLES


cdef Table* table_of(Table* tables, const uint8_t* body, size_t size) noexcept nogil:
    """Return the table that a body begins with; NULL if it is unknown."""
    cdef Table* table
    if size < ID_SIZE:
        return NULL
    table = &tables[slot_of(body)]
    return table if table.version != NULL and table.id == load_little(body, ID_SIZE) else NULL


cdef bint is_version(const Table* table, const uint8_t* version, size_t size) noexcept nogil:
    return size == table.version_size and memcmp(version, table.version, size) == 0


cdef Source* source_of(Sources* sources, const Start* start) noexcept nogil:
    """Return the source of a GTID; NULL if the chunk has no name for it."""
    cdef size_t step, index = sources.last
    cdef Source* source
    for step in range(sources.count):
        source = &sources.entries[index]
        if source.key_size == start.key_size and memcmp(source.key, start.key, start.key_size) == 0:
            sources.last = index
            return source
        index = index + 1 if index + 1 < sources.count else 0
    return NULL
