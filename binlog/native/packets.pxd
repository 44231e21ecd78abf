"""The part of `packets` that other modules use."""

from libc.stdint cimport uint8_t

from canal_group.binlog.native.receive_buffer cimport ReceiveBuffer


cdef class PacketBuffer(ReceiveBuffer):
    cdef uint8_t sequence
    #: by how much the numbers of two packets differ: 0 if they have none
    cdef uint8_t step
    #: bytes of a packet before its event
    cdef size_t mark
    cdef public bint reply_awaited
