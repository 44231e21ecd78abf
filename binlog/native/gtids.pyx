"""GTIDs: the bodies of the functions that `gtids.pxd` declares and describes."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from canal_group.binlog.native.accumulator cimport ANNOUNCED, INSIDE
from canal_group.binlog.native.numbers cimport load64, load_little


cdef bint read_mysql_gtid(
    Start* start, const uint8_t* body, size_t size, uint32_t server, bint anonymous, bint original
) noexcept nogil:
    """Read a GTID or ANONYMOUS_GTID event; False: it is unusual."""
    cdef uint64_t stamp
    if size < CLOCK_AT:
        return False
    start.phase = ANNOUNCED
    start.commit_us = start.number = 0
    start.key_size = 0
    if not anonymous:
        start.key_size = UUID_BYTES
        memcpy(start.key, body + 1, UUID_BYTES)
        start.number = <int64_t>load64(body + 1 + UUID_BYTES)
    if size >= COMMIT_AT + COMMIT_BYTES and body[CLOCK_AT] == LOGICAL_CLOCK:
        stamp = load_little(body + COMMIT_AT, COMMIT_BYTES)
        start.commit_us = <int64_t>(stamp & ((<uint64_t>1 << ORIGINAL_BIT) - 1))
        if stamp >> ORIGINAL_BIT and original:
            if size < COMMIT_AT + 2 * COMMIT_BYTES:
                return False
            start.commit_us = <int64_t>load_little(body + COMMIT_AT + COMMIT_BYTES, COMMIT_BYTES)
        if anonymous and (original or not stamp >> ORIGINAL_BIT):
            start.key_size = SERVER_BYTES
            memcpy(start.key, &server, SERVER_BYTES)
    return True


cdef bint read_mariadb_gtid(Start* start, const uint8_t* body, size_t size, uint32_t server) noexcept nogil:
    """Read a GTID event of MariaDB; False: it is unusual."""
    cdef size_t at = 13
    cdef uint8_t flags
    if size < at:
        return False
    flags = body[12]
    if flags & GROUP_COMMIT_ID:
        at += 8
    if flags & (STANDALONE | XA) or load64(body) >> 63 or (size > at and body[at] & ALTER):
        return False
    start.phase = INSIDE
    start.commit_us = 0
    start.number = <int64_t>load64(body)
    start.key_size = 8
    memcpy(start.key, body + 8, 4)
    memcpy(start.key + 4, &server, 4)
    return True


cdef inline bint read_varied(Message* message, uint64_t* value) noexcept nogil:
    """Read a number of MySQL's serialization format; False: the message ends in it."""
    cdef size_t more = 0
    cdef uint8_t first
    if message.at == message.end:
        return False
    first = message.at[0]
    while more < 8 and first >> more & 1:
        more += 1
    if <size_t>(message.end - message.at) < more + 1:
        return False
    value[0] = load_little(message.at + 1, more)
    if more < 8:
        value[0] = (value[0] << 8 | first) >> (more + 1)
    message.at += more + 1
    return True


cdef inline int64_t unfolded(uint64_t folded) noexcept nogil:
    return <int64_t>(folded >> 1 ^ (0 - (folded & 1)))


cdef bint read_tagged_gtid(Start* start, const uint8_t* body, size_t size, bint original) noexcept nogil:
    """Read a GTID_TAGGED event; False: it is unusual."""
    cdef Message message
    cdef uint64_t value = 0, must_be_known = 0, field = 0, next_field = 0
    cdef size_t index
    message.at, message.end = body, body + size
    if not read_varied(&message, &value) or value != 1:
        return False
    if not read_varied(&message, &value) or value > size or <size_t>(message.at - body) > value:
        return False
    message.end = body + value
    if not read_varied(&message, &must_be_known):
        return False
    start.phase = ANNOUNCED
    start.key_size = 0
    start.number = start.commit_us = 0
    while message.at < message.end:
        if not read_varied(&message, &field) or field < next_field:
            return False
        if field > TAGGED_ORIGINAL_COMMIT:
            if field <= must_be_known:
                return False
            break
        next_field = field + 1
        if field == TAGGED_UUID:
            for index in range(UUID_BYTES):
                if not read_varied(&message, &value) or value > 0xFF:
                    return False
                start.key[index] = <uint8_t>value
            start.key_size = UUID_BYTES
            continue
        if not read_varied(&message, &value):
            return False
        if field == TAGGED_FLAGS:
            if value > 0xFF:
                return False
        elif field == TAGGED_NUMBER:
            start.number = unfolded(value)
        elif field == TAGGED_TAG:
            if not start.key_size or value > TAG_BYTES_MAX or value > <uint64_t>(message.end - message.at):
                return False
            memcpy(start.key + UUID_BYTES, message.at, value)
            start.key_size += value
            for index in range(value):
                if message.at[index] > 0x7F:
                    return False
            message.at += value
        elif field == TAGGED_COMMIT or field == TAGGED_ORIGINAL_COMMIT:
            if value >> ORIGINAL_BIT:
                return False
            if original or field == TAGGED_COMMIT:
                start.commit_us = <int64_t>value
    return start.key_size >= UUID_BYTES and start.number != 0
