"""Columns: the bodies of the functions that `columns.pxd` declares and describes."""

from libc.stdint cimport INT32_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy, memset

from canal_group.binlog.native.decimals cimport read_decimal
from canal_group.binlog.native.faults cimport (
    BAD_ENUM,
    BAD_LIST,
    BAD_MOMENT,
    FINE,
    NO_MEMORY,
    TOO_LARGE,
    TRUNCATED,
)
from canal_group.binlog.native.json_text cimport put_json
from canal_group.binlog.native.memory cimport Bytes, append, clear_bit, fill_bits, reserve
from canal_group.binlog.native.numbers cimport load32, load64, load_big, load_little
from canal_group.binlog.native.packed cimport put_unpacked, unpacked_size
from canal_group.binlog.native.temporal cimport (
    SECOND_US,
    is_old_datetime,
    is_old_time,
    read_date,
    read_datetime2,
    read_hires_datetime,
    read_hires_time,
    read_hires_timestamp,
    read_old_datetime,
    read_old_time,
    read_time2,
    read_timestamp2,
)


cdef size_t remaining(const Reader* reader) noexcept nogil:
    return <size_t>(reader.end - reader.at)


cdef bint is_sized(const Plan* plan) noexcept nogil:
    return plan.kind >= SET


cdef int make_room(const Plan* plans, Side* side, size_t rows) noexcept nogil:
    """Make room for `rows` slots in every column."""
    cdef size_t capacity, index, old, new
    cdef Target* target
    cdef void* moved
    if rows <= side.capacity:
        return FINE
    capacity = side.capacity * 2 if side.capacity else 16
    if capacity < rows:
        capacity = rows
    if capacity > INT32_MAX // 64:
        return TOO_LARGE
    for index in range(side.columns):
        target = &side.targets[index]
        moved = realloc(target.slots, (capacity + 1) * plans[index].width)
        if moved == NULL:
            return NO_MEMORY
        target.slots = <uint8_t*>moved
        if not side.capacity:
            memset(target.slots, 0, plans[index].width)  # the first offset
        old, new = (side.capacity + 7) // 8, (capacity + 7) // 8
        moved = realloc(target.valid, new)
        if moved == NULL:
            return NO_MEMORY
        target.valid = <uint8_t*>moved
        memset(target.valid + old, 0xFF, new - old)
    side.capacity = capacity
    return FINE


cdef int fill_absent(const Plan* plans, Side* side, size_t rows) noexcept nogil:
    """Fill the slots up to `rows` with nulls: those rows have no such image."""
    cdef size_t index, row
    cdef Target* target
    cdef int32_t* offsets
    cdef int fault = make_room(plans, side, rows)
    if fault or side.rows >= rows:
        return fault
    for index in range(side.columns):
        target = &side.targets[index]
        fill_bits(target.valid, side.rows, rows, False)
        if is_sized(&plans[index]):
            offsets = <int32_t*>target.slots
            for row in range(side.rows, rows):
                offsets[row + 1] = offsets[side.rows]
        else:
            memset(
                target.slots + side.rows * plans[index].width, 0, (rows - side.rows) * plans[index].width
            )
    side.rows = rows
    return FINE


cdef void take_back(Side* side, size_t rows) noexcept nogil:
    """Forget the slots from `rows` on, and one that may have been begun after the last."""
    cdef size_t index, end = side.rows + 1 if side.rows < side.capacity else side.rows
    if rows > side.rows:
        return
    for index in range(side.columns):
        if rows < end:
            fill_bits(side.targets[index].valid, rows, end, True)
    side.rows = rows


cdef void put_null(const Plan* plan, Target* target, size_t row) noexcept nogil:
    clear_bit(target.valid, row)
    if is_sized(plan):
        (<int32_t*>target.slots)[row + 1] = (<int32_t*>target.slots)[row]
    else:
        memset(target.slots + row * plan.width, 0, plan.width)


cdef size_t member_size(const Plan* plan, size_t number) noexcept nogil:
    """Return the bytes of the text of an ENUM's or SET's value, by its number from 1 on; 0 is the empty text."""
    if not number:
        return 0
    return plan.ends[number - 1] - (plan.ends[number - 2] if number > 1 else 0)


cdef int put_set(const Plan* plan, Bytes* out, uint64_t bits, Reader* reader) noexcept nogil:
    """Append the text of a SET's members, with commas between them."""
    cdef uint64_t rest = bits
    cdef size_t index = 0, size = 0, begin = 0
    cdef uint8_t* to
    cdef bint more = False
    cdef int fault
    while rest and index < plan.size:
        if rest & 1:
            size += member_size(plan, index + 1) + more
            more = True
        rest >>= 1
        index += 1
    fault = take_room(reader, plan, size) or reserve(out, size)
    if fault or not size:
        return fault
    to = out.data + out.size
    out.size += size
    more, index = False, 0
    while bits and index < plan.size:
        if bits & 1:
            if more:
                to[0] = 0x2C
                to += 1
            memcpy(to, plan.members + begin, plan.ends[index] - begin)
            to += plan.ends[index] - begin
            more = True
        begin = plan.ends[index]
        bits >>= 1
        index += 1
    return FINE


cdef inline int put_sized(const Plan* plan, Target* target, size_t row, Reader* reader) noexcept nogil:
    """Read a value of any size, or a SET, into a column; the length before it is there."""
    cdef int32_t* offsets = <int32_t*>target.slots
    cdef Bytes* data = &target.data
    cdef uint64_t stored = load_little(reader.at, plan.stored)
    cdef const uint8_t* value = reader.at + plan.stored
    cdef size_t size = stored, begin = offsets[row], pad
    cdef int fault
    if plan.kind == LIST:
        data.size = begin * plan.size
    else:
        data.size = begin
    if plan.kind == SET:
        fault = put_set(plan, data, stored, reader)
        if fault:
            return fault
        reader.at = value
        offsets[row + 1] = <int32_t>data.size
        return FINE
    if <size_t>(reader.end - value) < size:
        return TRUNCATED
    if plan.kind == JSON:
        fault = put_json(data, value, size) or take_room(reader, plan, data.size - begin)
    elif plan.kind == PACKED:
        fault = take_room(reader, plan, unpacked_size(value, size)) or put_unpacked(data, value, size)
    elif plan.kind == BINARY and size < plan.size:
        pad = plan.size - size  # the binlog trims trailing zeros
        fault = take_room(reader, plan, plan.size) or reserve(data, plan.size)
        if fault == FINE:
            memcpy(data.data + data.size, value, size)
            memset(data.data + data.size + size, 0, pad)
            data.size += plan.size
    elif plan.kind == LIST and size % plan.size:
        fault = BAD_LIST
    else:
        fault = take_room(reader, plan, size) or append(data, value, size)
    if fault:
        return fault
    reader.at = value + size
    offsets[row + 1] = <int32_t>(data.size // plan.size if plan.kind == LIST else data.size)
    return FINE


cdef int put_value(
    const Plan* plan, Target* target, size_t row, Reader* reader, size_t* zero_dates
) noexcept nogil:
    """Read the next value into a column's slot; an invalid date is null, and stays in its slot, and is counted."""
    cdef const uint8_t* data = reader.at
    cdef uint8_t* slot = target.slots + row * plan.width
    cdef bint is_date = True
    cdef uint64_t stored
    cdef int kind = plan.kind, fault
    if remaining(reader) < plan.stored:
        return TRUNCATED
    if kind >= SET:
        return put_sized(plan, target, row, reader)
    if kind == PLAIN1:
        slot[0] = data[0]
    elif kind == PLAIN2:
        memcpy(slot, data, 2)
    elif kind == PLAIN4:
        memcpy(slot, data, 4)
    elif kind == PLAIN8:
        memcpy(slot, data, 8)
    elif kind == INT24 or kind == UINT24:
        stored = load_little(data, 3)
        if kind == INT24 and stored & 0x800000:
            stored |= <uint64_t>0xFF000000
        (<uint32_t*>slot)[0] = <uint32_t>stored
    elif kind == DECIMAL:
        fault = read_decimal(data, plan.size, plan.scale, <uint64_t*>slot, plan.width // 8)
        if fault:
            return fault
    elif kind == DATE:
        is_date = read_date(data, <int32_t*>slot)
    elif kind == TIME:
        if not is_old_time(data):
            return BAD_MOMENT
        (<int64_t*>slot)[0] = read_old_time(data)
    elif kind == DATETIME:
        if not is_old_datetime(load64(data)):
            return BAD_MOMENT
        is_date = read_old_datetime(load64(data), <int64_t*>slot)
    elif kind == TIMESTAMP:
        stored = load32(data)
        (<int64_t*>slot)[0] = <int64_t>stored * SECOND_US if stored else INT64_MIN
        is_date = stored != 0
    elif kind == TIME2:
        (<int64_t*>slot)[0] = read_time2(data, plan.size)
    elif kind == DATETIME2:
        is_date = read_datetime2(data, plan.size, <int64_t*>slot)
    elif kind == TIMESTAMP2:
        is_date = read_timestamp2(data, plan.size, <int64_t*>slot)
    elif kind == TIME_HIRES:
        (<int64_t*>slot)[0] = read_hires_time(data, plan.stored, plan.size)
    elif kind == DATETIME_HIRES:
        is_date = read_hires_datetime(data, plan.stored, plan.size, <int64_t*>slot)
    elif kind == TIMESTAMP_HIRES:
        is_date = read_hires_timestamp(data, plan.stored, plan.size, <int64_t*>slot)
    elif kind == YEAR:
        (<int16_t*>slot)[0] = data[0] + 1900 if data[0] else 0
    elif kind == BIT:
        stored = load_big(data, plan.stored)
        if plan.size < 64:
            stored &= (<uint64_t>1 << plan.size) - 1
        (<uint64_t*>slot)[0] = stored
    else:
        stored = load_little(data, plan.stored)
        if stored > plan.size:
            return BAD_ENUM
        if stored:  # outputs print its text
            fault = take_room(reader, plan, member_size(plan, stored))
            if fault:
                return fault
        (<int32_t*>slot)[0] = <int32_t>stored
    if not is_date:
        clear_bit(target.valid, row)
        zero_dates[0] += 1
    reader.at = data + plan.stored
    return FINE


cdef int read_image(const Plan* plans, Side* side, Reader* reader, size_t* zero_dates) noexcept nogil:
    """Read one image, its null bitmap first, into the next slot of every column; the slots must have room."""
    cdef const uint8_t* nulls = reader.at
    cdef size_t index, row = side.rows
    cdef int fault
    if remaining(reader) < (side.columns + 7) // 8:
        return TRUNCATED
    reader.at += (side.columns + 7) // 8
    for index in range(side.columns):
        if nulls[index >> 3] >> (index & 7) & 1:
            put_null(&plans[index], &side.targets[index], row)
        else:
            fault = put_value(&plans[index], &side.targets[index], row, reader, zero_dates)
            if fault:
                return fault
    side.rows = row + 1
    return FINE
