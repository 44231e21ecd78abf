"""File events: a file's bytes, and the events in them, which follow each other without gaps.

`file_events.pyi` describes its interface. Layout: an event's header, see `canal_group.binlog.formats.events`.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t

from canal_group.binlog.native.numbers cimport load32
from canal_group.binlog.native.receive_buffer cimport ReceiveBuffer

cdef enum:
    HEADER_SIZE = 19
    #: the servers' largest max_allowed_packet
    EVENT_BYTES_MAX = 1 << 30


cdef class FileBuffer(ReceiveBuffer):
    def take(self):
        cdef size_t size = 0, held = self.end - self.at
        cdef const uint8_t* event
        if held >= HEADER_SIZE:
            size = load32(self.data + self.at + 9)
            if not HEADER_SIZE <= size <= EVENT_BYTES_MAX:
                raise ValueError(f"an event of {size} bytes")
        event = self.next_event(&size)
        if event == NULL:
            return None
        self.pass_event(size)
        return PyBytes_FromStringAndSize(<const char*>event, size)

    cdef const uint8_t* next_event(self, size_t* size) noexcept nogil:
        cdef const uint8_t* event = self.data + self.at
        cdef size_t held = self.end - self.at, event_size
        if held < HEADER_SIZE:
            return NULL
        event_size = load32(event + 9)
        if event_size < HEADER_SIZE or held < event_size:
            return NULL
        size[0] = event_size
        return event

    cdef void pass_event(self, size_t size) noexcept nogil:
        self.at += size
