"""Images: decodes the rows of one table from rows events into column buffers.

`images.pyi` describes its interface. Layout of a rows event: `Rows_event` in MySQL's
libs/mysql/binlog/event/rows_event.h; version 1 has no extra data.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

import sys
from itertools import accumulate

from canal_group.binlog.native cimport columns as c
from canal_group.binlog.native cimport faults as f
from canal_group.binlog.native cimport partial as p
from canal_group.binlog.native.columns cimport Plan, Reader, Side, Target, remaining
from canal_group.binlog.native.decimals cimport DIGITS_MAX, packed_size
from canal_group.binlog.native.json_text cimport put_json
from canal_group.binlog.native.memory cimport Bytes, clear_bit, count_zeros, reserve
from canal_group.binlog.native.numbers cimport load16, load_little
from canal_group.binlog.native.text cimport ascii_run, convert, convert_size, is_utf8_column

if sys.byteorder != "little":
    raise ImportError("Rows are decoded on little-endian machines only.")

cdef enum:
    #: from this many bytes on other threads run meanwhile; below, letting go of the lock would take longer
    UNLOCKED_BYTES = 1024
    #: fewer rows have their memory soon; more are expected, with one more for each such number
    MANY_ROWS = 1024
    SPARE = 16
    #: bytes of a row beside its images: header, ordinal, op
    ROW_HEAD_BYTES = 13
    #: the most bytes that are expected of a column's data
    EXPECTED_BYTES_MAX = 1 << 24

FAULTS = {
    f.TRUNCATED: "truncated",
    f.TOO_LARGE: "too_large",
    f.COLUMN_COUNT: "column_count",
    f.BAD_HEAD: "bad_head",
    f.BAD_DECIMAL: "bad_decimal",
    f.BAD_ENUM: "bad_enum",
    f.BAD_LIST: "bad_list",
    f.BAD_JSON: "bad_json",
    f.BAD_DIFFERENCE: "bad_difference",
    f.NO_DOCUMENT: "no_document",
    f.VALUE_OPTIONS: "value_options",
    f.BAD_MOMENT: "bad_moment",
    f.BAD_PACKED: "bad_packed",
    f.ROW_TOO_LARGE: "row_too_large",
}
#: bytes that one row may hold, both images together, its ENUM values as text: as many as the servers' largest event
ROW_BYTES_MAX = 1 << 30

_PLAIN = {1: c.PLAIN1, 2: c.PLAIN2, 4: c.PLAIN4, 8: c.PLAIN8}
_WHOLE = {"time2": (c.TIME2, 3), "datetime2": (c.DATETIME2, 5), "timestamp2": (c.TIMESTAMP2, 4)}
#: kind -> number, bytes stored per number of digits of the fraction
_HIRES = {
    "time_hires": (c.TIME_HIRES, (3, 4, 4, 5, 5, 5, 6)),
    "datetime_hires": (c.DATETIME_HIRES, (5, 6, 6, 7, 7, 7, 8)),
    "timestamp_hires": (c.TIMESTAMP_HIRES, (4, 5, 5, 6, 6, 7, 7)),
}
#: kind -> number, bytes stored, bytes of a slot
_FIXED = {
    "int24": (c.INT24, 3, 4),
    "uint24": (c.UINT24, 3, 4),
    "date": (c.DATE, 3, 4),
    "time": (c.TIME, 3, 8),
    "datetime": (c.DATETIME, 8, 8),
    "timestamp": (c.TIMESTAMP, 4, 8),
    "year": (c.YEAR, 1, 2),
}
_SIZED = {"string": c.STRING, "binary": c.BINARY, "json": c.JSON, "list": c.LIST, "packed": c.PACKED}


cdef class Layout:
    def __cinit__(self, columns):
        self.columns = len(columns)
        self._kept = []
        self.plans = <Plan*>calloc(max(1, self.columns), sizeof(Plan))
        if self.plans == NULL:
            raise MemoryError
        for index, (kind, size, scale, members) in enumerate(columns):
            if not self._describe(&self.plans[index], kind, size, scale, members):
                raise ValueError(f"column {index}: no {kind} has size {size} and scale {scale}")
            self.image_bytes += self.plans[index].width
        self.image_bytes += 2 * ((self.columns + 7) // 8)  # which are valid, and which are absent

    def __dealloc__(self):
        free(self.plans)

    cdef bint _describe(self, Plan* plan, str kind, int size, int scale, tuple members) except -1:
        """Fill in a plan; False if there is no such column. A plan that is accepted here is safe to decode."""
        if kind == "plain" and size in _PLAIN:
            plan.kind, plan.stored, plan.width = _PLAIN[size], size, size
        elif kind in _FIXED:
            plan.kind, plan.stored, plan.width = _FIXED[kind]
        elif kind in _WHOLE and 0 <= size <= 6:
            plan.kind, plan.stored = _WHOLE[kind]
            plan.size, plan.width = (size + 1) // 2, 8
            plan.stored += plan.size
        elif kind in _HIRES and 1 <= size <= 6:
            plan.kind, sizes = _HIRES[kind]
            plan.stored, plan.size, plan.width = sizes[size], size, 8
        elif kind == "decimal" and 1 <= size <= DIGITS_MAX and 0 <= scale <= size:
            plan.kind, plan.size, plan.scale = c.DECIMAL, size - scale, scale
            plan.stored, plan.width = packed_size(size - scale, scale), 16 if size <= 38 else 32
        elif kind == "bit" and 1 <= size <= 64:
            plan.kind, plan.size, plan.stored, plan.width = c.BIT, size, (size + 7) // 8, 8
        elif kind == "enum" and 1 <= size <= 2:
            plan.kind, plan.size, plan.stored, plan.width = c.ENUM, len(members), size, 4
            self._keep_members(plan, members)
        elif kind == "set" and size in (1, 2, 3, 4, 8) and len(members) <= 64:
            plan.kind, plan.size, plan.stored, plan.width = c.SET, len(members), size, 4
            self._keep_members(plan, members)
        elif kind in _SIZED and 1 <= size <= 4 and 0 <= scale < 1024 and (scale or kind != "list"):
            plan.kind, plan.stored, plan.size, plan.width = _SIZED[kind], size, scale, 4
        else:
            return False
        return True

    cdef int _keep_members(self, Plan* plan, tuple members) except -1:
        cdef bytes text = b"".join(members)
        cdef bytes ends = b"".join([end.to_bytes(4, "little") for end in accumulate(map(len, members))])
        self._kept.extend((text, ends))
        plan.members = <const uint8_t*>PyBytes_AS_STRING(text)
        plan.ends = <const uint32_t*>PyBytes_AS_STRING(ends)
        return 0


cdef class Block:
    cdef uint8_t* data
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)


cdef Block block_of(uint8_t** data, size_t size):
    """Hand memory over to a block that frees it, cut to its size."""
    cdef Block block = Block.__new__(Block)
    cdef void* cut = realloc(data[0], size if size else 1)
    block.data = <uint8_t*>cut if cut != NULL else data[0]
    block.size = size
    data[0] = NULL
    return block


cdef Block bitmaps_of(Bytes* absent, size_t size):
    """Hand over bitmaps; those that are not there are zero."""
    if f.FINE != reserve(absent, size - absent.size):
        raise MemoryError
    memset(absent.data + absent.size, 0, size - absent.size)
    absent.size = absent.capacity = 0
    return block_of(&absent.data, size)


cdef int open_side(Side* side, size_t columns) except -1:
    side.targets = <Target*>calloc(max(1, columns), sizeof(Target))
    if side.targets == NULL:
        raise MemoryError
    side.columns = columns
    return 0


cdef void close_side(Side* side) noexcept:
    cdef size_t index
    if side.targets != NULL:
        for index in range(side.columns):
            free(side.targets[index].slots)
            free(side.targets[index].valid)
            free(side.targets[index].data.data)
    free(side.targets)
    side.targets = NULL


cdef inline bint lacks(uint8_t op, bint after) noexcept nogil:
    """Return whether an operation has no such image."""
    return op == DELETE if after else op == INSERT or op == READ


cdef class RowBuffers:
    def __cinit__(self, Layout layout not None, *_args):
        self.layout = layout
        self.last_header = -1
        self.row_bytes_max = ROW_BYTES_MAX
        self.large_column = -1
        open_side(&self.before, layout.columns)
        open_side(&self.after, layout.columns)

    def __dealloc__(self):
        free(self.headers)
        free(self.ordinals)
        free(self.ops)
        close_side(&self.before)
        close_side(&self.after)
        p.free_partial(&self.partial)

    def __len__(self):
        return self.rows

    def refusal(self, fault, offset):
        return ValueError(f"{fault} at byte {offset}")

    def append(
        self,
        bytes body not None,
        int op,
        int version,
        int id_size,
        int header,
        int64_t row_begin,
        Py_ssize_t skip,
        size_t held_max,
        size_t rest_at,
    ):
        cdef Reader reader
        cdef size_t count = 0, size = PyBytes_GET_SIZE(body), first = self.rows, zero_dates = self.zero_dates
        cdef int fault
        if op < INSERT or op > DELETE or skip < 0 or header < 0 or rest_at > size:
            raise ValueError("an argument is out of range")
        reader.begin = reader.at = <const uint8_t*>PyBytes_AS_STRING(body)
        reader.end = reader.begin + size
        if self.busy:
            raise ValueError("called by two threads at once")
        if header != self.last_header:
            self.last_header = header
            self.mark_rows = self.rows
            self.mark_zero_dates = self.zero_dates
        fault = self._read_head(&reader, op, version, id_size)
        if fault == f.FINE:
            if rest_at:
                reader.at = reader.begin + rest_at
            if size < UNLOCKED_BYTES:
                fault = self._read(&reader, op, header, row_begin, skip, held_max, &count)
                if fault == f.FINE and not rest_at and reader.at < reader.end:
                    fault = self._verify(&reader, op, first, zero_dates)
            else:
                self.busy = True
                with nogil:
                    fault = self._read(&reader, op, header, row_begin, skip, held_max, &count)
                    if fault == f.FINE and not rest_at and reader.at < reader.end:
                        fault = self._verify(&reader, op, first, zero_dates)
                self.busy = False
        if fault == f.FINE:
            return count
        if fault == f.NO_MEMORY:
            raise MemoryError
        if fault == f.ROW_TOO_LARGE:
            self.large_column, self.large_bytes = reader.large - self.layout.plans, reader.large_bytes
        raise self.refusal(FAULTS[fault], reader.at - reader.begin)

    cdef int _read(
        self, Reader* reader, int op, int header, int64_t row_begin, size_t skip, size_t held_max, size_t* count
    ) noexcept nogil:
        """Read rows up to the one that makes them hold `held_max` bytes, or change nothing; return the fault."""
        cdef size_t first = self.rows, zero_dates = self.zero_dates, fixed
        cdef int fault = f.FINE
        self.held = self.rest_at = 0
        while fault == f.FINE and reader.at < reader.end:
            if count[0] > skip and self.held >= held_max:
                self.rest_at = reader.at - reader.begin
                break
            fixed = self._row_bytes(op)
            reader.room = self.row_bytes_max
            fault = self._read_row(reader, op, header, row_begin + <int64_t>count[0])
            count[0] += 1
            if count[0] <= skip or fault:
                self.take_back(first, zero_dates)
            else:
                self.held += fixed + self.row_bytes_max - reader.room
        return fault

    cdef int _verify(self, Reader* reader, int op, size_t first, size_t zero_dates) noexcept nogil:
        """Read the rest of an event and drop its rows one by one; at a fault drop those from `first` on, too."""
        cdef Reader rest = reader[0]
        cdef size_t count = 0, held = self.held, rest_at = self.rest_at
        cdef int fault = self._read(&rest, op, 0, 0, <size_t>-1, 0, &count)
        self.held, self.rest_at = held, rest_at
        if fault:
            self.take_back(first, zero_dates)
            reader[0] = rest
        return fault

    cdef size_t _row_bytes(self, int op) noexcept nogil:
        """Return what the next row holds beside its values of any size; a side that begins has slots for all rows."""
        cdef size_t images = (op != INSERT or self.before.rows > 0) + (op != DELETE or self.after.rows > 0)
        if (op != INSERT and not self.before.rows) or (op != DELETE and not self.after.rows):
            images += self.rows
        return ROW_HEAD_BYTES + images * self.layout.image_bytes

    cdef int _read_head(self, Reader* reader, int op, int version, int id_size) noexcept nogil:
        """Read the fixed part: table id, flags, extra data, column count, which columns are present."""
        cdef size_t extra, count, width, columns = self.layout.columns
        if remaining(reader) < <size_t>id_size + 2:
            return f.TRUNCATED
        reader.at += id_size + 2
        if version > 1:
            if remaining(reader) < 2:
                return f.TRUNCATED
            extra = load16(reader.at)
            if extra < 2:
                return f.BAD_HEAD
            if remaining(reader) < extra:
                return f.TRUNCATED
            reader.at += extra
        if not remaining(reader):
            return f.TRUNCATED
        count = reader.at[0]
        reader.at += 1
        if count > 250:
            width = 2 if count == 252 else 3 if count == 253 else 8 if count == 254 else 0
            if remaining(reader) < width:
                return f.TRUNCATED
            count = load_little(reader.at, width)
            reader.at += width
        if count != columns or not columns:
            return f.COLUMN_COUNT
        width = (columns + 7) // 8
        if remaining(reader) < (2 * width if op == UPDATE else width):
            return f.TRUNCATED
        self.partial.differences = version == 3
        self.is_whole = version < 3
        self.partial.before.count = self.partial.after.count = 0
        if op != INSERT:
            self.is_whole &= p.set_present(&self.partial.before, reader.at, columns)
            reader.at += width
        if op != DELETE:
            self.is_whole &= p.set_present(&self.partial.after, reader.at, columns)
            reader.at += width
        if not self.partial.before.count + self.partial.after.count and remaining(reader):
            return f.BAD_HEAD  # rows of zero bytes would never end
        return f.FINE

    cdef int _read_row(self, Reader* reader, int op, int header, int64_t ordinal) noexcept nogil:
        cdef int fault
        if self.rows == self.capacity:
            fault = self._make_room(self.rows + 1)
            if fault:
                return fault
        if op != INSERT:
            fault = self._read_side(&self.before, reader, NULL)
            if fault:
                return fault
        if op != DELETE:
            fault = self._read_side(&self.after, reader, &self.before if op == UPDATE else NULL)
            if fault:
                return fault
        self.headers[self.rows] = header
        self.ordinals[self.rows] = ordinal
        self.ops[self.rows] = op
        self.rows += 1
        return f.FINE

    cdef int _read_side(self, Side* side, Reader* reader, const Side* before) noexcept nogil:
        """Read an image; for the image after an update, `before` has that row's image before."""
        cdef int fault = f.FINE
        if side.rows < self.rows:
            fault = c.fill_absent(self.layout.plans, side, self.rows)
        if fault == f.FINE and side.rows == side.capacity:
            fault = c.make_room(self.layout.plans, side, side.rows + 1)
        if fault:
            return fault
        if self.is_whole:
            return c.read_image(self.layout.plans, side, reader, &self.zero_dates)
        if side == &self.before:
            return p.read_before(self.layout.plans, side, &self.partial, reader, &self.zero_dates)
        return p.read_after(self.layout.plans, before, side, &self.partial, reader, &self.zero_dates)

    def expect_as_many(self, RowBuffers other not None):
        cdef size_t rows = other.rows + other.rows // SPARE
        if self.rows or self.layout.columns != other.layout.columns:
            raise ValueError("rows were read already, or are of another table")
        # If there is no memory for the expected rows, the error comes with the rows.
        if other.rows >= MANY_ROWS and self._make_room(rows) == f.FINE:
            self._expect(&self.before, &other.before, rows)
            self._expect(&self.after, &other.after, rows)

    cdef void _expect(self, Side* side, const Side* other, size_t rows) noexcept nogil:
        cdef size_t index, size
        if not other.rows or c.make_room(self.layout.plans, side, rows):
            return
        for index in range(side.columns):
            size = other.targets[index].data.size
            reserve(&side.targets[index].data, min(size + size // SPARE, <size_t>EXPECTED_BYTES_MAX))

    cdef int _make_room(self, size_t rows) noexcept nogil:
        cdef size_t capacity = max(self.capacity * 2 if self.capacity else 16, rows)
        cdef void* moved = realloc(self.headers, capacity * sizeof(int32_t))
        if moved == NULL:
            return f.NO_MEMORY
        self.headers = <int32_t*>moved
        moved = realloc(self.ordinals, capacity * sizeof(int64_t))
        if moved == NULL:
            return f.NO_MEMORY
        self.ordinals = <int64_t*>moved
        moved = realloc(self.ops, capacity)
        if moved == NULL:
            return f.NO_MEMORY
        self.ops = <uint8_t*>moved
        self.capacity = capacity
        return f.FINE

    cdef void take_back(self, size_t rows, size_t zero_dates) noexcept nogil:
        c.take_back(&self.before, rows)
        c.take_back(&self.after, rows)
        p.take_back_absent(&self.partial, self.layout.columns, rows)
        self.rows, self.zero_dates = rows, zero_dates

    def discard(self, int header):
        if self.busy:
            raise ValueError("called while an event is read")
        if header == self.last_header:
            self.take_back(self.mark_rows, self.mark_zero_dates)

    def take_heads(self):
        """Hand over headers, ordinals and ops; the images are taken before."""
        return (
            block_of(<uint8_t**>&self.headers, self.rows * sizeof(int32_t)),
            block_of(<uint8_t**>&self.ordinals, self.rows * sizeof(int64_t)),
            block_of(&self.ops, self.rows),
        )

    def take_absent(self):
        cdef size_t width = (self.layout.columns + 7) // 8
        if not self.partial.absent_before.size and not self.partial.absent_after.size:
            return None
        return (
            bitmaps_of(&self.partial.absent_before, self.rows * width),
            bitmaps_of(&self.partial.absent_after, self.rows * width),
        )

    def take_side(self, bint after):
        cdef Side* side = &self.after if after else &self.before
        cdef size_t index, missing = 0
        cdef Block present
        cdef uint8_t* bitmap
        for index in range(self.rows):
            missing += lacks(self.ops[index], after)
        if missing == self.rows:
            return None
        if c.fill_absent(self.layout.plans, side, self.rows):
            raise MemoryError
        present = None
        if missing:
            bitmap = <uint8_t*>realloc(NULL, (self.rows + 7) // 8)
            if bitmap == NULL:
                raise MemoryError
            memset(bitmap, 0xFF, (self.rows + 7) // 8)
            for index in range(self.rows):
                if lacks(self.ops[index], after):
                    clear_bit(bitmap, index)
            present = block_of(&bitmap, (self.rows + 7) // 8)
        columns = [self._take_column(side, index) for index in range(side.columns)]
        return present, missing, columns

    cdef tuple _take_column(self, Side* side, size_t index):
        cdef Plan* plan = &self.layout.plans[index]
        cdef Target* target = &side.targets[index]
        cdef size_t nulls = count_zeros(target.valid, self.rows), size
        cdef Block valid = block_of(&target.valid, (self.rows + 7) // 8) if nulls else None
        cdef Block data = None
        if c.is_sized(plan):
            size = (<int32_t*>target.slots)[self.rows]
            data = block_of(&target.data.data, size * plan.size if plan.kind == c.LIST else size)
        return (
            valid,
            nulls,
            block_of(&target.slots, (self.rows + c.is_sized(plan)) * plan.width),
            data,
        )


def is_ascii(Block data not None):
    cdef bint fine
    with nogil:
        fine = ascii_run(data.data, data.size) == <size_t>data.size
    return fine


def is_utf8(Block data not None, Block offsets not None):
    cdef bint fine
    with nogil:
        fine = is_utf8_column(data.data, <const int32_t*>offsets.data, offsets.size // 4 - 1)
    return fine


def converted(Block data not None, Block offsets not None, bytes table not None):
    cdef const uint32_t* entries = <const uint32_t*>PyBytes_AS_STRING(table)
    cdef size_t size = 0
    cdef bint fine
    cdef uint8_t* text
    cdef uint8_t* ends
    if PyBytes_GET_SIZE(table) != 1024:
        raise ValueError("a table has 256 entries of 4 bytes")
    with nogil:
        fine = convert_size(data.data, data.size, entries, &size)
    if not fine:
        return None
    if size > INT32_MAX:
        raise OverflowError("a column of text has more than 2 GiB in one chunk")
    text = <uint8_t*>realloc(NULL, size if size else 1)
    ends = <uint8_t*>realloc(NULL, offsets.size)
    if text == NULL or ends == NULL:
        free(text)
        free(ends)
        raise MemoryError
    with nogil:
        convert(data.data, <const int32_t*>offsets.data, offsets.size // 4 - 1, entries, text, <int32_t*>ends)
    return block_of(&text, size), block_of(&ends, offsets.size)


def json_text(bytes value not None):
    cdef Bytes out
    cdef int fault
    memset(&out, 0, sizeof(Bytes))
    fault = put_json(&out, <const uint8_t*>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    try:
        if fault == f.NO_MEMORY:
            raise MemoryError
        if fault:
            raise ValueError(FAULTS[fault])
        return out.data[: out.size].decode("utf-8")
    finally:
        free(out.data)
