"""What other modules see of `receive_buffer`."""

from libc.stdint cimport uint8_t


cdef class ReceiveBuffer:
    cdef uint8_t* data
    #: where the bytes begin and end that are held
    cdef size_t at
    cdef size_t end
    cdef size_t capacity
    cdef Py_ssize_t exports

    cdef const uint8_t* next_event(self, size_t* size) noexcept nogil
    cdef void pass_event(self, size_t size) noexcept nogil
