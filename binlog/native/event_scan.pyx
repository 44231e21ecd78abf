"""EventScan: checks the events of a binlog file, and notes where its transactions end.

`event_scan.pyi` describes its interface. Layout of an event's header: see `canal_group.binlog.formats.events`; of GTID
events: `canal_group.binlog.formats.gtid_events`; of a statement: `parse_query`.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from canal_group.binlog.native.crc32 cimport crc32
from canal_group.binlog.native.gtids cimport SERVER_BYTES, Start, read_mysql_gtid, read_tagged_gtid
from canal_group.binlog.native.numbers cimport load16, load32, load64

cdef enum:
    HEADER_SIZE = 19
    CHECKSUM_SIZE = 4
    ARTIFICIAL = 0x20
    SECOND_US = 1000000
    #: of a QUERY, before its status variables
    QUERY_HEAD = 13
    #: of a GTID of MariaDB: number, domain, flags
    MARIADB_GTID_SIZE = 13
    #: its flags: a statement on its own follows, or XA COMMIT or XA ROLLBACK
    ALONE = 0x81

    QUERY = 2
    ROTATE = 4
    FORMAT_DESCRIPTION = 15
    XID = 16
    EXECUTE_LOAD_QUERY = 18
    INCIDENT = 26
    HEARTBEAT = 27
    GTID = 33
    ANONYMOUS_GTID = 34
    XA_PREPARE = 38
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIADB_GTID = 162
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165

    IDLE = 0
    ANNOUNCED = 1
    INSIDE = 2


cdef inline bint is_text(const uint8_t* sql, size_t size, const char* text, size_t length, bint whole) noexcept nogil:
    """Return whether a statement is a text, or begins with it."""
    return (size == length if whole else size >= length) and not memcmp(sql, text, length)


cdef class EventScan:
    #: end of the last event, of the last whole transaction (or event outside of one), begin of the open transaction
    cdef public int64_t offset
    cdef public int64_t whole_end
    cdef public int64_t begun_at
    cdef public bint checksum
    #: the scan stops before a transaction that begins at this offset or after it
    cdef public int64_t until
    #: of whole transactions: their number, the first one's and the greatest commit time
    cdef public int64_t transactions
    cdef public int64_t first_us
    cdef public int64_t latest_us
    cdef int phase
    cdef Start start
    #: GTIDs that follow each other: the source, the first number and the last one
    cdef uint8_t run_key[48]
    cdef size_t run_key_size
    cdef int64_t run_first
    cdef int64_t run_last
    cdef list runs

    def __cinit__(self, int64_t offset):
        self.offset = self.whole_end = self.begun_at = offset
        self.until = (<uint64_t>1 << 63) - 1
        self.runs = []

    @property
    def in_transaction(self):
        return self.phase != IDLE

    def take_runs(self):
        self._flush()
        runs, self.runs = self.runs, []
        return runs

    def run(self, const uint8_t[::1] data, Py_ssize_t at):
        cdef Py_ssize_t size = data.shape[0]
        if at >= size:
            return at
        while True:
            with nogil:
                at = self._run(&data[0], at, size)
            if at >= 0:
                return at
            # A GTID that does not follow the last one: the only step that needs objects.
            at = ~at
            self._flush()

    def pass_event(self, int64_t size):
        self.offset += size
        if not self._end():
            self._flush()
            self._end()

    cdef object _flush(self):
        if self.run_key_size:
            self.runs.append((
                PyBytes_FromStringAndSize(<char*>self.run_key, self.run_key_size), self.run_first, self.run_last
            ))
            self.run_key_size = 0

    cdef Py_ssize_t _run(self, const uint8_t* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
        """Take events; return where the first one begins that is not taken, or its complement: flush the run."""
        cdef const uint8_t* event
        cdef size_t length, least = HEADER_SIZE + (CHECKSUM_SIZE if self.checksum else 0)
        cdef uint8_t kind
        while size - at >= HEADER_SIZE:
            event = data + at
            kind = event[4]
            length = load32(event + 9)
            if length < least or <size_t>(size - at) < length:
                break
            if not load32(event + 13) or load16(event + 17) & ARTIFICIAL:
                break
            if load32(event + 13) != <uint32_t>(self.offset + <int64_t>length):
                break
            if kind == ROTATE or kind == FORMAT_DESCRIPTION or kind == HEARTBEAT or kind == HEARTBEAT_V2:
                break
            if kind == MARIADB_START_ENCRYPTION:
                break
            if self.checksum and crc32(event, length - CHECKSUM_SIZE) != load32(event + length - CHECKSUM_SIZE):
                break
            if self.offset >= self.until and (
                self.phase == IDLE or kind == GTID or kind == ANONYMOUS_GTID or kind == GTID_TAGGED
                or kind == MARIADB_GTID
            ):
                break
            if not self._take(kind, event, length - (CHECKSUM_SIZE if self.checksum else 0)):
                return ~at
            self.offset += <int64_t>length
            if self.phase == IDLE:
                self.whole_end = self.offset
            at += <Py_ssize_t>length
        return at

    cdef bint _take(self, uint8_t kind, const uint8_t* event, size_t length) noexcept nogil:
        """Take part of an event in its transaction; False, and nothing is done: the run has to be flushed first."""
        if kind == GTID or kind == ANONYMOUS_GTID or kind == GTID_TAGGED or kind == MARIADB_GTID:
            if not self._end():
                return False
            self._begin(kind, event, length)
        elif kind == QUERY or kind == EXECUTE_LOAD_QUERY or kind == MARIADB_QUERY_COMPRESSED:
            return self._query(kind, event, length)
        elif kind == XID or kind == XA_PREPARE or kind == TRANSACTION_PAYLOAD or kind == INCIDENT:
            return self._end()
        return True

    cdef void _begin(self, uint8_t kind, const uint8_t* event, size_t length) noexcept nogil:
        cdef const uint8_t* body = event + HEADER_SIZE
        cdef size_t size = length - HEADER_SIZE
        cdef uint32_t server = load32(event + 5)
        cdef bint readable = False
        self.begun_at = self.offset
        self.start.phase = ANNOUNCED
        if kind == GTID or kind == ANONYMOUS_GTID:
            readable = read_mysql_gtid(&self.start, body, size, server, kind == ANONYMOUS_GTID, False)
        elif kind == GTID_TAGGED:
            readable = read_tagged_gtid(&self.start, body, size, False)
        elif kind == MARIADB_GTID and size >= MARIADB_GTID_SIZE and not load64(body) >> 63:
            readable = True
            self.start.phase = ANNOUNCED if body[12] & ALONE else INSIDE
            self.start.commit_us = 0
            self.start.number = <int64_t>load64(body)
            self.start.key_size = 8
            memcpy(self.start.key, body + 8, 4)
            memcpy(self.start.key + 4, &server, 4)
        if not readable:
            self.start.key_size = 0
            self.start.number = self.start.commit_us = 0
        if not self.start.commit_us:
            self.start.commit_us = <int64_t>load32(event) * SECOND_US
        self.phase = self.start.phase

    cdef bint _query(self, uint8_t kind, const uint8_t* event, size_t length) noexcept nogil:
        cdef size_t at = HEADER_SIZE + QUERY_HEAD, size = 0
        cdef const uint8_t* sql = event
        cdef bint begins
        if kind == QUERY and length >= at:
            at += load16(event + HEADER_SIZE + 11) + event[HEADER_SIZE + 8] + 1
            if length > at:
                sql, size = event + at, length - at
        begins = is_text(sql, size, "BEGIN", 5, True) or is_text(sql, size, "XA START", 8, False)
        if self.phase == INSIDE:
            if (
                is_text(sql, size, "COMMIT", 6, True) or is_text(sql, size, "ROLLBACK", 8, True)
                or is_text(sql, size, "XA COMMIT", 9, False) or is_text(sql, size, "XA ROLLBACK", 11, False)
            ):
                return self._end()
            return True
        if self.phase == IDLE:
            self._begin(0, event, length)
        if begins:
            self.phase = INSIDE
            return True
        return self._end()

    cdef bint _end(self) noexcept nogil:
        """End the open transaction, if there is one; False, and nothing is done: the run has to be flushed first."""
        cdef Start* start = &self.start
        if self.phase == IDLE:
            self.whole_end = self.offset
            return True
        if start.number > 0 and start.key_size > SERVER_BYTES:
            if not self.run_key_size:
                memcpy(self.run_key, start.key, start.key_size)
                self.run_key_size = start.key_size
                self.run_first = start.number
            elif (
                self.run_key_size != start.key_size or memcmp(self.run_key, start.key, start.key_size)
                or start.number != self.run_last + 1
            ):
                return False
            self.run_last = start.number
        self.phase = IDLE
        self.whole_end = self.offset
        self.transactions += 1
        if not self.first_us:
            self.first_us = start.commit_us
        if start.commit_us > self.latest_us:
            self.latest_us = start.commit_us
        return True
