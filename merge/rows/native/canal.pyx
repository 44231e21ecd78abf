"""canal's entries: protobuf messages, written from the end of a block to its begin.

`canal.pyi` describes its interface. A message stands after its length, which is known once the message is
written. So each is written backwards, the last field first, and nothing is measured beforehand. A value's text
is written into its message, and nowhere else before. No value is read that the given columns do not have, and no
byte is written outside of the block.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from canal_group.merge.rows.native.text cimport Column, Values, are_alike, is_above, is_null, is_same, write_text

cdef enum:
    #: most bytes of a number, with its tag
    NUMBER = 11
    #: most bytes of a column beside its value, its head and its tail: two lengths, two flags
    COLUMN = 2 * NUMBER + 4
    #: most bytes of a row beside its columns: its length
    ROW = NUMBER
    #: most bytes of an entry beside its texts and rows: 24 numbers and lengths, and the words that it contains
    ENTRY = 24 * NUMBER + 64
    #: bytes that are copied at once, of constant bytes that may be fewer
    PAD = 32

    INSERT = 1
    UPDATE = 2
    DELETE = 3

    BEGIN = 1
    ROWS = 2
    END = 3

    #: canal's Type.MYSQL
    MYSQL = 2

# ---- writing backwards: each function leaves `at` at the first byte that is written


cdef inline void _bytes(uint8_t** at, const uint8_t* data, int64_t size) noexcept nogil:
    at[0] -= size
    if size:
        memcpy(at[0], data, size)


cdef inline void _varint(uint8_t** at, uint64_t value) noexcept nogil:
    cdef int count = 1, index
    cdef uint64_t rest = value >> 7
    if not rest:
        at[0] -= 1
        at[0][0] = <uint8_t>value
        return
    while rest:
        count += 1
        rest >>= 7
    at[0] -= count
    for index in range(count - 1):
        at[0][index] = <uint8_t>(value | 0x80)
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
    """Write one of a header's props, whose value is a number as text."""
    cdef uint8_t digits[20]
    cdef int index = 20
    cdef uint64_t left = <uint64_t>value if value >= 0 else 0 - <uint64_t>value
    while True:
        index -= 1
        digits[index] = <uint8_t>(48 + left % 10)
        left = left // 10
        if not left:
            break
    if value < 0:
        index -= 1
        digits[index] = 45
    _pair(at, key, key_size, digits + index, 20 - index)


# ---- rows


cdef struct _Words:
    #: the end of constant bytes; `PAD` bytes before that may be read, however few they are
    const uint8_t* end
    int64_t size


cdef struct _Column:
    #: what stands in front of a value, in front of one that needs the wider type, and after it
    _Words head
    _Words wide_head
    _Words tail
    Column values
    #: whether a number above `number_max` needs the wider type
    bint has_wider
    uint64_t number_max
    #: one byte a row; NULL: none is absent
    const uint8_t* absent


cdef inline void _words(uint8_t** at, const _Words* words) noexcept nogil:
    """Write constant bytes. What is written before them is overwritten by what comes next."""
    memcpy(at[0] - PAD, words.end - PAD, PAD)
    at[0] -= words.size
    if words.size > PAD:
        memcpy(at[0], words.end - words.size, words.size)


cdef inline bint _is_absent(const _Column* column, Py_ssize_t row) noexcept nogil:
    return column.absent != NULL and column.absent[row]


cdef inline bint _differs(const _Column* now, const _Column* was, Py_ssize_t row) noexcept nogil:
    """Return whether a column has another value than before, or had none."""
    cdef bint null = is_null(&now.values, row)
    if _is_absent(was, row):
        return True
    if null or is_null(&was.values, row):
        return null != is_null(&was.values, row)
    return not is_same(&now.values, &was.values, row)


cdef class _Side:
    """The columns of one image."""

    cdef _Column* columns
    cdef Py_ssize_t count
    #: what the pointers point into
    cdef list _owners
    #: most bytes that its columns take in all rows together
    cdef int64_t size_max

    def __cinit__(self, columns, Py_ssize_t rows):
        cdef Values values
        cdef _Column* column
        cdef const uint8_t[::1] absent
        self._owners = list(columns)
        self.count = len(self._owners)
        self.size_max = 0
        self.columns = <_Column*>calloc(self.count or 1, sizeof(_Column))
        if self.columns == NULL:
            raise MemoryError
        for index in range(self.count):
            head, wide_head, tail, values, number_max, absent = self._owners[index]
            column = &self.columns[index]
            self._keep(&column.head, head)
            self._keep(&column.wide_head, wide_head)
            self._keep(&column.tail, tail)
            if values.rows != rows:
                raise ValueError("a column of another length than the others")
            column.values = values.column
            column.has_wider = number_max is not None
            column.number_max = number_max or 0
            if absent.shape[0]:
                if absent.shape[0] != rows:
                    raise ValueError("a mask of another length than its column")
                column.absent = &absent[0]
            self.size_max += values.size_max + rows * (
                COLUMN + max(column.head.size, column.wide_head.size) + column.tail.size
            )

    def __dealloc__(self):
        free(self.columns)

    cdef int _keep(self, _Words* words, bytes text) except -1:
        cdef bytes padded = bytes(PAD) + text
        self._owners.append(padded)
        words.end = <const uint8_t*>PyBytes_AS_STRING(padded) + PyBytes_GET_SIZE(padded)
        words.size = PyBytes_GET_SIZE(text)
        return 0

    cdef bint _is_like(self, _Side other) noexcept:
        """Return whether the columns of two images can be compared."""
        cdef Py_ssize_t index
        if self.count != other.count:
            return False
        for index in range(self.count):
            if not are_alike(&self.columns[index].values, &other.columns[index].values):
                return False
        return True

    cdef void _write(
        self, uint8_t** at, int number, Py_ssize_t row, bint after, bint compared, _Side before
    ) noexcept nogil:
        """Write a row's columns as the image that field `number` of a RowData is.

        Args:
            after: whether it is the image after the change, whose columns say whether they are updated.
            compared: whether only those are that `before` has another value of; all of them otherwise.
        """
        cdef Py_ssize_t index
        cdef const _Column* column
        cdef uint8_t* end
        cdef uint8_t* text_end
        cdef bint null
        for index in range(self.count - 1, -1, -1):
            column = &self.columns[index]
            if _is_absent(column, row):
                continue
            end = at[0]
            null = is_null(&column.values, row)
            _words(at, &column.tail)
            if not null:
                text_end = at[0]
                at[0] = write_text(text_end, &column.values, row)
                if at[0] != text_end:
                    _message(at, 8, text_end)
            # Also where it is false: clients can ask whether the field is set.
            at[0] -= 2
            at[0][0], at[0][1] = 6 << 3, null
            if after and (not compared or _differs(column, &before.columns[index], row)):
                _number(at, 5, 1)
            if column.has_wider and not null and is_above(&column.values, row, column.number_max):
                _words(at, &column.wide_head)
            else:
                _words(at, &column.head)
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
        if was.count and now.count and not was._is_like(now):
            raise ValueError("images of different columns")
        for row in range(rows):
            if not INSERT <= ops[row] <= DELETE:
                raise ValueError("an operation that is none")
            if (ops[row] != INSERT and not was.count) or (ops[row] != DELETE and not now.count):
                raise ValueError("a row without its image")
        self.block, self.begins = np.empty(PAD + size_max + 1, np.uint8), np.empty(rows + 1, np.int64)
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
    cdef tuple _owners

    def __cinit__(self, texts):
        cdef Py_ssize_t index
        cdef bytes text
        self._owners = tuple(texts)
        self.count = len(self._owners)
        self.size_max = 0
        self.texts = <_Text*>calloc(self.count or 1, sizeof(_Text))
        if self.texts == NULL:
            raise MemoryError
        for index in range(self.count):
            text = self._owners[index]
            self.texts[index].data = <const uint8_t*>PyBytes_AS_STRING(text)
            self.texts[index].size = PyBytes_GET_SIZE(text)
            self.size_max = max(self.size_max, self.texts[index].size)

    def __dealloc__(self):
        free(self.texts)


cdef class _Pieces:
    """Rows of tables, by index, with the names of their tables as a header has them."""

    cdef const uint8_t** blocks
    cdef const int64_t** begins
    cdef int64_t* rows
    cdef Py_ssize_t count
    cdef tuple _owners

    def __cinit__(self, pieces):
        cdef Py_ssize_t index
        cdef Rows rows
        self._owners = tuple(pieces)
        self.count = len(self._owners)
        self.blocks = <const uint8_t**>calloc(self.count or 1, sizeof(uint8_t*))
        self.begins = <const int64_t**>calloc(self.count or 1, sizeof(int64_t*))
        self.rows = <int64_t*>calloc(self.count or 1, sizeof(int64_t))
        if self.blocks == NULL or self.begins == NULL or self.rows == NULL:
            raise MemoryError
        for index in range(self.count):
            rows = self._owners[index]
            self.blocks[index], self.begins[index] = &rows._block[0], &rows._begins[0]
            self.rows[index] = rows._begins.shape[0] - 1

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
    uint8_t** at,
    const _Entry* entry,
    const _Transaction* transaction,
    _Text file,
    _Text shard,
    _Text gtid,
    _Text table,
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
    _number(at, 10, transaction.end_offset - transaction.begin_offset)
    _bytes(at, table.data, table.size)
    _number(at, 7, MYSQL)
    _number(at, 6, transaction.millis)
    _text(at, 5, b"UTF-8", 5)
    _number(at, 4, transaction.server_id)
    _number(at, 3, transaction.end_offset if entry.kind == END else transaction.begin_offset)
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
    cdef Py_ssize_t index, count = entries.shape[0], ranks = transactions.shape[0]
    cdef int64_t size_max = 0, fixed = ENTRY + files.size_max + shard_names.size_max + tables.size_max
    cdef int64_t last
    cdef const _Entry* entry
    cdef const _Transaction* transaction
    cdef const uint8_t* end
    cdef uint8_t* first
    cdef uint8_t* at
    cdef uint8_t[::1] block
    cdef int64_t[::1] begins
    cdef _Text table, gtid, file, shard
    if rows.count != tables.count:
        raise ValueError("rows without the name of their table")
    if gtid_ends.shape[0] != ranks + 1 or gtid_ends[0] < 0 or gtid_ends[ranks] > gtids.shape[0]:
        raise ValueError("a GTID outside of its column")
    for index in range(ranks):
        transaction = &transactions[index]
        if gtid_ends[index] > gtid_ends[index + 1]:
            raise ValueError("a GTID that ends before it begins")
        if not (0 <= transaction.file < files.count and 0 <= transaction.shard < shard_names.count):
            raise ValueError("a transaction whose file or shard has no name")
    for index in range(count):
        entry = &entries[index]
        if not (0 <= entry.rank < ranks and BEGIN <= entry.kind <= END):
            raise ValueError("an invalid entry, or one without its transaction")
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
        for index in range(count - 1, -1, -1):
            entry = &entries[index]
            transaction = &transactions[entry.rank]
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
            file, shard = files.texts[transaction.file], shard_names.texts[transaction.shard]
            _header(&at, entry, transaction, file, shard, gtid, table)
            if number:
                _message(&at, number, end)
            begins[index] = at - first
    return out, begun
