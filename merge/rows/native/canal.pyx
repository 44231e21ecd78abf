"""canal's entries: protobuf messages, written from the end of a block to its begin.

`canal.pyi` says what callers see. A message stands after its length, which is known once the message is
written. So each is written backwards, the last field first, and nothing is measured beforehand. No value is
read that the given arrays do not have, and no byte is written outside of the block.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

import numpy as np

cdef enum:
    #: most bytes of a number, with its tag
    NUMBER = 11
    #: most bytes of a column beside its value, its head and its tail: two lengths, two flags
    COLUMN = 2 * NUMBER + 4
    #: most bytes of a row beside its columns: its length
    ROW = NUMBER
    #: most bytes of an entry beside its texts and rows: 24 numbers and lengths, and the words that it contains
    ENTRY = 24 * NUMBER + 64

    INSERT = 1
    UPDATE = 2
    DELETE = 3

    BEGIN = 1
    ROWS = 2
    END = 3

    #: canal's Type.MYSQL
    MYSQL = 2

# ---- writing backwards: each function leaves `at` at the first byte that is written so far


cdef inline void _bytes(uint8_t** at, const uint8_t* data, int64_t size) noexcept nogil:
    at[0] -= size
    if size:
        memcpy(at[0], data, size)


cdef inline void _varint(uint8_t** at, uint64_t value) noexcept nogil:
    cdef int count = 1, place
    cdef uint64_t rest = value >> 7
    while rest:
        count += 1
        rest >>= 7
    at[0] -= count
    for place in range(count - 1):
        at[0][place] = <uint8_t>(value | 0x80)
        value >>= 7
    at[0][count - 1] = <uint8_t>value


cdef inline void _tag(uint8_t** at, int number, int wire_type) noexcept nogil:
    # The numbers of all fields are smaller than 16.
    at[0] -= 1
    at[0][0] = <uint8_t>(number << 3 | wire_type)


cdef inline void _number(uint8_t** at, int number, int64_t value) noexcept nogil:
    """Write a number; a message without the field says 0."""
    if value:
        _varint(at, <uint64_t>value)
        _tag(at, number, 0)


cdef inline void _text(uint8_t** at, int number, const uint8_t* data, int64_t size) noexcept nogil:
    """Write a text; a message without the field says an empty one."""
    if size:
        _bytes(at, data, size)
        _varint(at, <uint64_t>size)
        _tag(at, number, 2)


cdef inline void _message(uint8_t** at, int number, const uint8_t* end) noexcept nogil:
    """Put length and tag in front of a message that reaches to `end`."""
    _varint(at, <uint64_t>(end - at[0]))
    _tag(at, number, 2)


cdef inline void _pair(uint8_t** at, const char* key, int64_t key_size, const uint8_t* data, int64_t size) noexcept nogil:
    """Write one of a header's props; none where it has no value."""
    cdef const uint8_t* end = at[0]
    if size:
        _text(at, 2, data, size)
        _text(at, 1, <const uint8_t*>key, key_size)
        _message(at, 12, end)


cdef inline void _number_pair(uint8_t** at, const char* key, int64_t key_size, int64_t value) noexcept nogil:
    """Write one of a header's props, whose value is the digits of `value >= 0`."""
    cdef uint8_t digits[20]
    cdef int place = 20
    while True:
        place -= 1
        digits[place] = <uint8_t>(48 + value % 10)
        value = value // 10
        if not value:
            break
    _pair(at, key, key_size, digits + place, 20 - place)


# ---- rows


cdef struct _Column:
    #: what stands in front of a value, and in front of one that needs the wider type
    const uint8_t* head
    int64_t head_size
    const uint8_t* wide_head
    int64_t wide_head_size
    const uint8_t* tail
    int64_t tail_size
    const int32_t* offsets
    const uint8_t* data
    #: one byte a row; NULL: all are valid, none is wide, none is absent
    const uint8_t* valid
    const uint8_t* wide
    const uint8_t* absent


cdef const uint8_t* _mask(const uint8_t[::1] mask, Py_ssize_t rows) except? NULL:
    if not mask.shape[0]:
        return NULL
    if mask.shape[0] != rows:
        raise ValueError("a mask of another length than its column")
    return &mask[0]


cdef class _Side:
    """The columns of one image: their texts, and what is the same for all rows."""

    cdef _Column* columns
    cdef Py_ssize_t count
    #: what the pointers point into
    cdef tuple _kept
    #: most bytes that its columns take in all rows together
    cdef int64_t size_max

    def __cinit__(self, columns, Py_ssize_t rows):
        cdef const int32_t[::1] offsets
        cdef const uint8_t[::1] data
        cdef bytes head, wide_head, tail
        cdef _Column* column
        cdef Py_ssize_t row
        self._kept = tuple(columns)
        self.count = len(self._kept)
        self.size_max = 0
        self.columns = <_Column*>calloc(self.count or 1, sizeof(_Column))
        if self.columns == NULL:
            raise MemoryError
        for place in range(self.count):
            head, wide_head, tail, offsets, data, valid, wide, absent = self._kept[place]
            column = &self.columns[place]
            column.head, column.head_size = <const uint8_t*>PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head)
            column.wide_head = <const uint8_t*>PyBytes_AS_STRING(wide_head)
            column.wide_head_size = PyBytes_GET_SIZE(wide_head)
            column.tail, column.tail_size = <const uint8_t*>PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail)
            if offsets.shape[0] != rows + 1:
                raise ValueError("a column of another length than the others")
            if offsets[0] < 0 or offsets[rows] > data.shape[0]:
                raise ValueError("a text outside of its column")
            for row in range(rows):
                if offsets[row] > offsets[row + 1]:
                    raise ValueError("a text that ends before it begins")
            column.offsets = &offsets[0]
            column.data = &data[0] if data.shape[0] else <const uint8_t*>NULL
            column.valid, column.wide, column.absent = _mask(valid, rows), _mask(wide, rows), _mask(absent, rows)
            self.size_max += offsets[rows] - offsets[0] + rows * (
                COLUMN + max(column.head_size, column.wide_head_size) + column.tail_size
            )

    def __dealloc__(self):
        free(self.columns)

    cdef inline bint _is_null(self, Py_ssize_t place, Py_ssize_t row) noexcept nogil:
        cdef const uint8_t* valid = self.columns[place].valid
        return valid != NULL and not valid[row]

    cdef inline bint _is_absent(self, Py_ssize_t place, Py_ssize_t row) noexcept nogil:
        cdef const uint8_t* absent = self.columns[place].absent
        return absent != NULL and absent[row]

    cdef inline bint _differs(self, _Side before, Py_ssize_t place, Py_ssize_t row) noexcept nogil:
        """Return whether `before` has another value of a column, or none."""
        cdef _Column* now = &self.columns[place]
        cdef _Column* was = &before.columns[place]
        cdef int32_t size = now.offsets[row + 1] - now.offsets[row]
        if before._is_absent(place, row):
            return True
        if self._is_null(place, row) or before._is_null(place, row):
            return self._is_null(place, row) != before._is_null(place, row)
        if size != was.offsets[row + 1] - was.offsets[row]:
            return True
        return size != 0 and memcmp(now.data + now.offsets[row], was.data + was.offsets[row], size) != 0

    cdef void _write(
        self, uint8_t** at, int number, Py_ssize_t row, bint after, bint compared, _Side before
    ) noexcept nogil:
        """Write a row's columns as the image that field `number` of a RowData is.

        Args:
            after: whether it is the image after the change, whose columns say whether they are updated.
            compared: whether only those are that `before` has another value of; all of them otherwise.
        """
        cdef Py_ssize_t place
        cdef _Column* column
        cdef const uint8_t* end
        cdef bint null
        for place in range(self.count - 1, -1, -1):
            if self._is_absent(place, row):
                continue
            column = &self.columns[place]
            end = at[0]
            null = self._is_null(place, row)
            _bytes(at, column.tail, column.tail_size)
            if not null:
                _text(at, 8, column.data + column.offsets[row], column.offsets[row + 1] - column.offsets[row])
            # Also where it is false: clients can ask whether it was said.
            at[0] -= 2
            at[0][0], at[0][1] = 6 << 3, null
            if after and (not compared or self._differs(before, place, row)):
                _number(at, 5, 1)
            if column.wide != NULL and column.wide[row]:
                _bytes(at, column.wide_head, column.wide_head_size)
            else:
                _bytes(at, column.head, column.head_size)
            _message(at, number, end)


cdef class Rows:
    cdef readonly object begins
    cdef readonly object block
    cdef const int64_t[::1] _begins
    cdef const uint8_t[::1] _block

    def __init__(self, before, after, const uint8_t[::1] ops):
        cdef Py_ssize_t rows = ops.shape[0], row
        cdef _Side was = _Side(before, rows), now = _Side(after, rows)
        cdef int64_t size_max = was.size_max + now.size_max + rows * ROW
        cdef uint8_t[::1] block
        cdef int64_t[::1] begins
        cdef uint8_t* first
        cdef uint8_t* at
        cdef const uint8_t* end
        if was.count and now.count and was.count != now.count:
            raise ValueError("images of different columns")
        for row in range(rows):
            if not INSERT <= ops[row] <= DELETE:
                raise ValueError("an operation that is none")
            if (ops[row] != INSERT and not was.count) or (ops[row] != DELETE and not now.count):
                raise ValueError("a row without its image")
        self.block, self.begins = np.empty(size_max + 1, np.uint8), np.empty(rows + 1, np.int64)
        block, begins = self.block, self.begins
        first = &block[0]
        at = first + block.shape[0]
        begins[rows] = block.shape[0]
        with nogil:
            for row in range(rows - 1, -1, -1):
                end = at
                if ops[row] != DELETE:
                    now._write(&at, 2, row, True, ops[row] == UPDATE, was)
                if ops[row] != INSERT:
                    was._write(&at, 1, row, False, False, was)
                _message(&at, 12, end)
                begins[row] = at - first
        self._begins, self._block = begins, block

    @staticmethod
    def of(texts):
        """Return store values that are written already, as `encode` takes them."""
        cdef Rows rows = Rows.__new__(Rows)
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        rows.block, rows.begins = np.frombuffer(b"".join(texts) + b"\0", np.uint8), ends
        rows._begins, rows._block = rows.begins, rows.block
        return rows


# ---- entries


cdef struct _Text:
    const uint8_t* data
    int64_t size


cdef class _Texts:
    """Texts that entries contain, by index."""

    cdef _Text* texts
    cdef Py_ssize_t count
    cdef int64_t size_max
    cdef tuple _kept

    def __cinit__(self, texts):
        cdef Py_ssize_t place
        cdef bytes text
        self._kept = tuple(texts)
        self.count = len(self._kept)
        self.size_max = 0
        self.texts = <_Text*>calloc(self.count or 1, sizeof(_Text))
        if self.texts == NULL:
            raise MemoryError
        for place in range(self.count):
            text = self._kept[place]
            self.texts[place].data = <const uint8_t*>PyBytes_AS_STRING(text)
            self.texts[place].size = PyBytes_GET_SIZE(text)
            self.size_max = max(self.size_max, self.texts[place].size)

    def __dealloc__(self):
        free(self.texts)


cdef class _Pieces:
    """Rows of tables, by index, with the names of their tables as a header has them."""

    cdef const uint8_t** blocks
    cdef const int64_t** begins
    cdef int64_t* rows
    cdef Py_ssize_t count
    cdef tuple _kept

    def __cinit__(self, pieces):
        cdef Py_ssize_t place
        cdef Rows rows
        self._kept = tuple(pieces)
        self.count = len(self._kept)
        self.blocks = <const uint8_t**>calloc(self.count or 1, sizeof(uint8_t*))
        self.begins = <const int64_t**>calloc(self.count or 1, sizeof(int64_t*))
        self.rows = <int64_t*>calloc(self.count or 1, sizeof(int64_t))
        if self.blocks == NULL or self.begins == NULL or self.rows == NULL:
            raise MemoryError
        for place in range(self.count):
            rows = self._kept[place]
            self.blocks[place], self.begins[place] = &rows._block[0], &rows._begins[0]
            self.rows[place] = rows._begins.shape[0] - 1

    def __dealloc__(self):
        free(self.blocks)
        free(self.begins)
        free(self.rows)


cdef packed struct _Entry:
    int64_t rank
    int64_t kind
    int64_t piece
    int64_t first
    int64_t count
    int64_t event
    int64_t row


cdef packed struct _Transaction:
    int64_t file
    int64_t begin_offset
    int64_t end_offset
    int64_t millis
    int64_t server_id
    int64_t shard


cdef inline void _header(
    uint8_t** at, const _Entry* entry, const _Transaction* said, _Text file, _Text shard, _Text gtid, _Text table
) noexcept nogil:
    """Write the header of an entry: its field 1."""
    cdef const uint8_t* end = at[0]
    _text(at, 13, gtid.data, gtid.size)
    if entry.kind == ROWS:
        _number_pair(at, b"row", 3, entry.row)
    _pair(at, b"shard", 5, shard.data, shard.size)
    if entry.kind == ROWS and entry.count:
        _number_pair(at, b"rowsCount", 9, entry.count)
    _pair(at, b"curtGtid", 8, gtid.data, gtid.size)
    if entry.kind == ROWS:
        _number(at, 11, entry.event)
    _number(at, 10, said.end_offset - said.begin_offset)
    _bytes(at, table.data, table.size)
    _number(at, 7, MYSQL)
    _number(at, 6, said.millis)
    _text(at, 5, b"UTF-8", 5)
    _number(at, 4, said.server_id)
    _number(at, 3, said.end_offset if entry.kind == END else said.begin_offset)
    _text(at, 2, file.data, file.size)
    _number(at, 1, 1)
    _message(at, 1, end)


def encode(
    const _Entry[::1] entries,
    const _Transaction[::1] transactions,
    names,
    shards,
    const int32_t[::1] gtid_ends,
    const uint8_t[::1] gtids,
    pieces,
    prefixes,
    int number,
):
    cdef _Texts files = _Texts(names), shard_names = _Texts(shards), tables = _Texts(prefixes)
    cdef _Pieces rows = _Pieces(pieces)
    cdef Py_ssize_t place, count = entries.shape[0], ranks = transactions.shape[0]
    cdef int64_t size_max = 0, fixed = ENTRY + files.size_max + shard_names.size_max + tables.size_max
    cdef int64_t last
    cdef const _Entry* entry
    cdef const _Transaction* said
    cdef const uint8_t* end
    cdef uint8_t* first
    cdef uint8_t* at
    cdef uint8_t[::1] block
    cdef int64_t[::1] begins
    cdef _Text table, gtid
    if rows.count != tables.count:
        raise ValueError("rows without the name of their table")
    if gtid_ends.shape[0] != ranks + 1 or gtid_ends[0] < 0 or gtid_ends[ranks] > gtids.shape[0]:
        raise ValueError("a GTID outside of its column")
    for place in range(ranks):
        said = &transactions[place]
        if gtid_ends[place] > gtid_ends[place + 1]:
            raise ValueError("a GTID that ends before it begins")
        if not (0 <= said.file < files.count and 0 <= said.shard < shard_names.count):
            raise ValueError("a transaction whose file or shard has no name")
    for place in range(count):
        entry = &entries[place]
        if not (0 <= entry.rank < ranks and BEGIN <= entry.kind <= END and entry.row >= 0):
            raise ValueError("an entry that is none, or without its transaction")
        # The GTID stands in the header, in its props, and at the end of a transaction.
        size_max += fixed + 3 * (gtid_ends[entry.rank + 1] - gtid_ends[entry.rank])
        if entry.kind != ROWS:
            continue
        if not 0 <= entry.piece < rows.count:
            raise ValueError("an entry without its rows")
        last = max(entry.count, 1)
        if not (0 <= entry.first < rows.rows[entry.piece] and last <= rows.rows[entry.piece] - entry.first):
            raise ValueError("an entry with rows that are not there")
        size_max += rows.begins[entry.piece][entry.first + last] - rows.begins[entry.piece][entry.first]
    out, begun = np.empty(size_max + 1, np.uint8), np.empty(count + 1, np.int64)
    block, begins = out, begun
    first = &block[0]
    at = first + block.shape[0]
    begins[count] = block.shape[0]
    with nogil:
        for place in range(count - 1, -1, -1):
            entry = &entries[place]
            said = &transactions[entry.rank]
            gtid.size = gtid_ends[entry.rank + 1] - gtid_ends[entry.rank]
            gtid.data = &gtids[gtid_ends[entry.rank]] if gtid.size else <const uint8_t*>NULL
            table.data, table.size = NULL, 0
            end = at
            if entry.kind == ROWS:
                table = tables.texts[entry.piece]
                last = rows.begins[entry.piece][entry.first + max(entry.count, 1)]
                _bytes(
                    &at,
                    rows.blocks[entry.piece] + rows.begins[entry.piece][entry.first],
                    last - rows.begins[entry.piece][entry.first],
                )
                if entry.count > 0:
                    at -= 2
                    at[0], at[1] = 10 << 3, 0
                    _number(&at, 2, entry.event)
            elif entry.kind == END:
                _text(&at, 2, gtid.data, gtid.size)
            _message(&at, 3, end)
            _number(&at, 2, entry.kind)
            _header(&at, entry, said, files.texts[said.file], shard_names.texts[said.shard], gtid, table)
            if number:
                _message(&at, number, end)
            begins[place] = at - first
    return out, begun
