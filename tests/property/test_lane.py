"""The lane takes what the long way would take, and as it would: chunks are the same with and without."""

from __future__ import annotations

import zlib

import pytest
import row_images
import rows_corpus
from binlog_bytes import File, events_of
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.parse.binlog_decoder import BinlogDecoder
from actors.parse.chunk_builder import ChunkBuilder, Limits
from actors.parse.event_types import ROWS, UPDATES, EventType
from actors.parse.native.lane import RowsLane, checksum_of
from merge.chunk import TableName
from merge.errors import DataError
from merge.position import Position

SIZES = bytearray(42)
for _kind in EventType:
    if 0 < _kind <= len(SIZES):
        SIZES[_kind - 1] = 8 if _kind in ROWS or _kind == EventType.TABLE_MAP else 0
COLUMNS = [(1, b""), (15, b"\x14\x00")]


def names(version):
    """The optional metadata of a version of the table: its columns' names."""
    text = b"".join(bytes([len(name)]) + name for name in (b"n", b"v%d" % version))
    return b"\4" + bytes([len(text)]) + text


#: what a file holds: table maps, rows, runs of rows with table maps between, ends, savepoints
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("map"), st.integers(1, 2), st.integers(1, 2)),
        st.tuples(st.just("rows"), st.integers(1, 2), st.sampled_from(sorted(ROWS)), st.integers(0, 4)),
        st.tuples(st.just("run"), st.integers(1, 2), st.integers(2, 6), st.integers(1, 2)),
        st.tuples(st.just("end")),
        st.tuples(st.just("savepoint")),
    ),
    max_size=25,
)


def body_of(number, event_type, rows):
    stored = [
        row_images.image([bytes([row]), row_images.sized(b"x" * row, 1)])
        for row in range(rows * (2 if event_type in UPDATES else 1))
    ]
    return number.to_bytes(6, "little") + row_images.rows_body(event_type, 2, stored)[6:]


def file_of(steps, checksum):  # noqa: C901 - one branch a step
    """A file of transactions in one or two tables, one of which may be left out."""
    file, known, inside = File("9.7.4", bytes(SIZES), checksum), {}, False

    def rows(number, event_type, count):
        nonlocal inside
        if not inside:
            file.query("BEGIN")
        inside = True
        if number not in known:
            known[number] = 1
            file.table_map(COLUMNS, number, table=f"t{number}", tail=names(1))
        file.add(event_type, body_of(number, event_type, count))

    for step in steps:
        match step:
            case "map", number, version:
                known[number] = version
                file.table_map(COLUMNS, number, table=f"t{number}", tail=names(version))
            case "rows", number, event_type, count:
                rows(number, event_type, count)
            case "run", number, times, count:
                for _ in range(times):
                    rows(number, EventType.WRITE_ROWS, count)
                    file.table_map(COLUMNS, number, table=f"t{number}", tail=names(known[number]))
            case ("savepoint",) if inside:
                file.query("SAVEPOINT s")
            case ("end",) if inside:
                file.xid()
                inside = False
            case _:
                pass
    return events_of(file.data)


def read(events, limits, select, *, lane, skip=0):
    """Return what a decoder makes of events: chunks, offset, error; and how many events the lane took."""
    builder = ChunkBuilder(limits)
    start = Position("f", 4, rows_into_transaction=skip)
    decoder = BinlogDecoder("s", start, select, builder, checksum=0)
    chunks, ways = [], 0

    def close():
        chunk = builder.close(decoder.offset)
        if chunk is not None:
            tables = [(table.name, table.rows) for table in chunk.tables]
            chunks.append((chunk.headers.tolist(), chunk.names, tables, chunk.statements))

    try:
        for event in events:
            if not lane:
                builder.settle()
            opened = builder.lane.is_open
            decoder.feed(event)
            ways += opened and builder.lane.is_open
            while decoder.go_on():
                pass
            if builder.full:
                close()
        close()
    except DataError as error:
        return chunks, decoder.offset, str(error), ways
    return chunks, decoder.offset, builder.losses, ways


@settings(max_examples=300, deadline=None)
@given(
    STEPS,
    st.booleans(),
    st.integers(1, 12),
    st.sampled_from([60, 150, 1 << 20]),
    st.integers(0, 9),
    st.data(),
)
def test_chunks_are_the_same_with_and_without(steps, checksum, rows_max, bytes_max, skip, data):
    """Also with a damaged event, a table that is left out, small chunks, and rows handed over before."""
    events = file_of(steps, checksum)
    if data.draw(st.booleans()):
        index = data.draw(st.integers(1, len(events))) - 1
        broken = bytearray(events[index])
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        if data.draw(st.booleans()):
            broken[-4:] = zlib.crc32(bytes(broken[:-4])).to_bytes(4, "little")
        events[index] = bytes(broken)
    one = data.draw(st.booleans())
    limits = Limits(bytes_max=bytes_max, rows_max=rows_max)

    def select(schema, table):
        return TableName(schema, table) if one or table == "t1" else None

    with_lane = read(events, limits, select, lane=True, skip=skip)
    without = read(events, limits, select, lane=False, skip=skip)
    assert with_lane[:3] == without[:3]


@pytest.mark.parametrize("rows_max", [1, 7, 100, 16_384])
def test_fixtures_are_read_the_same_with_and_without(rows_max):
    for path in sorted(rows_corpus.FIXTURES.glob("*.binlog")):
        events, limits = events_of(path.read_bytes()), Limits(rows_max=rows_max)
        assert (
            read(events, limits, TableName, lane=True)[:3] == read(events, limits, TableName, lane=False)[:3]
        )


@pytest.mark.parametrize("checksum", [True, False])
def test_runs_go_through_the_lane(checksum):
    """Rows and repeated table maps do; the first rows, another table and the end do not."""
    events = file_of([("run", 1, 5, 2), ("run", 2, 1, 1), ("end",)], checksum)
    assert read(events, Limits(), TableName, lane=True)[3] == 9 + 1
    assert read(events, Limits(), TableName, lane=False)[3] == 0


def test_a_table_map_that_differs_is_not_for_the_lane():
    events = file_of([("run", 1, 2, 1), ("map", 1, 2), ("rows", 1, EventType.WRITE_ROWS, 1)], checksum=True)
    chunks = read(events, Limits(), TableName, lane=True)[0]
    assert [rows.num_rows for _, rows in chunks[0][2]] == [2, 1]
    assert [rows.schema.field("after").type[1].name for _, rows in chunks[0][2]] == ["v1", "v2"]


@pytest.mark.parametrize("begin", [4, (1 << 32) - 200, (1 << 40) + 9, (1 << 64) - 100])
def test_offsets_go_on_beyond_what_an_event_says(begin):
    """log_pos has 32 bits and wraps; a damaged ROTATE may name any place."""
    events = file_of([("run", 1, 5, 2), ("end",)], checksum=False)
    ends = [begin]
    for at, event in enumerate(events[1:], start=1):
        ends.append(ends[-1] + len(event))
        events[at] = event[:13] + (ends[-1] % (1 << 32) or 1).to_bytes(4, "little") + event[17:]
    builder = ChunkBuilder()
    decoder = BinlogDecoder("s", Position("f", 4), TableName, builder, checksum=0)
    decoder.feed(events[0])
    decoder.offset = begin
    for event, end in zip(events[1:], ends[1:], strict=True):
        decoder.feed(event)
        assert decoder.offset == end


def test_a_shut_lane_takes_nothing():
    lane = RowsLane()
    lane.enter(checksum=False)
    assert not lane.is_open
    assert lane.take(bytes(100)) == 0
    assert lane.leave() == (0, 0)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=600))
def test_the_checksum_is_zlibs(data):
    assert checksum_of(data) == zlib.crc32(data)
