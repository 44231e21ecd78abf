"""Texts of columns whose buffers hold anything: they are what a slow model prints, or refused."""

from __future__ import annotations

import math
import struct
from datetime import datetime, timedelta
from itertools import pairwise

import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.soak import cases

from canal_group.merge.rows.native.text import Values

#: kind -> how `struct` reads a value
NUMBERS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
}
FLOATS = {"float": "f", "double": "d"}
#: kind -> bytes of a value
DECIMALS = {"decimal": 16, "wide_decimal": 32}
TIMES = ("datetime", "time")
DAY_US = 86_400_000_000
#: the first and the last microsecond of the years from 0 to 9999
FIRST_US, LAST_US = -719_528 * DAY_US, 2_932_897 * DAY_US - 1


class RefusedError(Exception):
    """The model refuses a column."""


def bits(memory: bytes, index: int) -> bool:
    return bool(memory[index // 8] >> index % 8 & 1)


def clock(micros: int, digits: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    whole = f"{seconds // 3_600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return whole + (f".{fraction:06d}"[: 1 + digits] if digits else "")


def date(day: int) -> str:
    # Python has no year 0: four centuries later the calendar is the same.
    later = datetime(1970, 1, 1) + timedelta(day + (146_097 if day < -700_000 else 0))  # noqa: DTZ001  a date
    return f"{later.year - (400 if day < -700_000 else 0):04d}-{later.month:02d}-{later.day:02d}"


def printed(kind: str, memory: bytes, index: int, digits: int) -> str:
    """Return a value's text, read from the memory of its column."""
    if kind in NUMBERS:
        form = f"<{NUMBERS[kind]}"
        return str(struct.unpack_from(form, memory, index * struct.calcsize(form))[0])
    if kind in DECIMALS:
        width = DECIMALS[kind]
        amount = int.from_bytes(memory[width * index : width * (index + 1)], "little", signed=True)
        figures = f"{abs(amount):0{digits + 1}d}"
        whole, fraction = figures[: len(figures) - digits], figures[len(figures) - digits :]
        return ("-" if amount < 0 else "") + whole + (f".{fraction}" if digits else "")
    (micros,) = struct.unpack_from("<q", memory, 8 * index)
    if kind == "time":
        return ("-" if micros < 0 else "") + clock(abs(micros), digits)
    if not FIRST_US <= micros <= LAST_US:
        raise RefusedError
    day, of_day = divmod(micros, DAY_US)
    return f"{date(day)} {clock(of_day, digits)}"


def expected(kind, rows, offset, valid, memory, data, digits):
    """Return the expected texts, None for a null.

    Raises:
        RefusedError: the buffers do not hold the column.
    """
    if not rows:
        return []
    if valid is not None and len(valid) * 8 < offset + rows:
        raise RefusedError
    there = [valid is None or bits(valid, offset + row) for row in range(rows)]
    if kind in ("text", "latin1"):
        if len(memory) < 4 * (offset + rows + 1):
            raise RefusedError
        ends = struct.unpack_from(f"<{rows + 1}i", memory, 4 * offset)
        if ends[0] < 0 or any(begin > end for begin, end in pairwise(ends)) or ends[-1] > len(data):
            raise RefusedError
        found = [data[begin:end] for begin, end in pairwise(ends)]
        if kind == "latin1":
            found = [each.decode("latin1").encode() for each in found]
        return [each if is_there else None for each, is_there in zip(found, there, strict=True)]
    width = {"datetime": 8, "time": 8, **DECIMALS}.get(kind) or struct.calcsize(
        f"<{(NUMBERS | FLOATS)[kind]}"
    )
    if len(memory) < width * (offset + rows):
        raise RefusedError
    if kind in FLOATS:
        numbers = struct.unpack_from(f"<{rows}{FLOATS[kind]}", memory, width * offset)
        return [each if is_there else None for each, is_there in zip(numbers, there, strict=True)]
    return [
        printed(kind, memory, offset + row, digits).encode() if is_there else None
        for row, is_there in enumerate(there)
    ]


@st.composite
def columns(draw):
    """A column of random kind and size over random memory, which mostly is large enough."""
    kind = draw(st.sampled_from([*NUMBERS, *FLOATS, *TIMES, *DECIMALS, "text", "latin1"]))
    rows, offset = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    valid = draw(st.none() | st.binary(min_size=2, max_size=4) | st.binary(max_size=3))
    data = draw(st.binary(max_size=40))
    if kind in ("text", "latin1"):
        ends = draw(st.lists(st.integers(0, 40), min_size=14, max_size=30))
        ends = ends if draw(st.integers(0, 9)) == 0 else sorted(each % (len(data) + 1) for each in ends)
        memory = struct.pack(f"<{len(ends)}i", *ends)
    elif kind == "datetime":
        micros = draw(st.lists(st.integers(FIRST_US, LAST_US), min_size=24, max_size=24))
        wrong = draw(st.none() | st.integers(-(1 << 63), (1 << 63) - 1))
        memory = struct.pack("<24q", *([wrong, *micros[1:]] if wrong is not None else micros))
    else:
        memory = draw(st.binary(min_size=1, max_size=32)) * 24
    memory = memory[: draw(st.sampled_from([len(memory)] * 4 + [len(memory) // 2, 3, 0]))]
    most = {"decimal": 38, "wide_decimal": 76, "datetime": 6, "time": 6}.get(kind, 0)
    return kind, rows, offset, valid, memory, data, draw(st.integers(0, most))


@settings(max_examples=cases(1_000))
@given(columns())
def test_any_memory_prints_as_the_model_prints_it_or_is_refused(drawn):
    kind, rows, offset, valid, memory, data, digits = drawn
    try:
        wanted = expected(*drawn)
    except RefusedError:
        wanted = None
    event(f"{kind}: {'refused' if wanted is None else 'printed'}")
    held = [pa.py_buffer(valid) if valid is not None else None, pa.py_buffer(memory), pa.py_buffer(data)]
    try:
        ends, texts = Values(kind, rows, offset, held, digits=digits).texts()
    except ValueError:
        assert wanted is None
        return
    assert wanted is not None, "a column was read past its end"
    assert (len(ends), ends[0], ends[-1]) == (rows + 1, 0, len(texts))
    found = [texts[begin:end].tobytes() for begin, end in pairwise(ends)]
    for each, value in zip(found, wanted, strict=True):
        if value is None:
            assert each == b""
        elif kind in FLOATS:
            same = struct.unpack(f"<{FLOATS[kind]}", struct.pack(f"<{FLOATS[kind]}", float(each)))[0]
            assert same == value or (math.isnan(value) and math.isnan(same))
        else:
            assert each == value


@settings(max_examples=cases(300))
@given(st.integers(1, 6), st.lists(st.integers(-2, 8), min_size=8, max_size=8), columns())
def test_any_index_is_a_text_of_the_dictionary_or_is_refused(rows, indexes, drawn):
    """The dictionary's own memory is any that a column of texts may have."""
    _, members, offset, valid, _, data, _ = drawn
    ends = sorted(at % (len(data) + 1) for at in range(offset + members + 1))
    memory = struct.pack(f"<{len(ends)}i", *ends)
    held = [pa.py_buffer(valid) if valid is not None else None, pa.py_buffer(memory), pa.py_buffer(data)]
    try:
        dictionary = Values("text", members, offset, held)
        texts = expected("text", members, offset, valid, memory, data, 0)
    except (ValueError, RefusedError):
        return
    wanted = [texts[each] if 0 <= each < members else None for each in indexes[:rows]]
    try:
        keys = pa.py_buffer(struct.pack("<8i", *indexes))
        found = Values("dictionary", rows, 0, [None, keys], members=dictionary)
    except ValueError:
        assert None in wanted
        return
    assert None not in wanted
    ends, written = found.texts()
    assert [written[begin:end].tobytes() for begin, end in pairwise(ends)] == wanted
