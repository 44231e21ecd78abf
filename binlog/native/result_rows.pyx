"""Result rows: rows of a SELECT in the binary protocol, into the buffers that rows of a binlog go to.

`result_rows.pyi` describes its interface. Layout: "Binary Protocol Resultset Row" in MySQL's client/server protocol: a
bitmap of the nulls, whose first two bits are unused, then the values. Numbers are little-endian, a DECIMAL is its text.
Before the parts of a date or time is how many bytes of them follow: what is left out at the end is zero.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MIN, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from canal_group.binlog.native cimport columns as c
from canal_group.binlog.native.columns cimport Plan, Reader, Side, Target, remaining, take_room
from canal_group.binlog.native.decimals cimport read_decimal_text
from canal_group.binlog.native.faults cimport (
    BAD_ENUM,
    BAD_HEAD,
    BAD_LIST,
    BAD_MOMENT,
    FINE,
    NO_MEMORY,
    ROW_TOO_LARGE,
    TRUNCATED,
)
from canal_group.binlog.native.images import FAULTS
from canal_group.binlog.native.images cimport INSERT, READ, RowBuffers
from canal_group.binlog.native.json_difference cimport Span, take_packed
from canal_group.binlog.native.memory cimport Bytes, append, clear_bit
from canal_group.binlog.native.numbers cimport load16, load32, load64
from canal_group.binlog.native.packets cimport PacketBuffer
from canal_group.binlog.native.temporal cimport DAY_US, SECOND_US, day_of, no_date


#: a date and time as it is sent
cdef struct Moment:
    uint64_t year
    uint64_t month
    uint64_t day
    #: microseconds since midnight
    int64_t clock


cdef inline bint read_clock(const uint8_t* parts, size_t size, int64_t* out) noexcept nogil:
    """Read hour, minute and second, and the microseconds if `size` bytes hold them; False: there is no such time."""
    cdef uint64_t fraction = load32(parts + 3) if size > 3 else 0
    if parts[0] > 23 or parts[1] > 59 or parts[2] > 59 or fraction >= SECOND_US:
        return False
    out[0] = (parts[0] * 3600 + parts[1] * 60 + parts[2]) * <int64_t>SECOND_US + <int64_t>fraction
    return True


cdef inline int take_moment(Reader* reader, Moment* moment) noexcept nogil:
    """Read a DATE, DATETIME or TIMESTAMP, which may have zero or impossible parts."""
    cdef size_t size
    cdef const uint8_t* parts
    moment.year = moment.month = moment.day = 0
    moment.clock = 0
    if not remaining(reader):
        return TRUNCATED
    size, parts = reader.at[0], reader.at + 1
    if remaining(reader) <= size:
        return TRUNCATED
    if size not in (0, 4, 7, 11):
        return BAD_MOMENT
    if size:
        moment.year, moment.month, moment.day = load16(parts), parts[2], parts[3]
    if moment.year > 9999 or moment.month > 12 or moment.day > 31:
        return BAD_MOMENT
    if size > 4 and not read_clock(parts + 4, size - 4, &moment.clock):
        return BAD_MOMENT
    reader.at = parts + size
    return FINE


cdef inline int take_time(Reader* reader, int64_t* out) noexcept nogil:
    """Read a TIME: whether it is negative, and its days, before the rest."""
    cdef size_t size
    cdef const uint8_t* parts
    out[0] = 0
    if not remaining(reader):
        return TRUNCATED
    size, parts = reader.at[0], reader.at + 1
    if remaining(reader) <= size:
        return TRUNCATED
    if size not in (0, 8, 12) or (size and (load32(parts + 1) > 34 or not read_clock(parts + 5, size - 5, out))):
        return BAD_MOMENT
    if size:
        out[0] += load32(parts + 1) * DAY_US
        if parts[0]:
            out[0] = -out[0]
    reader.at = parts + size
    return FINE


cdef inline int take_sized(Reader* reader, const uint8_t** value, size_t* size) noexcept nogil:
    """Read a value that has its length before it."""
    cdef Span span
    if not remaining(reader):
        return TRUNCATED
    if reader.at[0] < 251:
        size[0] = reader.at[0]
        reader.at += 1
    else:
        span.at, span.end = reader.at, reader.end
        if take_packed(&span, size):
            return TRUNCATED
        reader.at = span.at
    if remaining(reader) < size[0]:
        return TRUNCATED
    value[0] = reader.at
    reader.at += size[0]
    return FINE


cdef inline int put_number(const Plan* plan, Target* target, size_t row, Reader* reader) noexcept nogil:
    """Read a value that is sent as BIGINT, and stored in another form: an ENUM's index, a SET's bits."""
    cdef int32_t* offsets = <int32_t*>target.slots
    cdef uint64_t value
    cdef int fault
    if remaining(reader) < 8:
        return TRUNCATED
    value = load64(reader.at)
    reader.at += 8
    if plan.kind == c.ENUM:
        if value > plan.size:
            return BAD_ENUM
        fault = take_room(reader, plan, c.member_size(plan, value))
        if fault:
            return fault
        offsets[row] = <int32_t>value
        return FINE
    target.data.size = offsets[row]
    fault = c.put_set(plan, &target.data, value, reader)
    offsets[row + 1] = <int32_t>target.data.size
    return fault


cdef inline int put_sized(const Plan* plan, Target* target, size_t row, Reader* reader) noexcept nogil:
    """Read a value of any size; a DECIMAL is sent as one, too."""
    cdef int32_t* offsets = <int32_t*>target.slots
    cdef const uint8_t* value
    cdef size_t size = 0, unit = plan.size if plan.kind == c.LIST else 1
    cdef int fault = take_sized(reader, &value, &size)
    if fault:
        return fault
    if plan.kind == c.DECIMAL:
        return read_decimal_text(
            value, size, plan.size, plan.scale, <uint64_t*>(target.slots + row * plan.width), plan.width // 8
        )
    if size % unit:
        return BAD_LIST
    target.data.size = offsets[row] * unit
    fault = take_room(reader, plan, size) or append(&target.data, value, size)
    offsets[row + 1] = <int32_t>(target.data.size // unit)
    return fault


cdef inline int put_moment(
    const Plan* plan, Target* target, size_t row, Reader* reader, size_t* zero_dates
) noexcept nogil:
    """Read a date or time; an invalid one is stored as `columns.put_value` does it."""
    cdef int64_t* slot = <int64_t*>(target.slots + row * plan.width)
    cdef int64_t day = 0
    cdef bint is_date
    cdef Moment moment
    cdef int fault
    if plan.kind in (c.TIME, c.TIME2, c.TIME_HIRES):
        return take_time(reader, slot)
    fault = take_moment(reader, &moment)
    if fault:
        return fault
    is_date = day_of(moment.year, moment.month, moment.day, &day)
    if not is_date:
        day = no_date(moment.year, moment.month, moment.day)
        clear_bit(target.valid, row)
        zero_dates[0] += 1
    if plan.kind == c.DATE:
        (<int32_t*>slot)[0] = <int32_t>(day if is_date else day + INT32_MIN)
    else:
        slot[0] = day * DAY_US + moment.clock
        if not is_date:
            slot[0] += INT64_MIN
    return FINE


cdef inline int put_sent(
    const Plan* plan, Target* target, size_t row, Reader* reader, size_t* zero_dates
) noexcept nogil:
    """Read the next value into a column's slot."""
    cdef int kind = plan.kind
    if kind <= c.UINT24 or kind == c.YEAR or kind == c.BIT:
        # A MEDIUMINT is sent as wide as its slot.
        if remaining(reader) < plan.width:
            return TRUNCATED
        memcpy(target.slots + row * plan.width, reader.at, plan.width)
        reader.at += plan.width
        return FINE
    if kind == c.ENUM or kind == c.SET:
        return put_number(plan, target, row, reader)
    if kind == c.DECIMAL or c.is_sized(plan):
        return put_sized(plan, target, row, reader)
    return put_moment(plan, target, row, reader, zero_dates)


cdef int put_row(RowBuffers rows, Reader* reader) noexcept nogil:
    """Read a row behind its first byte, and count in `rows.held` what it holds; or add nothing. Return the fault."""
    cdef const Plan* plans = rows.layout.plans
    cdef Side* side = &rows.after
    cdef const uint8_t* nulls = reader.at
    cdef size_t index, row = rows.rows, zero_dates = rows.zero_dates, width = (side.columns + 9) // 8
    cdef int fault = FINE
    if row == rows.capacity:
        fault = rows._make_room(row + 1)
    if fault == FINE and row == side.capacity:
        fault = c.make_room(plans, side, row + 1)
    if fault:
        return fault
    if remaining(reader) < width:
        return TRUNCATED
    reader.at += width
    reader.room = rows.row_bytes_max
    for index in range(side.columns):
        if nulls[(index + 2) >> 3] >> ((index + 2) & 7) & 1:
            c.put_null(&plans[index], &side.targets[index], row)
        else:
            fault = put_sent(&plans[index], &side.targets[index], row, reader, &rows.zero_dates)
        if fault:
            break
    if fault == FINE and remaining(reader):
        fault = BAD_HEAD
    if fault:
        rows.take_back(row, zero_dates)
        return fault
    side.rows = row + 1
    rows.headers[row], rows.ordinals[row], rows.ops[row] = 0, <int64_t>row, READ
    rows.rows = row + 1
    rows.held += rows._row_bytes(INSERT) + rows.row_bytes_max - reader.room
    return FINE


cdef int enter(RowBuffers rows) except -1:
    if rows.busy:
        raise ValueError("called by two threads at once")
    if rows.after.rows != rows.rows or rows.before.rows:
        raise ValueError("there are rows of events")
    rows.busy = True
    rows.held = 0
    return 0


cdef int leave(RowBuffers rows, int fault, const Reader* reader, size_t offset) except -1:
    rows.busy = False
    if fault == ROW_TOO_LARGE:
        rows.large_column, rows.large_bytes = reader.large - rows.layout.plans, reader.large_bytes
    if fault == NO_MEMORY:
        raise MemoryError
    if fault:
        raise rows.refusal(FAULTS[fault], offset)
    return 0


def read_rows(PacketBuffer buffer not None, RowBuffers rows not None, size_t bytes_max):
    cdef const uint8_t* last = NULL
    cdef const uint8_t* row
    cdef size_t size = 0, last_size = 0
    cdef Reader reader
    cdef int fault = FINE
    if buffer.mark != 1:
        raise ValueError("rows have no marks of semi-synchronous replication")
    enter(rows)
    reader.begin = reader.at = reader.end = NULL
    with nogil:
        while rows.held < bytes_max:
            row = buffer.next_event(&size)
            if row == NULL:
                break
            reader.begin = reader.at = row
            reader.end = row + size
            fault = put_row(rows, &reader)
            if fault:
                break
            buffer.pass_event(size)
            last, last_size = row, size
    leave(rows, fault, &reader, reader.at - reader.begin + 1)
    if last == NULL:
        return 0, b""
    # The first byte stands before what the buffer returns.
    return rows.held, PyBytes_FromStringAndSize(<const char*>last - 1, last_size + 1)


def read_row(bytes row not None, RowBuffers rows not None):
    cdef Reader reader
    cdef int fault
    enter(rows)
    reader.begin = <const uint8_t*>PyBytes_AS_STRING(row)
    reader.end = reader.begin + PyBytes_GET_SIZE(row)
    # The first byte says that it is a row.
    reader.at = reader.begin + (reader.begin < reader.end)
    with nogil:
        fault = put_row(rows, &reader)
    leave(rows, fault, &reader, reader.at - reader.begin)
    return rows.held
