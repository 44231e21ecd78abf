"""JSON differences: prints a JSON document after a partial update.

A difference is an operation (one byte), a path, and for all but REMOVE a value in binary JSON, path and value each
with a packed length before it. Layout and meaning: `Json_diff_vector::read_binary` and `apply_json_diffs` in
MySQL's sql/json_diff.cc; paths as `Json_path_leg::to_string` in sql/json_path.cc writes them.

A document stays as bytes, except for the objects and arrays that paths lead through: those become nodes, one for
each of their values. Bytes are counted as in `json_text`, so that crafted offsets cannot print without end. A path
may contain escaped names of inserted members; such a name is stored unescaped in `names`, which is never moved.
"""

from libc.stdint cimport uint8_t, uint32_t
from canal_group.binlog.native.json_text cimport Json
from canal_group.binlog.native.memory cimport Bytes


cdef enum Operation:
    REPLACE = 0
    INSERT_INTO = 1
    REMOVE = 2


cdef enum State:
    #: a value, whose type is known and whose bytes are not looked at
    STORED
    #: such a value inside the entry of its container: those bytes are spent
    INLINED
    #: an object or array whose values are nodes
    OPEN


cdef struct Node:
    int kind
    int state
    const uint8_t* data
    #: bytes that may be read from `data` on
    size_t size
    #: in an object: its name
    const uint8_t* name
    size_t name_size
    #: OPEN: index of its first value, and how many it has; 0: none, as nothing holds the first node
    uint32_t first
    uint32_t count
    #: index of the value after it in the same container; 0: none
    uint32_t next


cdef struct Document:
    Json json
    #: Nodes; the first is the whole document
    Bytes nodes
    Bytes names


cdef struct Span:
    const uint8_t* at
    const uint8_t* end


cdef struct Leg:
    bint is_cell
    #: of a cell
    bint from_end
    size_t index
    #: of a member
    const uint8_t* name
    size_t name_size


cdef int take_packed(Span* span, size_t* value) noexcept nogil


cdef int put_changed(Document* document, Bytes* out, const Span* value, Span* differences) noexcept nogil
