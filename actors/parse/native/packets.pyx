"""Packets: bytes that have arrived, and the packets in them.

`packets.pyi` says what callers see. Layout: "MySQL Packets" in the client/server protocol.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from actors.parse.native.numbers cimport load_little
from actors.parse.native.receive_buffer cimport ReceiveBuffer

cdef enum:
    HEAD = 4
    FULL = 0xFFFFFF
    #: first byte of a packet that holds an event, and of one that holds an error
    OK = 0
    ERROR = 0xFF


cdef class PacketBuffer(ReceiveBuffer):
    def __cinit__(self, int sequence=1):
        self.sequence = <uint8_t>sequence

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
        self.at += HEAD + 1 + size
        self.sequence += 1
