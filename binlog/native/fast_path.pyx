"""FastPath: reads the usual events, one after the other, without a step of Python for each.

`fast_path.pyi` describes its interface. Layout of an event's header: see `canal_group.binlog.formats.events`. Layouts of
bodies: in the modules that the grammar reads them with, see `canal_group.binlog.grammar.transactions`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from canal_group.binlog.native.columns cimport Reader
from canal_group.binlog.native.crc32 cimport crc32
from canal_group.binlog.native.accumulator cimport ANNOUNCED, IDLE, INSIDE, Accumulator
from canal_group.binlog.native.gtids cimport Start, read_mariadb_gtid, read_mysql_gtid, read_tagged_gtid
from canal_group.binlog.native.images cimport DELETE, INSERT, RowBuffers
from canal_group.binlog.native.known cimport (
    GATHERED,
    ID_SIZE,
    LEFT_OUT,
    MAPPED,
    SOURCES,
    TABLE_HEAD,
    TABLES,
    Source,
    Sources,
    Table,
    is_version,
    slot_of,
    source_of,
    table_of,
)
from canal_group.binlog.native.numbers cimport load16, load32, load_little
from canal_group.binlog.native.receive_buffer cimport ReceiveBuffer

cdef enum:
    HEADER_SIZE = 19
    CHECKSUM_SIZE = 4
    #: of a QUERY, before its status variables
    QUERY_HEAD = 13
    ARTIFICIAL = 0x20
    SECOND_US = 1000000
    #: offsets in a file may jump forward by less than this
    GAP_END = <uint32_t>1 << 31
    #: from this many bytes on other threads run meanwhile; below, letting go of the lock would take longer
    UNLOCKED_BYTES = 16384

    QUERY = 2
    XID = 16
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    DELETE_ROWS_V1 = 25
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_GTID = 162


cdef int64_t NOWHERE = (<uint64_t>1 << 63) - 1

USUAL = (
    QUERY, XID, TABLE_MAP, WRITE_ROWS_V1, WRITE_ROWS_V1 + 1, DELETE_ROWS_V1, ROWS_QUERY, WRITE_ROWS,
    WRITE_ROWS + 1, DELETE_ROWS, GTID, ANONYMOUS_GTID, GTID_TAGGED, MARIADB_ANNOTATE_ROWS, MARIADB_GTID,
)


cdef inline bint read_start(
    Start* start, int kind, const uint8_t* body, size_t size, uint32_t server, bint original
) noexcept nogil:
    """Read the event that begins a transaction; False: it is unusual."""
    if kind == GTID or kind == ANONYMOUS_GTID:
        return read_mysql_gtid(start, body, size, server, kind == ANONYMOUS_GTID, original)
    if kind == MARIADB_GTID:
        return read_mariadb_gtid(start, body, size, server)
    if kind == GTID_TAGGED:
        return read_tagged_gtid(start, body, size, original)
    # BEGIN without a GTID before it
    start.key_size = 0
    start.number = start.commit_us = 0
    start.phase = INSIDE
    return kind == QUERY


cdef class FastPath:
    cdef readonly Accumulator accumulator
    cdef public bint is_open
    cdef public int64_t offset
    cdef public int64_t until
    cdef public bint original
    cdef bint checksum
    cdef bint gaps
    cdef bint busy
    cdef uint8_t usual[256]
    #: number of events of each type that `run` took
    cdef uint64_t passed[256]
    cdef Table* tables
    #: references that keep versions and rows alive, by a table's slot
    cdef list versions
    cdef dict rows
    cdef Sources sources

    def __cinit__(self, Accumulator accumulator not None):
        self.accumulator = accumulator
        self.until = NOWHERE
        self.versions = [None] * TABLES
        self.rows = {}
        self.tables = <Table*>calloc(TABLES, sizeof(Table))
        if self.tables == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.tables)

    def describe(self, kinds, bint checksum, bint gaps):
        cdef uint8_t kind
        memset(self.usual, 0, sizeof(self.usual))
        for kind in kinds:
            self.usual[kind] = 1
        self.checksum, self.gaps = checksum, gaps

    def begin_file(self):
        self._require_rest()
        memset(self.tables, 0, TABLES * sizeof(Table))
        self.versions = [None] * TABLES
        self.rows = {}
        self.accumulator.current_file = -1

    def begin_chunk(self):
        cdef size_t slot
        self._require_rest()
        for slot in self.rows:
            self.tables[slot].known = MAPPED
            self.tables[slot].rows = NULL
        self.rows = {}
        self.sources.count = self.sources.last = 0

    # ---- what the grammar learned -------------------------------------------------------------------------

    def learn_table(self, bytes body not None):
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(body)
        cdef size_t size = PyBytes_GET_SIZE(body), slot
        cdef Table* table = table_of(self.tables, data, size)
        self._require_rest()
        if size < TABLE_HEAD or (table != NULL and is_version(table, data + TABLE_HEAD, size - TABLE_HEAD)):
            return
        slot = slot_of(data)
        table = &self.tables[slot]
        version = body[TABLE_HEAD:]
        self.versions[slot] = version
        self.rows.pop(slot, None)
        table.id = load_little(data, ID_SIZE)
        table.version = <const uint8_t*>PyBytes_AS_STRING(version)
        table.version_size = size - TABLE_HEAD
        table.known, table.rows = MAPPED, NULL

    def leave_out(self, bytes body not None):
        cdef Table* table = table_of(
            self.tables, <const uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body)
        )
        if table != NULL:
            table.known = LEFT_OUT

    def gather(self, bytes body not None, bytes version not None, RowBuffers rows not None):
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(body)
        cdef Table* table = table_of(self.tables, data, PyBytes_GET_SIZE(body))
        self._require_rest()
        if table != NULL and is_version(
            table, <const uint8_t*>PyBytes_AS_STRING(version), PyBytes_GET_SIZE(version)
        ):
            self.rows[slot_of(data)] = rows
            table.known, table.rows = GATHERED, <void*>rows

    def learn_source(self, int kind, bytes body not None, uint32_t server):
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(body)
        cdef Start start
        cdef Source* source
        if self.sources.count == SOURCES or not read_start(
            &start, kind, data, PyBytes_GET_SIZE(body), server, self.original
        ):
            return
        if source_of(&self.sources, &start) == NULL:
            source = &self.sources.entries[self.sources.count]
            memcpy(source.key, start.key, start.key_size)
            source.key_size, source.name = start.key_size, self.accumulator.source
            self.sources.count += 1

    # ---- events -------------------------------------------------------------------------------------------

    def take(self, bytes event not None):
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(event)
        cdef size_t size = PyBytes_GET_SIZE(event)
        cdef bint is_taken
        if not self.is_open or size <= HEADER_SIZE:
            return 0
        self._enter()
        if size < UNLOCKED_BYTES:
            is_taken = self._take(data, size)
        else:
            with nogil:
                is_taken = self._take(data, size)
        self.busy = False
        return data[4] if is_taken else 0

    def run(self, ReceiveBuffer arrived not None):
        if not self.is_open:
            return
        self._enter()
        if arrived.end - arrived.at < UNLOCKED_BYTES:
            self._run(arrived)
        else:
            arrived.exports += 1  # pins the bytes: the buffer cannot move meanwhile
            with nogil:
                self._run(arrived)
            arrived.exports -= 1
        self.busy = False

    def counts(self):
        cdef int kind
        return {kind: self.passed[kind] for kind in USUAL if self.passed[kind]}

    cdef int _enter(self) except -1:
        self._require_rest()
        self.busy = True
        return 0

    cdef int _require_rest(self) except -1:
        if self.busy:
            raise ValueError("called by two threads at once")
        return 0

    cdef void _run(self, ReceiveBuffer arrived) noexcept nogil:
        cdef size_t size = 0
        cdef const uint8_t* event = arrived.next_event(&size)
        while event != NULL and self._take(event, size):
            self.passed[event[4]] += 1
            arrived.pass_event(size)
            event = arrived.next_event(&size)

    cdef bint _take(self, const uint8_t* event, size_t size) noexcept nogil:
        """Take an event; return False, and change nothing, if it is not for the fast path."""
        cdef size_t end
        cdef int64_t begin
        cdef uint32_t gap
        if size < HEADER_SIZE + CHECKSUM_SIZE or not self.usual[event[4]]:
            return False
        if load32(event + 9) != size or load16(event + 17) & ARTIFICIAL or not load32(event + 13):
            return False
        gap = load32(event + 13) - <uint32_t>(<uint64_t>self.offset + size)
        if gap and (not self.gaps or gap >= GAP_END):
            return False
        end = size
        if self.checksum:
            end -= CHECKSUM_SIZE
            if load32(event + end) != crc32(event, end):
                return False
        begin = self.offset + gap
        if begin + <int64_t>size > self.until:
            return False
        if not self._take_body(event, event + HEADER_SIZE, end - HEADER_SIZE, begin, begin + <int64_t>size):
            return False
        self.offset = begin + <int64_t>size
        return True

    cdef bint _take_body(
        self, const uint8_t* event, const uint8_t* body, size_t size, int64_t begin, int64_t end
    ) noexcept nogil:
        cdef int kind = event[4]
        cdef Table* table
        if WRITE_ROWS <= kind <= DELETE_ROWS or WRITE_ROWS_V1 <= kind <= DELETE_ROWS_V1:
            return self._take_rows(kind, body, size)
        if kind == TABLE_MAP:
            table = table_of(self.tables, body, size)
            return (
                table != NULL
                and size >= TABLE_HEAD
                and is_version(table, body + TABLE_HEAD, size - TABLE_HEAD)
            )
        if kind == XID:
            return self._end(end)
        if kind == QUERY:
            return self._take_query(event, body, size, begin, end)
        if kind == ROWS_QUERY or kind == MARIADB_ANNOTATE_ROWS:
            return True
        return self._begin(event, body, size, begin)

    cdef bint _take_query(
        self, const uint8_t* event, const uint8_t* body, size_t size, int64_t begin, int64_t end
    ) noexcept nogil:
        cdef size_t at
        if size < QUERY_HEAD:
            return False
        at = QUERY_HEAD + <size_t>load16(body + 11) + body[8] + 1
        if at > size:
            return False
        if size - at == 5 and memcmp(body + at, b"BEGIN", 5) == 0:
            if self.accumulator.phase == ANNOUNCED:
                self.accumulator.phase = INSIDE
                return True
            return self._begin(event, body, size, begin)
        return size - at == 6 and memcmp(body + at, b"COMMIT", 6) == 0 and self._end(end)

    cdef bint _begin(self, const uint8_t* event, const uint8_t* body, size_t size, int64_t begin) noexcept nogil:
        """Open a transaction, provided that its file and its GTID's source are named in the chunk."""
        cdef Start start
        cdef Source* source
        if self.accumulator.phase != IDLE or self.accumulator.current_file < 0:
            return False
        if not read_start(&start, event[4], body, size, load32(event + 5), self.original):
            return False
        source = source_of(&self.sources, &start)
        if source == NULL:
            return False
        if not start.commit_us:
            start.commit_us = <int64_t>load32(event) * SECOND_US
        self.accumulator.start(
            <uint32_t>self.accumulator.current_file, begin, start.commit_us, source.name, start.number
        )
        self.accumulator.phase = start.phase
        return True

    cdef bint _end(self, int64_t end) noexcept nogil:
        """End the transaction, unless its header would fill the chunk."""
        if self.accumulator.phase != INSIDE or <int64_t>self.accumulator.count + 1 >= self.accumulator.headers_max:
            return False
        if not self.accumulator.close_header(end, True):
            return False
        self.accumulator.phase = IDLE
        return True

    cdef bint _take_rows(self, int kind, const uint8_t* body, size_t size) noexcept nogil:
        """Add an event's rows, unless they would fill the chunk."""
        cdef Table* table = table_of(self.tables, body, size)
        if self.accumulator.phase != INSIDE or table == NULL or table.known == MAPPED:
            return False
        if table.known == LEFT_OUT:
            return True
        if self.accumulator.row < self.accumulator.skip or self.accumulator.bytes + <int64_t>size >= self.accumulator.bytes_max:
            return False
        return self._add_rows(<RowBuffers>table.rows, kind, body, size)

    cdef bint _add_rows(self, RowBuffers rows, int kind, const uint8_t* body, size_t size) noexcept nogil:
        cdef size_t first = rows.rows, zero_dates = rows.zero_dates, count = 0
        cdef int version = 2 if kind >= WRITE_ROWS else 1
        cdef int op = INSERT + kind - (WRITE_ROWS if version == 2 else WRITE_ROWS_V1)
        cdef size_t held_max = <size_t>(self.accumulator.bytes_max - self.accumulator.bytes)
        cdef Reader reader
        if rows.busy:
            return False
        reader.begin = reader.at = body
        reader.end = body + size
        if rows.last_header != <int>self.accumulator.count:
            rows.last_header = <int>self.accumulator.count
            rows.mark_rows, rows.mark_zero_dates = first, zero_dates
        if rows._read_head(&reader, op, version, ID_SIZE):
            return False
        if rows._read(&reader, op, <int>self.accumulator.count, self.accumulator.row, 0, held_max, &count):
            return False
        if rows.held >= held_max or self.accumulator.rows + <int64_t>count >= self.accumulator.rows_max:
            rows.take_back(first, zero_dates)
            return False
        self.accumulator.count_rows(count, count, rows.held)
        return True


def checksum_of(bytes data not None):
    return crc32(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
