"""Runs of rows: found in the rows that shards hand out, and copied to their order.

`runs.pyi` describes its interface. A column's memory comes as the addresses of its chunks; which of them a run
is in, and that it ends in it, the caller has to know (see `canal_group.merge.rows.ranges`).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

cdef enum:
    #: shorter runs are copied value by value: a call costs more
    SHORT = 8


def find(
    const int64_t[::1] sequence,
    const int64_t[::1] row,
    const uint8_t[::1] is_other,
    int64_t first_sequence,
    const int64_t[::1] ranks,
    const int64_t[::1] seq_of_row_zero,
    int64_t base,
    int64_t other_base,
    int64_t[:, ::1] out,
):
    cdef Py_ssize_t count = sequence.shape[0], i, runs = 0
    cdef bint split = is_other.shape[0] != 0
    cdef int64_t header, rank = -1, seq, next_seq = 0, last_sequence = 0
    cdef uint8_t other, last_other = 0
    if row.shape[0] != count or (split and is_other.shape[0] != count):
        raise ValueError("columns of different lengths")
    if out.shape[0] != 4 or out.shape[1] < count:
        raise ValueError("no room for all runs")
    with nogil:
        for i in range(count):
            other = is_other[i] if split else 0
            if not runs or sequence[i] != last_sequence:
                last_sequence = sequence[i]
                header = last_sequence - first_sequence
                if not 0 <= header < ranks.shape[0]:
                    with gil:
                        raise AssertionError("a row without its header")
                rank = ranks[header]
                if not 0 <= rank < seq_of_row_zero.shape[0]:
                    with gil:
                        raise AssertionError("a header that is not in the batch")
            seq = seq_of_row_zero[rank] + row[i]
            if runs and rank == out[2, runs - 1] and seq == next_seq and other == last_other:
                out[1, runs - 1] += 1
            else:
                out[0, runs] = i + (other_base if other else base)
                out[1, runs] = 1
                out[2, runs] = rank
                out[3, runs] = seq
                runs += 1
            next_seq, last_other = seq + 1, other
    return runs


cdef inline uint8_t* _at(uint8_t[::1] block) noexcept:
    return &block[0] if block.shape[0] else NULL


def copy_values(
    const int64_t[::1] chunk,
    const int64_t[::1] begin,
    const int64_t[::1] length,
    const int64_t[::1] addresses,
    int64_t width,
    uint8_t[::1] out,
):
    cdef Py_ssize_t run
    cdef int64_t i, count
    cdef const uint8_t* source
    cdef uint8_t* to = _at(out)
    with nogil:
        for run in range(chunk.shape[0]):
            source = <const uint8_t*><size_t>addresses[chunk[run]] + begin[run] * width
            count = length[run]
            if count >= SHORT or width not in (1, 4, 8):
                memcpy(to, source, count * width)
            elif width == 8:
                for i in range(count):
                    memcpy(to + i * 8, source + i * 8, 8)
            elif width == 4:
                for i in range(count):
                    memcpy(to + i * 4, source + i * 4, 4)
            else:
                for i in range(count):
                    to[i] = source[i]
            to += count * width


cdef inline bint _bit(const uint8_t* bits, int64_t bit) noexcept nogil:
    return bits[bit >> 3] >> (bit & 7) & 1


cdef void _copy_bits(const uint8_t* source, int64_t bit, uint8_t* to, int64_t at, int64_t count) noexcept nogil:
    """Set those bits of `to` from `at` on that are set from `bit` on in `source`; NULL: all are."""
    cdef int shift
    while count and (at & 7 or count < 8):
        if source == NULL or _bit(source, bit):
            to[at >> 3] |= <uint8_t>(1 << (at & 7))
        bit, at, count = bit + 1, at + 1, count - 1
    # `at` begins a byte, or nothing is left.
    shift = bit & 7
    while count >= 8:
        if source == NULL:
            to[at >> 3] = 0xFF
        elif shift == 0:
            to[at >> 3] = source[bit >> 3]
        else:
            to[at >> 3] = <uint8_t>(source[bit >> 3] >> shift | source[(bit >> 3) + 1] << (8 - shift))
        bit, at, count = bit + 8, at + 8, count - 8
    while count:
        if source == NULL or _bit(source, bit):
            to[at >> 3] |= <uint8_t>(1 << (at & 7))
        bit, at, count = bit + 1, at + 1, count - 1


def copy_bits(
    const int64_t[::1] chunk,
    const int64_t[::1] begin,
    const int64_t[::1] length,
    const int64_t[::1] addresses,
    const int64_t[::1] offsets,
    uint8_t[::1] out,
):
    cdef Py_ssize_t run
    cdef int64_t at = 0
    cdef uint8_t* to = _at(out)
    with nogil:
        if to != NULL:
            memset(to, 0, out.shape[0])
        for run in range(chunk.shape[0]):
            _copy_bits(
                <const uint8_t*><size_t>addresses[chunk[run]],
                offsets[chunk[run]] + begin[run],
                to,
                at,
                length[run],
            )
            at += length[run]


def text_bytes(
    const int64_t[::1] chunk,
    const int64_t[::1] begin,
    const int64_t[::1] length,
    const int64_t[::1] offset_addresses,
):
    cdef Py_ssize_t run
    cdef int64_t total = 0
    cdef const int32_t* offsets
    with nogil:
        for run in range(chunk.shape[0]):
            offsets = <const int32_t*><size_t>offset_addresses[chunk[run]] + begin[run]
            total += offsets[length[run]] - offsets[0]
    return total


def copy_text(
    const int64_t[::1] chunk,
    const int64_t[::1] begin,
    const int64_t[::1] length,
    const int64_t[::1] offset_addresses,
    const int64_t[::1] data_addresses,
    int32_t[::1] out_offsets,
    uint8_t[::1] out,
):
    cdef Py_ssize_t run
    cdef int64_t i, row = 0
    cdef int32_t at = 0, shift, size
    cdef const int32_t* offsets
    cdef uint8_t* to = _at(out)
    with nogil:
        out_offsets[0] = 0
        for run in range(chunk.shape[0]):
            offsets = <const int32_t*><size_t>offset_addresses[chunk[run]] + begin[run]
            shift, size = at - offsets[0], offsets[length[run]] - offsets[0]
            for i in range(1, length[run] + 1):
                out_offsets[row + i] = offsets[i] + shift
            if size:
                memcpy(to + at, <const uint8_t*><size_t>data_addresses[chunk[run]] + offsets[0], size)
            row += length[run]
            at += size


def fill_ascending(const int64_t[::1] first, const int64_t[::1] length, int64_t[::1] out):
    cdef Py_ssize_t run
    cdef int64_t i, at = 0, value
    cdef int64_t* to = &out[0] if out.shape[0] else NULL
    with nogil:
        for run in range(first.shape[0]):
            value = first[run]
            for i in range(length[run]):
                to[at + i] = value + i
            at += length[run]


cdef void _repeat(const uint8_t* source, int64_t size, uint8_t* to, int64_t total) noexcept nogil:
    """Write `size` bytes, which are at `source`, again and again until `total` are written."""
    cdef int64_t done = size, more
    memcpy(to, source, size)
    while done < total:
        more = done if done < total - done else total - done
        memcpy(to + done, to, more)
        done += more


def repeat_text(
    const int64_t[::1] counts,
    const int32_t[::1] offsets,
    const uint8_t[::1] data,
    int32_t[::1] out_offsets,
    uint8_t[::1] out,
):
    cdef Py_ssize_t value
    cdef int64_t i, row = 1
    cdef int32_t at = 0, size
    cdef const uint8_t* source = &data[0] if data.shape[0] else NULL
    cdef uint8_t* to = _at(out)
    with nogil:
        out_offsets[0] = 0
        for value in range(counts.shape[0]):
            size = offsets[value + 1] - offsets[value]
            if size and counts[value]:
                _repeat(source + offsets[value], size, to + at, size * counts[value])
            for i in range(counts[value]):
                at += size
                out_offsets[row + i] = at
            row += counts[value]
