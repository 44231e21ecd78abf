"""CRC32, the checksum of binlog events (polynomial 0xEDB88320, as in zlib).

By tables: eight bytes a step; the n-th table has the effect of a byte on the checksum with n zero bytes after it.

By carry-less products, on processors that have them: 64 bytes a step are folded onto the next 64, which leaves
the remainder of the whole as it is. The remaining 16 bytes go through the tables like a message of
its own. Method: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"; the
factors are remainders of powers of x, by how far a half is moved, bits reflected. Its gain over zlib's is in
docs/adr/0005-grammar.md#one-grammar-and-a-fast-path; `make bench ARGS=checksum` measures it.
"""

from libc.stdint cimport uint8_t, uint32_t


cdef enum:
    FOLDED_BYTES_MIN = 64
    FOLDED_UNIT = 16


cdef uint32_t crc32(const uint8_t* data, size_t size) noexcept nogil
