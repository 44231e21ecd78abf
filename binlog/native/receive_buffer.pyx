"""Receive buffer: bytes that have arrived, which hold events.

`receive_buffer.pyi` describes its interface. Subclasses know how to find an event in the bytes.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memmove

cdef enum:
    RECEIVE_BUFFER_BYTES = 1 << 20
    #: an event of 1 GiB, the largest that there is, in packets
    BYTES_MAX = (1 << 30) + (1 << 16)


cdef class ReceiveBuffer:
    def __cinit__(self):
        self.data = <uint8_t*>malloc(RECEIVE_BUFFER_BYTES)
        if self.data == NULL:
            raise MemoryError
        self.capacity = RECEIVE_BUFFER_BYTES

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
        cdef size_t held = self.end - self.at, target
        cdef void* moved
        if self.exports:
            raise BufferError("the receive_buffer is being filled")
        if self.at:
            memmove(self.data, self.data + self.at, held)
            self.at, self.end = 0, held
        # Allocate twice what is held, so that an event of many packets is moved only a few times.
        target = RECEIVE_BUFFER_BYTES if held < RECEIVE_BUFFER_BYTES // 2 else held * 2
        if target > BYTES_MAX:
            target = BYTES_MAX
        if held >= target:
            raise OverflowError
        if target != self.capacity:
            moved = realloc(self.data, target)
            if moved == NULL:
                raise MemoryError
            self.data = <uint8_t*>moved
            self.capacity = target

    def received(self, Py_ssize_t size):
        if size < 0 or <size_t>size > self.capacity - self.end:
            raise ValueError("more than there was room for")
        self.end += size

    cdef const uint8_t* next_event(self, size_t* size) noexcept nogil:
        """Return the next event; NULL if it has not arrived whole, or the next bytes are not an event."""
        return NULL

    cdef void pass_event(self, size_t size) noexcept nogil:
        """Skip the event that `next_event` returned."""
