"""The part of `receive_buffer` that other modules use."""

from libc.stdint cimport uint8_t


cdef class ReceiveBuffer:
    cdef uint8_t* data
    #: begin and end of the bytes that are held
    cdef size_t at
    cdef size_t end
    cdef size_t capacity
    cdef Py_ssize_t exports

    cdef const uint8_t* next_event(self, size_t* size) noexcept nogil
    cdef void pass_event(self, size_t size) noexcept nogil
