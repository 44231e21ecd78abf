"""GTIDs: the fields of the usual GTID events about the transaction that follows them.

Layouts: see `canal_group.binlog.formats.gtid_events`, which reads all of them. Unusual events are not read here: parts of
XA transactions and of ALTERs, statements on their own, numbers that no GTID has.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t


cdef enum:
    UUID_BYTES = 16
    TAG_BYTES_MAX = 32
    #: of a GTID event of MySQL: flags, uuid, number; then the logical clock, its type first; the commit time
    CLOCK_AT = 25
    COMMIT_AT = 42
    COMMIT_BYTES = 7
    LOGICAL_CLOCK = 2
    #: bit of the commit time: the original server's follows
    ORIGINAL_BIT = 55
    SERVER_BYTES = 4
    #: flags of MariaDB's
    STANDALONE = 0x01
    GROUP_COMMIT_ID = 0x02
    XA = 0xC0
    ALTER = 0x0E
    #: fields of a tagged GTID
    TAGGED_FLAGS = 0
    TAGGED_UUID = 1
    TAGGED_NUMBER = 2
    TAGGED_TAG = 3
    TAGGED_COMMIT = 6
    TAGGED_ORIGINAL_COMMIT = 7


cdef struct Start:
    #: of the GTID's source: nothing, MySQL's uuid and tag, or MariaDB's domain and server; without GTID the server that
    #: committed first, if the commit time is its own
    uint8_t key[UUID_BYTES + TAG_BYTES_MAX]
    size_t key_size
    int64_t number
    #: microseconds; 0: the event's header says when
    int64_t commit_us
    #: the phase that follows
    int phase


cdef bint read_mysql_gtid(
    Start* start, const uint8_t* body, size_t size, uint32_t server, bint anonymous, bint original
) noexcept nogil


cdef bint read_mariadb_gtid(Start* start, const uint8_t* body, size_t size, uint32_t server) noexcept nogil


cdef struct Message:
    const uint8_t* at
    const uint8_t* end


cdef bint read_tagged_gtid(Start* start, const uint8_t* body, size_t size, bint original) noexcept nogil
