"""Packed values: MariaDB's compressed columns, unpacked.

A value that is not empty begins with a byte. If it is 0, the value follows uncompressed. If its upper four bits
are 8, the value is compressed with zlib: bit 3 says that the stream has no header and no checksum of its own, and
the lowest three bits are the number of bytes of the unpacked size. That size follows, the highest byte first, then
the stream. Layout: `compress_zlib` in MariaDB's sql/field_comp.cc.

Python's zlib unpacks: it exists wherever Python does, and the call costs less than the unpacking.
"""

from libc.stdint cimport uint8_t
from canal_group.binlog.native.memory cimport Bytes


cdef enum:
    ZLIB = 8
    #: no value is larger: the servers' largest packet
    VALUE_BYTES_MAX = 1 << 30
    #: most unpacked bytes for each packed byte; zlib reaches 1032 at most
    RATIO_MAX = 1040


cdef size_t unpacked_size(const uint8_t* value, size_t size) noexcept nogil


cdef int put_unpacked(Bytes* out, const uint8_t* value, size_t size) noexcept nogil
