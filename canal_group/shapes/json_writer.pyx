"""JSON objects of columns, each written from its last byte to its first; nothing is passed over twice.

`json_writer.pyi` describes its interface. The block has room for all that may be written: texts are searched for
characters that have to be escaped when their `Member` is made.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

cimport cython

import numpy as np

from canal_group.merge.rows.native.text cimport TEXT, Column, Values, is_null, write_text

cdef enum:
    #: bytes of an escaped character beside the character
    ESCAPE = 5
    #: bytes of a value beside its texts: a null, or what stands around it
    VALUE = 4
    #: bytes of an entry of an object beside its texts: quotes, a colon, a comma, a null
    ENTRY = 8
    PLAIN = 0
    STRING = 1
    OBJECT = 2
    LISTED_OBJECT = 3
    NAMES = 4

    QUOTE = 34
    COMMA = 44
    COLON = 58
    BACKSLASH = 92

_KINDS = {"plain": PLAIN, "string": STRING, "object": OBJECT, "listed": LISTED_OBJECT, "names": NAMES}
cdef const uint8_t* SHORT = b"btn\0fr"
cdef const uint8_t* HEX = b"0123456789abcdef"


cdef int64_t _special(const uint8_t* data, int64_t size) noexcept nogil:
    """Return how many bytes have to be escaped."""
    cdef int64_t count = 0, index
    for index in range(size):
        count += (data[index] < 32) | (data[index] == QUOTE) | (data[index] == BACKSLASH)
    return count


cdef uint8_t* _write_escaped(uint8_t* at, const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint8_t byte
    while size:
        size -= 1
        byte = data[size]
        at -= 1
        at[0] = byte
        if byte == QUOTE or byte == BACKSLASH:
            at -= 1
        elif byte >= 32:
            continue
        elif 8 <= byte <= 13 and byte != 11:
            at[0] = SHORT[byte - 8]
            at -= 1
        else:
            at -= 5
            memcpy(at + 1, b"u00", 3)
            at[4], at[5] = HEX[byte >> 4], HEX[byte & 15]
        at[0] = BACKSLASH
    return at


cdef inline uint8_t* _write_bytes(uint8_t* at, const uint8_t* data, int64_t size) noexcept nogil:
    at -= size
    if size:
        memcpy(at, data, size)
    return at


cdef inline uint8_t* _write_null(uint8_t* at) noexcept nogil:
    memcpy(at - 4, b"null", 4)
    return at - 4


cdef inline uint8_t* _write_string(uint8_t* at, const Column* column, int64_t row, bint is_special) noexcept nogil:
    """Write a text that is not null, in quotes."""
    cdef const uint8_t* data = column.data + column.offsets[row]
    cdef int64_t size = column.offsets[row + 1] - column.offsets[row]
    at -= 1
    at[0] = QUOTE
    at = _write_escaped(at, data, size) if is_special else _write_bytes(at, data, size)
    at -= 1
    at[0] = QUOTE
    return at


@cython.final
cdef class Member:
    cdef int kind
    cdef readonly Py_ssize_t rows
    cdef int64_t size_max
    #: the values, or the values of the entries of maps, and the keys of those
    cdef Column values, keys
    cdef bint values_special, keys_special
    #: of maps: which are there, and where their entries begin
    cdef const uint8_t* valid
    cdef const int32_t* begins
    #: what the pointers point into
    cdef tuple owners

    def __cinit__(self, str kind, Values values, Values keys=None, begins=None, valid=None):
        self.kind, self.owners = _KINDS[kind], (values, keys, begins, valid)
        self.values, self.rows = values.column, values.rows
        if self.kind != PLAIN and values.column.kind != TEXT:
            raise ValueError("strings that are not text")
        self.size_max = values.size_max
        if self.kind != PLAIN:
            self.values_special = self._take(values)
        if self.kind >= OBJECT:
            self._take_maps(values, keys, begins, valid)
        self.size_max += VALUE * self.rows

    cdef bint _take(self, Values values):
        """Make room for what has to be escaped of texts, and return whether there is something."""
        cdef const Column* column = &values.column
        cdef int64_t count
        if not values.rows:
            return False
        count = _special(column.data + column.offsets[0], column.offsets[values.rows] - column.offsets[0])
        self.size_max += ESCAPE * count
        return count > 0

    cdef int _take_maps(self, Values values, Values keys, begins, valid) except -1:
        cdef const int32_t[::1] starts = begins
        cdef const uint8_t[::1] there = valid
        cdef Py_ssize_t row
        self.rows = there.shape[0]
        if keys is None or keys.column.kind != TEXT or keys.column.valid != NULL or keys.rows != values.rows:
            raise ValueError("entries of maps without their keys")
        if starts.shape[0] != self.rows + 1 or starts[0] < 0 or starts[self.rows] > keys.rows:
            raise ValueError("maps of other entries than there are")
        for row in range(self.rows):
            if starts[row] > starts[row + 1]:
                raise ValueError("a map that ends before it begins")
        self.keys, self.begins, self.valid = keys.column, &starts[0], &there[0] if self.rows else NULL
        self.size_max += keys.size_max + ENTRY * values.rows
        self.keys_special = self._take(keys)
        return 0

    cdef uint8_t* write(self, uint8_t* at, Py_ssize_t row) noexcept nogil:
        if self.kind >= OBJECT:
            if not self.valid[row]:
                return _write_null(at)
            return self._write_names(at, row) if self.kind == NAMES else self._write_object(at, row)
        if is_null(&self.values, row):
            return _write_null(at)
        if self.kind == STRING:
            return _write_string(at, &self.values, row, self.values_special)
        return write_text(at, &self.values, row)

    cdef uint8_t* _write_object(self, uint8_t* at, Py_ssize_t row) noexcept nogil:
        cdef int64_t entry, begin = self.begins[row]
        if self.kind == LISTED_OBJECT:
            at -= 1
            at[0] = 93
        at -= 1
        at[0] = 125
        for entry in range(self.begins[row + 1] - 1, begin - 1, -1):
            if is_null(&self.values, entry):
                at = _write_null(at)
            else:
                at = _write_string(at, &self.values, entry, self.values_special)
            at -= 1
            at[0] = COLON
            at = _write_string(at, &self.keys, entry, self.keys_special)
            if entry > begin:
                at -= 1
                at[0] = COMMA
        at -= 1
        at[0] = 123
        if self.kind == LISTED_OBJECT:
            at -= 1
            at[0] = 91
        return at

    cdef uint8_t* _write_names(self, uint8_t* at, Py_ssize_t row) noexcept nogil:
        cdef int64_t entry, begin = self.begins[row]
        if begin == self.begins[row + 1]:
            return _write_null(at)
        at -= 1
        at[0] = 93
        for entry in range(self.begins[row + 1] - 1, begin - 1, -1):
            at = _write_string(at, &self.keys, entry, self.keys_special)
            if entry > begin:
                at -= 1
                at[0] = COMMA
        at -= 1
        at[0] = 91
        return at


cdef struct _Text:
    const uint8_t* data
    Py_ssize_t size


cdef class _Texts:
    """Constant texts."""

    cdef _Text* texts
    cdef list owners

    def __cinit__(self, owners):
        cdef bytes owner
        self.owners = list(owners)
        self.texts = <_Text*>calloc(len(self.owners) or 1, sizeof(_Text))
        if self.texts == NULL:
            raise MemoryError
        for index in range(len(self.owners)):
            owner = self.owners[index]
            self.texts[index].data, self.texts[index].size = <const uint8_t*><const char*>owner, len(owner)

    def __dealloc__(self):
        free(self.texts)


def write(members, tail, Py_ssize_t rows):
    cdef list values = [member for _, member in members]
    cdef _Texts heads = _Texts([*(head for head, _ in members), tail])
    cdef Py_ssize_t index, row, count = len(values)
    cdef int64_t size_max = rows * <int64_t>sum(len(head) for head in heads.owners)
    cdef Member member
    cdef void** pointers
    cdef uint8_t[::1] block
    cdef int32_t[::1] begins
    cdef uint8_t* first
    cdef uint8_t* at
    for member in values:
        if member.rows != rows:
            raise ValueError("members of another number of objects")
        size_max += member.size_max
    if rows < 0 or size_max > 0x7fffffff:
        raise ValueError("more text than a column holds")
    data, offsets = np.empty(size_max + 1, np.uint8), np.empty(rows + 1, np.int32)
    block, begins = data, offsets
    pointers = <void**>calloc(count or 1, sizeof(void*))
    if pointers == NULL:
        raise MemoryError
    for index in range(count):
        pointers[index] = <void*>values[index]
    first = &block[0]
    at = first + size_max
    with nogil:
        begins[rows] = <int32_t>size_max
        for row in range(rows - 1, -1, -1):
            at = _write_bytes(at, heads.texts[count].data, heads.texts[count].size)
            for index in range(count - 1, -1, -1):
                at = (<Member>pointers[index]).write(at, row)
                at = _write_bytes(at, heads.texts[index].data, heads.texts[index].size)
            begins[row] = <int32_t>(at - first)
    free(pointers)
    return offsets - offsets[0], data[offsets[0] : size_max]


cdef bint _is_above(const uint8_t* data, int64_t size, const _Text* limit) noexcept nogil:
    """Return whether a text is a whole number above another one, which does not begin with a zero."""
    cdef int64_t index
    while size and data[0] == 48:
        data, size = data + 1, size - 1
    for index in range(size):
        if not 48 <= data[index] <= 57:
            return False
    return size > limit.size or (size == limit.size and memcmp(data, limit.data, size) > 0)


def above(Member maps, indexes, names, limits):
    cdef const int64_t[::1] rows = indexes
    cdef _Texts columns = _Texts(names), maxima = _Texts(limits)
    cdef Py_ssize_t index, name, count = len(columns.owners)
    cdef int64_t row, entry, begin, end, size
    cdef _Text* column
    cdef const uint8_t* key
    cdef uint8_t[:, ::1] found
    if maps.kind < OBJECT or count != len(maxima.owners):
        raise ValueError("values that are not in maps, or names without a limit")
    for index in range(rows.shape[0]):
        if not 0 <= rows[index] < maps.rows:
            raise ValueError("a row that is not there")
    out = np.zeros((rows.shape[0], count), np.uint8)
    if not out.size:
        return out
    found = out
    with nogil:
        for index in range(rows.shape[0]):
            row = rows[index]
            if not maps.valid[row]:
                continue
            for entry in range(maps.begins[row], maps.begins[row + 1]):
                key = maps.keys.data + maps.keys.offsets[entry]
                size = maps.keys.offsets[entry + 1] - maps.keys.offsets[entry]
                for name in range(count):
                    column = &columns.texts[name]
                    if column.size != size or memcmp(key, column.data, size) or is_null(&maps.values, entry):
                        continue
                    found[index, name] = _is_above(
                        maps.values.data + maps.values.offsets[entry],
                        maps.values.offsets[entry + 1] - maps.values.offsets[entry],
                        &maxima.texts[name],
                    )
                    break
    return out
