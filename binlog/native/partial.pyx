"""Partial images: images that leave columns out, and JSON documents of which only the difference is stored.

A column that the image after an update leaves out is unchanged: it is filled in from the image before, if that has
it. A column that no image has is null, with its bit set in `absent`.

This module is compiled separately from `images`, so that whole images are read by as little code as possible.

Layout: `Rows_log_event::print_verbose_one_row` in MySQL's sql/log_event.cc. A null bitmap has a bit for each column
that is there; the bitmap of JSON columns that are differences has one for each of the table.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from canal_group.binlog.native.columns cimport (
    JSON,
    LIST,
    Plan,
    Reader,
    Side,
    Target,
    is_sized,
    put_null,
    put_value,
    remaining,
    take_room,
)
from canal_group.binlog.native.faults cimport (
    BAD_DIFFERENCE,
    FINE,
    NO_DOCUMENT,
    NO_MEMORY,
    TRUNCATED,
    VALUE_OPTIONS,
)
from canal_group.binlog.native.json_difference cimport Document, Span, put_changed, take_packed
from canal_group.binlog.native.memory cimport Bytes, append, reserve
from canal_group.binlog.native.numbers cimport load32


cdef void free_partial(Partial* partial) noexcept:
    free(partial.absent_before.data)
    free(partial.absent_after.data)
    free(partial.documents)
    free(partial.document.nodes.data)
    free(partial.document.names.data)


cdef inline bint has_bit(const uint8_t* bitmap, size_t index) noexcept nogil:
    return bitmap[index >> 3] >> (index & 7) & 1


cdef bint set_present(Present* present, const uint8_t* bits, size_t columns) noexcept nogil:
    """Set which columns images have; return whether they have all."""
    cdef size_t index
    present.bits, present.count = bits, 0
    for index in range(columns):
        present.count += has_bit(bits, index)
    return present.count == columns


cdef void take_back_absent(Partial* partial, size_t columns, size_t rows) noexcept nogil:
    cdef size_t size = (columns + 7) // 8 * rows
    partial.absent_before.size = min(partial.absent_before.size, size)
    partial.absent_after.size = min(partial.absent_after.size, size)


cdef inline int mark_absent(Bytes* absent, size_t columns, size_t row, size_t column) noexcept nogil:
    cdef size_t width = (columns + 7) // 8, size = (row + 1) * width
    cdef int fault
    if absent.size < size:
        fault = reserve(absent, size - absent.size)
        if fault:
            return fault
        memset(absent.data + absent.size, 0, size - absent.size)
        absent.size = size
    absent.data[row * width + (column >> 3)] |= <uint8_t>(1 << (column & 7))
    return FINE


cdef inline int copy_value(
    const Plan* plan, const Target* source, Target* target, size_t row, Reader* reader
) noexcept nogil:
    """Give a row's slot the value of the same row in another image."""
    cdef size_t unit = plan.size if plan.kind == LIST else 1, begin
    cdef const int32_t* ends
    cdef int32_t* offsets
    cdef int fault
    if not has_bit(source.valid, row):
        put_null(plan, target, row)
    if not is_sized(plan):  # with what is under a null: a date that is none
        memcpy(target.slots + row * plan.width, source.slots + row * plan.width, plan.width)
    elif has_bit(source.valid, row):
        ends, offsets = <const int32_t*>source.slots + row, <int32_t*>target.slots + row
        target.data.size, begin = offsets[0] * unit, ends[0] * unit
        fault = take_room(reader, plan, ends[1] * unit - begin)
        if fault == FINE:
            fault = append(&target.data, source.data.data + begin, ends[1] * unit - begin)
        if fault:
            return fault
        offsets[1] = <int32_t>(target.data.size // unit)
    return FINE


cdef inline int put_difference(
    const Plan* plan, Target* target, size_t row, Reader* reader, Document* document, const Span* value
) noexcept nogil:
    """Read a JSON column's differences, their size before them, and put the document that they lead to."""
    cdef int32_t* offsets = <int32_t*>target.slots
    cdef Span differences
    cdef int fault
    if value.at == NULL:  # it was NULL
        return BAD_DIFFERENCE
    differences.at = reader.at + 4
    differences.end = differences.at + load32(reader.at)
    target.data.size = offsets[row]
    fault = put_changed(document, &target.data, value, &differences)
    if fault == FINE:
        fault = take_room(reader, plan, target.data.size - offsets[row])
    if fault:
        return fault
    offsets[row + 1] = <int32_t>target.data.size
    return FINE


cdef inline int read_options(const Plan* plans, size_t columns, Reader* reader, const uint8_t** changed) noexcept nogil:
    """Read what precedes an image's null bitmap: `changed`, the JSON columns that are differences, or NULL."""
    cdef Span span
    cdef size_t options = 0, documents = 0, index
    span.at, span.end = reader.at, reader.end
    changed[0] = NULL
    if take_packed(&span, &options):
        return TRUNCATED
    if options > 1:
        return VALUE_OPTIONS
    reader.at = span.at
    if options:
        for index in range(columns):
            documents += plans[index].kind == JSON
        if remaining(reader) < (documents + 7) // 8:
            return TRUNCATED
        changed[0] = reader.at
        reader.at += (documents + 7) // 8
    return FINE


cdef int read_before(
    const Plan* plans, Side* side, Partial* partial, Reader* reader, size_t* zero_dates
) noexcept nogil:
    """Read an image before a change, or of a row that is gone, into the next slot of every column."""
    cdef const uint8_t* nulls = reader.at
    cdef const uint8_t* value
    cdef size_t index, row = side.rows, nth = 0
    cdef int fault = FINE
    if remaining(reader) < (partial.before.count + 7) // 8:
        return TRUNCATED
    if partial.documents == NULL and partial.differences:
        partial.documents = <Span*>calloc(side.columns, sizeof(Span))
        if partial.documents == NULL:
            return NO_MEMORY
    reader.at += (partial.before.count + 7) // 8
    for index in range(side.columns):
        if partial.documents != NULL:
            partial.documents[index].at = NULL
        if not has_bit(partial.before.bits, index):
            put_null(&plans[index], &side.targets[index], row)
            fault = mark_absent(&partial.absent_before, side.columns, row, index)
        elif has_bit(nulls, nth):
            nth += 1
            put_null(&plans[index], &side.targets[index], row)
        else:
            nth += 1
            value = reader.at + plans[index].stored
            fault = put_value(&plans[index], &side.targets[index], row, reader, zero_dates)
            if partial.documents != NULL and plans[index].kind == JSON and not fault:
                partial.documents[index].at, partial.documents[index].end = value, reader.at
        if fault:
            return fault
    side.rows = row + 1
    return FINE


cdef int read_after(
    const Plan* plans, const Side* before, Side* side, Partial* partial, Reader* reader, size_t* zero_dates
) noexcept nogil:
    """Read an image after a change, or of a new row, into the next slot of every column.

    Args:
        before: where the image before of the same row is; NULL for a new row, which has none.
    """
    cdef const uint8_t* changed = NULL
    cdef const uint8_t* nulls
    cdef size_t index, row = side.rows, nth = 0, document = 0, size
    cdef bint is_difference
    cdef int fault = FINE
    if partial.differences and before != NULL:
        fault = read_options(plans, side.columns, reader, &changed)
        if fault:
            return fault
    nulls = reader.at
    if remaining(reader) < (partial.after.count + 7) // 8:
        return TRUNCATED
    reader.at += (partial.after.count + 7) // 8
    for index in range(side.columns):
        is_difference = False
        if changed != NULL and plans[index].kind == JSON:
            is_difference = has_bit(changed, document)
            document += 1
        if not has_bit(partial.after.bits, index):
            if before != NULL and has_bit(partial.before.bits, index):
                fault = copy_value(&plans[index], &before.targets[index], &side.targets[index], row, reader)
            else:
                put_null(&plans[index], &side.targets[index], row)
                fault = mark_absent(&partial.absent_after, side.columns, row, index)
        elif has_bit(nulls, nth):
            nth += 1
            put_null(&plans[index], &side.targets[index], row)
        elif is_difference:
            nth += 1
            if remaining(reader) < 4:
                return TRUNCATED
            size = load32(reader.at)
            if remaining(reader) - 4 < size:
                return TRUNCATED
            if has_bit(partial.before.bits, index):
                fault = put_difference(
                    &plans[index],
                    &side.targets[index],
                    row,
                    reader,
                    &partial.document,
                    &partial.documents[index],
                )
            elif size:
                fault = NO_DOCUMENT
            else:  # it was written, and is as before
                put_null(&plans[index], &side.targets[index], row)
                fault = mark_absent(&partial.absent_after, side.columns, row, index)
            if not fault:
                reader.at += 4 + size
        else:
            nth += 1
            fault = put_value(&plans[index], &side.targets[index], row, reader, zero_dates)
        if fault:
            return fault
    side.rows = row + 1
    return FINE
