"""What other modules see of `packets`."""

from libc.stdint cimport uint8_t

from actors.parse.native.receive_buffer cimport ReceiveBuffer


cdef class PacketBuffer(ReceiveBuffer):
    cdef uint8_t sequence
