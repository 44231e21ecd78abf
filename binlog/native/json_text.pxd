"""JSON: MySQL's binary JSON as the text that MySQL itself prints for it.

Objects and arrays are written with ", " and ": ", keys in the stored order. Doubles are those of
`canal_group.merge.values.native.doubles`, and ".0" tells whole ones from integers. Values that JSON has no type for
are printed the way `SELECT` prints them: decimals as numbers, dates and times as strings, everything else as
"base64:typeN:...", with an escaped line break after every 76 characters.

Layout: the comment at the top of MySQL's sql-common/json_binary.h. Nothing of it is read beyond the bytes given.

Offsets inside a value could point anywhere, even backwards, so a few crafted bytes could print without end. The
server never uses a byte twice. So each printed part is counted, and the total may not exceed the value's bytes.
"""

from libc.stdint cimport uint8_t
from canal_group.binlog.native.memory cimport Bytes


cdef enum:
    SMALL_OBJECT = 0
    LARGE_OBJECT = 1
    SMALL_ARRAY = 2
    LARGE_ARRAY = 3
    LITERAL = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10
    DOUBLE = 11
    STRING = 12
    OPAQUE = 15
    #: the server's own limit
    DEPTH_MAX = 100
    #: column types of opaque values that are printed as what they are
    OPAQUE_TIMESTAMP = 7
    OPAQUE_DATE = 10
    OPAQUE_TIME = 11
    OPAQUE_DATETIME = 12
    OPAQUE_DECIMAL = 246


cdef struct Json:
    Bytes* out
    #: bytes of the value that nothing printed has spent
    size_t unspent


cdef int spend(Json* json, size_t size) noexcept nogil


cdef int put_quoted(Json* json, const uint8_t* data, size_t size) noexcept nogil


cdef int put_scalar(Json* json, int kind, const uint8_t* data) noexcept nogil


cdef int put_value(Json* json, int kind, const uint8_t* data, size_t size, int depth) noexcept nogil


cdef int put_json(Bytes* out, const uint8_t* data, size_t size) noexcept nogil
