"""Packets: bytes that have arrived, and the packets in them.

`packets.pyi` says what callers see. Layout: "MySQL Packets" in the client/server protocol.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

from actors.parse.native.numbers cimport load_little

cdef enum:
    HEAD = 4
    FULL = 0xFFFFFF
    #: first byte of a packet that holds an event, and of one that holds an error
    OK = 0
    ERROR = 0xFF
    ROOM_BYTES = 1 << 20
    #: an event of 1 GiB, the largest that there is, in packets
    BYTES_MAX = (1 << 30) + (1 << 16)


cdef class PacketBuffer:
    def __cinit__(self, int sequence=1):
        self.data = <uint8_t*>malloc(ROOM_BYTES)
        if self.data == NULL:
            raise MemoryError
        self.capacity = ROOM_BYTES
        self.sequence = <uint8_t>sequence

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.end - self.at

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data + self.end, self.capacity - self.end, 0, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1

    def make_room(self):
        cdef size_t held = self.end - self.at, wanted
        cdef void* moved
        if self.exports:
            raise BufferError("the room is being filled")
        if self.at:
            memmove(self.data, self.data + self.at, held)
            self.at, self.end = 0, held
        # Twice what is held, so that an event of many packets is moved few times.
        wanted = ROOM_BYTES if held < ROOM_BYTES // 2 else held * 2
        if wanted > BYTES_MAX:
            wanted = BYTES_MAX
        if held >= wanted:
            raise OverflowError
        if wanted != self.capacity:
            moved = realloc(self.data, wanted)
            if moved == NULL:
                raise MemoryError
            self.data = <uint8_t*>moved
            self.capacity = wanted

    def received(self, Py_ssize_t size):
        if size < 0 or <size_t>size > self.capacity - self.end:
            raise ValueError("more than there was room for")
        self.end += size

    def take(self):
        cdef size_t at = self.at, size = FULL, whole = 0
        cdef uint8_t number = self.sequence
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
            number += 1
            whole += size
            at += HEAD + size
        payload = PyBytes_FromStringAndSize(NULL, whole)
        out = PyBytes_AS_STRING(payload)
        while self.at < at:
            size = load_little(self.data + self.at, 3)
            memcpy(out, self.data + self.at + HEAD, size)
            out += size
            self.at += HEAD + size
        self.sequence = number
        return payload

    cdef const uint8_t* next_event(self, size_t* size) noexcept nogil:
        """Return the event in the next packet; NULL: it is not whole, or holds something else."""
        cdef const uint8_t* head = self.data + self.at
        cdef size_t held = self.end - self.at, payload
        if held < HEAD + 1:
            return NULL
        payload = load_little(head, 3)
        if payload == FULL or not payload or held - HEAD < payload:
            return NULL
        if head[3] != self.sequence or head[HEAD] != OK:
            return NULL
        size[0] = payload - 1
        return head + HEAD + 1

    cdef void pass_event(self, size_t size) noexcept nogil:
        """Pass over the packet whose event `next_event` returned."""
        self.at += HEAD + 1 + size
        self.sequence += 1
