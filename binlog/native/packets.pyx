"""Packets: bytes that have arrived, and the packets in them.

`packets.pyi` describes its interface. Layouts: "MySQL Packets" in the client/server protocol, "Semi-Sync Replication"
in MariaDB's replication protocol.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from canal_group.binlog.native.numbers cimport load16, load32, load_little
from canal_group.binlog.native.receive_buffer cimport ReceiveBuffer

cdef enum:
    HEAD = 4
    FULL = 0xFFFFFF
    #: first byte of a packet that holds an event, and of one that holds an error
    OK = 0
    ERROR = 0xFF
    #: bytes before an event: OK, and with semi-synchronous replication also the two of it
    MARK = 1
    SEMI_SYNC_MARK = 3
    #: first of those two bytes; the second one says whether the source waits for a reply
    SEMI_SYNC = 0xEF
    WAITS = 1
    #: an event's header: type, size, end, flags, and its length
    TYPE = 4
    SIZE = 9
    LOG_POS = 13
    FLAGS = 17
    EVENT_HEAD = 19
    ARTIFICIAL = 0x20
    #: types that move the read position
    ROTATE = 4
    FORMAT_DESCRIPTION = 15
    HEARTBEAT = 27
    HEARTBEAT_V2 = 41


cdef class PacketBuffer(ReceiveBuffer):
    def __cinit__(self, int sequence=1, bint semi_sync=False, bint numbered=True):
        self.step = 1 if numbered else 0
        self.sequence = <uint8_t>sequence if numbered else 0
        self.mark = SEMI_SYNC_MARK if semi_sync else MARK

    def copy(self):
        cdef size_t held = self.end - self.at
        cdef PacketBuffer other = PacketBuffer(self.sequence, self.mark == SEMI_SYNC_MARK, bool(self.step))
        cdef void* data
        if held > other.capacity:
            data = realloc(other.data, held)
            if data == NULL:
                raise MemoryError
            other.data, other.capacity = <uint8_t*>data, held
        memcpy(other.data, self.data + self.at, held)
        other.end = held
        return other

    def take(self):
        cdef size_t at = self.at, size = FULL, whole = 0, skip = 0
        cdef uint8_t number = self.sequence
        cdef const uint8_t* body
        cdef bytes payload
        cdef char* out
        while size == FULL:
            if self.end - at < HEAD:
                return None
            size = load_little(self.data + at, 3)
            if self.end - at - HEAD < size:
                return None
            if self.data[at + 3] != number and not (size and self.data[at + HEAD] == ERROR):
                raise ValueError(f"{self.data[at + 3]} came where {number} was expected")
            number += self.step
            whole += size
            at += HEAD + size
        body = self.data + self.at + HEAD
        if self.mark == SEMI_SYNC_MARK and whole and body[0] == OK:
            if whole < SEMI_SYNC_MARK or body[1] != SEMI_SYNC or body[2] > WAITS:
                raise LookupError(bytes(body[:min(whole, SEMI_SYNC_MARK)]).hex())
            if body[2]:
                self.reply_awaited, number = True, 1
            skip = SEMI_SYNC_MARK - MARK
        payload = PyBytes_FromStringAndSize(NULL, whole - skip)
        out = PyBytes_AS_STRING(payload)
        if skip:
            out[0] = OK
            out += MARK
            # The first part is longer than the mark, unless it is the only one.
            size = load_little(self.data + self.at, 3)
            memcpy(out, body + SEMI_SYNC_MARK, size - SEMI_SYNC_MARK)
            out += size - SEMI_SYNC_MARK
            self.at += HEAD + size
        while self.at < at:
            size = load_little(self.data + self.at, 3)
            memcpy(out, self.data + self.at + HEAD, size)
            out += size
            self.at += HEAD + size
        self.sequence = number
        return payload

    def take_run(self, uint64_t offset):
        cdef size_t begin = self.at, size, count = 0
        cdef uint32_t gap
        cdef uint8_t kind
        cdef uint8_t* event
        while True:
            event = <uint8_t*>self.next_event(&size)
            if event == NULL or size < EVENT_HEAD or load32(event + SIZE) != size:
                break
            kind = event[TYPE]
            if kind == ROTATE or kind == FORMAT_DESCRIPTION or kind == HEARTBEAT or kind == HEARTBEAT_V2:
                break
            if not load32(event + LOG_POS) or load16(event + FLAGS) & ARTIFICIAL:
                break
            gap = load32(event + LOG_POS) - <uint32_t>offset - <uint32_t>size
            if gap >> 31:
                break
            offset += gap + size
            self.pass_event(size)
            event[-1 - <int>self.mark] = 0
            count += 1
        if self.mark == SEMI_SYNC_MARK:
            return unmarked(self.data + begin, self.at - begin, count), offset
        return PyBytes_FromStringAndSize(<char*>self.data + begin, self.at - begin), offset

    cdef const uint8_t* next_event(self, size_t* size) noexcept nogil:
        cdef const uint8_t* head = self.data + self.at
        cdef size_t held = self.end - self.at, payload
        if held < HEAD + self.mark:
            return NULL
        payload = load_little(head, 3)
        if payload == FULL or payload < self.mark or held - HEAD < payload:
            return NULL
        if head[3] != self.sequence or head[HEAD] != OK:
            return NULL
        if self.mark == SEMI_SYNC_MARK and (head[HEAD + 1] != SEMI_SYNC or head[HEAD + 2] > WAITS):
            return NULL
        size[0] = payload - self.mark
        return head + HEAD + self.mark

    cdef void pass_event(self, size_t size) noexcept nogil:
        self.sequence += self.step
        if self.mark == SEMI_SYNC_MARK and self.data[self.at + HEAD + 2]:
            self.reply_awaited, self.sequence = True, 1
        self.at += HEAD + self.mark + size


cdef bytes unmarked(const uint8_t* run, size_t size, size_t count):
    """Return a run of `count` packets, numbered 0, without the bytes of semi-synchronous replication."""
    cdef size_t at = 0, payload, kept, skip = SEMI_SYNC_MARK - MARK
    cdef bytes found = PyBytes_FromStringAndSize(NULL, size - count * skip)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(found)
    while at < size:
        payload = load_little(run + at, 3)
        kept = payload - skip
        out[0], out[1], out[2] = kept & 0xFF, kept >> 8 & 0xFF, kept >> 16
        out[3], out[HEAD] = 0, OK
        memcpy(out + HEAD + MARK, run + at + HEAD + SEMI_SYNC_MARK, kept - MARK)
        out += HEAD + kept
        at += HEAD + payload
    return found


def events_of(const uint8_t[::1] run):
    cdef size_t end = run.shape[0], at = 0, size, whole = 0
    cdef bytes events
    cdef char* out
    while at < end:
        size = load_little(&run[at], 3) if end - at > HEAD else 0
        if size < MARK or size == FULL or end - at - HEAD < size:
            raise ValueError("a run has whole packets with an event each")
        whole += size - MARK
        at += HEAD + size
    events = PyBytes_FromStringAndSize(NULL, whole)
    out = PyBytes_AS_STRING(events)
    at = 0
    while at < end:
        size = load_little(&run[at], 3)
        memcpy(out, &run[at + HEAD + MARK], size - MARK)
        out += size - MARK
        at += HEAD + size
    return events
