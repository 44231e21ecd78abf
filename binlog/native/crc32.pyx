"""CRC32: the bodies of the functions that `crc32.pxd` declares and describes."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from canal_group.binlog.native.numbers cimport load64


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    static uint32_t canal_group_crc[8][256];
    static int canal_group_folds;

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>

    #define CANAL_GROUP_FOLD(x, factors, next) \\
        _mm_xor_si128(_mm_xor_si128( \\
            _mm_clmulepi64_si128(x, factors, 0x00), _mm_clmulepi64_si128(x, factors, 0x11)), next)

    static int canal_group_can_fold(void) {
        return __builtin_cpu_supports("pclmul");
    }

    /* Fold a checksum and the size bytes after it, a multiple of 16 and at least 64, into 16 with the same remainder. */
    __attribute__((target("sse2,pclmul")))
    static void canal_group_fold(const uint8_t *data, size_t size, uint32_t value, uint8_t *rest) {
        const __m128i *at = (const __m128i *)data, *end = (const __m128i *)(data + size);
        const __m128i far = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
        const __m128i shared_memory = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
        __m128i a = _mm_xor_si128(_mm_loadu_si128(at), _mm_cvtsi32_si128((int)value));
        __m128i b = _mm_loadu_si128(at + 1), c = _mm_loadu_si128(at + 2), d = _mm_loadu_si128(at + 3);
        for (at += 4; end - at >= 4; at += 4) {
            a = CANAL_GROUP_FOLD(a, far, _mm_loadu_si128(at));
            b = CANAL_GROUP_FOLD(b, far, _mm_loadu_si128(at + 1));
            c = CANAL_GROUP_FOLD(c, far, _mm_loadu_si128(at + 2));
            d = CANAL_GROUP_FOLD(d, far, _mm_loadu_si128(at + 3));
        }
        b = CANAL_GROUP_FOLD(a, shared_memory, b);
        c = CANAL_GROUP_FOLD(b, shared_memory, c);
        d = CANAL_GROUP_FOLD(c, shared_memory, d);
        for (; at != end; at += 1)
            d = CANAL_GROUP_FOLD(d, shared_memory, _mm_loadu_si128(at));
        _mm_storeu_si128((__m128i *)rest, d);
    }
    #else
    static int canal_group_can_fold(void) { return 0; }
    static void canal_group_fold(const uint8_t *data, size_t size, uint32_t value, uint8_t *rest) {
        (void)data, (void)size, (void)value, (void)rest;
    }
    #endif
    """
    uint32_t CRC "canal_group_crc"[8][256]
    bint folds "canal_group_folds"
    bint can_fold "canal_group_can_fold"() noexcept nogil
    void fold "canal_group_fold"(const uint8_t* data, size_t size, uint32_t value, uint8_t* rest) noexcept nogil


cdef void make_tables() noexcept:
    cdef uint32_t byte, value
    cdef int index
    global folds
    folds = can_fold()
    for byte in range(256):
        value = byte
        for index in range(8):
            value = value >> 1 ^ (<uint32_t>0xEDB88320 if value & 1 else 0)
        CRC[0][byte] = value
    for byte in range(256):
        value = CRC[0][byte]
        for index in range(1, 8):
            value = value >> 8 ^ CRC[0][value & 0xFF]
            CRC[index][byte] = value


cdef inline uint32_t by_tables(uint32_t value, const uint8_t* data, size_t size) noexcept nogil:
    cdef uint64_t eight
    while size >= 8:
        eight = load64(data) ^ value
        value = (
            CRC[7][eight & 0xFF]
            ^ CRC[6][eight >> 8 & 0xFF]
            ^ CRC[5][eight >> 16 & 0xFF]
            ^ CRC[4][eight >> 24 & 0xFF]
            ^ CRC[3][eight >> 32 & 0xFF]
            ^ CRC[2][eight >> 40 & 0xFF]
            ^ CRC[1][eight >> 48 & 0xFF]
            ^ CRC[0][eight >> 56]
        )
        data += 8
        size -= 8
    while size:
        value = value >> 8 ^ CRC[0][(value ^ data[0]) & 0xFF]
        data += 1
        size -= 1
    return value


cdef uint32_t crc32(const uint8_t* data, size_t size) noexcept nogil:
    cdef uint32_t value = <uint32_t>0xFFFFFFFF
    cdef uint8_t rest[FOLDED_UNIT]
    cdef size_t folded
    if folds and size >= FOLDED_BYTES_MIN:
        folded = size - size % FOLDED_UNIT
        fold(data, folded, value, rest)
        value = by_tables(0, rest, FOLDED_UNIT)
        data += folded
        size -= folded
    return ~by_tables(value, data, size)


make_tables()
