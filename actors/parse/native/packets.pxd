"""What other modules see of `packets`."""

from libc.stdint cimport uint8_t

from actors.parse.native.room cimport EventRoom


cdef class PacketBuffer(EventRoom):
    cdef uint8_t sequence
