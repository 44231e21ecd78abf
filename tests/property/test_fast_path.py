"""The fast path takes what the long way would take, and as it would: chunks are the same with and without."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.binlog.binlog_bytes import File, events_of
from support.defaults import chunk_limits
from support.rows import row_images, rows_corpus
from support.soak import cases

from canal_group.binlog.formats.event_types import ROWS, UPDATES, EventType
from canal_group.binlog.grammar.binlog_decoder import BinlogDecoder
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.binlog.native.accumulator import HEADER_BYTES, Accumulator
from canal_group.binlog.native.fast_path import FastPath, checksum_of
from canal_group.binlog.native.file_events import FileBuffer
from canal_group.binlog.native.packets import PacketBuffer
from canal_group.merge.errors import DataError
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.header import HEADER, Flag
from canal_group.merge.values.position import Position

SIZES = bytearray(42)
for _kind in EventType:
    if 0 < _kind <= len(SIZES):
        SIZES[_kind - 1] = 8 if _kind in ROWS or _kind == EventType.TABLE_MAP else 0
COLUMNS = [(1, b""), (15, b"\x14\x00")]


def names(version):
    """The optional metadata of a version of the table: its columns' names."""
    text = b"".join(bytes([len(name)]) + name for name in (b"n", b"v%d" % version))
    return b"\4" + bytes([len(text)]) + text


UUIDS = [bytes([number]) * 16 for number in (1, 2)]


def varied(value):
    """A number of MySQL's serialization format, as short as it can be."""
    more = max(0, (value.bit_length() + 6) // 7 - 1)
    if more >= 8:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << (more + 1) | (1 << more) - 1).to_bytes(more + 1, "little")


def tagged_gtid(uuid, tag, number, commit_us, known=6, more=b""):
    fields = [
        (0, varied(1)),
        (1, b"".join(map(varied, uuid))),
        (2, varied(number * 2)),
        (3, varied(len(tag)) + tag),
        (4, varied(6)),
        (5, varied(8)),
        (6, varied(commit_us)),
    ]
    text = b"".join(varied(field) + value for field, value in fields if value is not None) + more
    size = len(text) + 3  # version, size and the last field that must be known
    size += size > 127
    return varied(1) + varied(size) + varied(known) + text


def gtid(kind, source, number, *, alone=False):
    """An event of a GTID: its type and body. Of MariaDB's, every 14th prepares, every 4th is of an ALTER."""
    commit_us = 1_700_000_000_000_000 + number
    match kind:
        case "mysql" | "anonymous":
            clock = b"\2" + bytes(16) + (commit_us | (number % 3 == 0) << 55).to_bytes(7, "little")
            clock += (commit_us - 9).to_bytes(7, "little") * (number % 3 == 0 and number % 7 > 0)
            body = b"\1" + UUIDS[source] + number.to_bytes(8, "little") + (clock if number % 4 else b"")
            return EventType.GTID if kind == "mysql" else EventType.ANONYMOUS_GTID, body
        case "tagged":
            tag = (b"", b"a", b"x" * 32)[number % 3]
            replicated = varied(7) + varied((0, commit_us - 9)[number // 5 % 2])
            more = b"" if number % 5 else replicated
            return EventType.GTID_TAGGED, tagged_gtid(UUIDS[source], tag, number, commit_us, more=more)
        case "mariadb":
            flags = 1 if alone else 0x40 if number % 14 == 0 else (0, 2, 4)[number % 3]
            extra = bytes(8 * (flags == 2)) + (b"\1\0\0\0\1\1gb" if flags == 0x40 else b"")
            extra += bytes([(2, 0, 16, 0)[number % 4]])
            return EventType.MARIADB_GTID, number.to_bytes(8, "little") + struct.pack(
                "<IB", source, flags
            ) + extra


#: what a file holds: beginnings, table maps, rows, runs of rows with table maps between, small transactions,
#: texts, ends of either kind, savepoints, definitions, gaps
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 1)),
        st.tuples(st.just("map"), st.integers(1, 2), st.integers(1, 2)),
        st.tuples(st.just("rows"), st.integers(1, 2), st.sampled_from(sorted(ROWS)), st.integers(0, 4)),
        st.tuples(st.just("run"), st.integers(1, 2), st.integers(2, 6), st.integers(1, 2)),
        st.tuples(st.just("small"), st.integers(1, 2), st.integers(1, 5), st.integers(0, 1)),
        st.tuples(st.just("text")),
        st.tuples(st.just("end")),
        st.tuples(st.just("commit")),
        st.tuples(st.just("savepoint")),
        st.tuples(st.just("definition")),
        st.tuples(st.just("gap"), st.integers(1, 300)),
    ),
    max_size=25,
)
KINDS = st.sampled_from(["none", "mysql", "anonymous", "tagged", "mariadb"])


def body_of(number, event_type, rows):
    stored = [
        row_images.image([bytes([row]), row_images.sized(b"x" * row, 1)])
        for row in range(rows * (2 if event_type in UPDATES else 1))
    ]
    return number.to_bytes(6, "little") + row_images.rows_body(event_type, 2, stored)[6:]


class Writer:
    """Writes transactions in one or two tables, as servers do, more or less."""

    def __init__(self, kind, checksum):
        version = "10.11.6-MariaDB" if kind == "mariadb" else "9.7.4"
        self.file = File(version, bytes(SIZES), checksum)
        self.kind, self.known, self.inside, self.number = kind, {}, False, 0
        #: offsets in the data from which on offsets are that much greater
        self.gaps = []

    def begin(self, source):
        self.number += 1
        if self.kind != "none":
            self.file.add(*gtid(self.kind, source, self.number), server_id=1 + source)
        if self.kind != "mariadb":
            self.file.query("BEGIN")
        self.inside = True

    def end(self, *, commit=False):
        if commit:
            self.file.query("COMMIT")
        else:
            self.file.xid()
        self.inside = False

    def map(self, number, version):
        self.known[number] = version
        self.file.table_map(COLUMNS, number, table=f"t{number}", tail=names(version))

    def rows(self, number, event_type, count):
        if not self.inside:
            self.begin(0)
        if number not in self.known:
            self.map(number, 1)
        self.file.add(event_type, body_of(number, event_type, count))

    def step(self, step):  # noqa: C901, PLR0912 - one branch a step
        match step:
            case "begin", source if not self.inside:
                self.begin(source)
            case "map", number, version:
                self.map(number, version)
            case "rows", number, event_type, count:
                self.rows(number, event_type, count)
            case "run", number, times, count:
                for _ in range(times):
                    self.rows(number, EventType.WRITE_ROWS, count)
                    self.map(number, self.known[number])
            case "small", number, times, source if not self.inside:
                for _ in range(times):
                    self.begin(source)
                    self.map(number, self.known.get(number, 1))
                    self.rows(number, EventType.WRITE_ROWS, 1)
                    self.end()
            case ("text",):
                mariadb = self.kind == "mariadb"
                self.file.add(EventType.MARIADB_ANNOTATE_ROWS if mariadb else EventType.ROWS_QUERY, b"\1x")
            case ("savepoint",) if self.inside:
                self.file.query("SAVEPOINT s")
                self.file.query("ROLLBACK TO s")
            case ("definition",) if not self.inside:
                if self.kind != "none":
                    self.number += 1
                    self.file.add(*gtid(self.kind, 0, self.number, alone=True))
                self.file.query("CREATE TABLE t1 (n INT)")
            case ("end" | "commit" as how,) if self.inside:
                self.end(commit=how == "commit")
            case "gap", size:
                self.gaps.append((len(self.file.data), size))
            case _:
                pass

    def events(self):
        found, at = [], 4
        for event in events_of(self.file.data):
            moved = sum(size for begin, size in self.gaps if begin <= at)
            at += len(event)
            found.append(changed(event, self.file.checksum, log_pos=at + moved))
        return found


def changed(event, checksum, *, log_pos):
    """An event that says that it ends elsewhere."""
    plain = event[:13] + struct.pack("<I", log_pos % (1 << 32)) + event[17 : len(event) - 4 * checksum]
    return plain + struct.pack("<I", zlib.crc32(plain)) if checksum else plain


def file_of(steps, checksum, kind="none"):
    """Return the events of a file."""
    writer = Writer(kind, checksum)
    for step in steps:
        writer.step(step)
    return writer.events()


def packets_of(events):
    """Return events as a server sends them."""
    return b"".join(
        (len(event) + 1).to_bytes(3, "little") + bytes((number % 256, 0)) + event
        for number, event in enumerate(events, start=1)
    )


def semi_sync_packets_of(events, damaged=None):
    """Return events as a source sends them to a semi-synchronous replica; it waits after some of them.

    `damaged` may be the index of an event, and the two bytes that stand before it instead.
    """
    packets, number = [], 1
    for index, event in enumerate(events):
        waits = zlib.crc32(event) & 1
        mark = damaged[1] if damaged and damaged[0] == index else bytes((0xEF, waits))
        head = (len(event) + 3).to_bytes(3, "little") + bytes((number % 256, 0)) + mark
        packets.append(head + event)
        number = 1 if waits else number + 1
    return b"".join(packets)


class Reading:
    """What a decoder makes of events: by the grammar alone, with the fast path, or with it over packets."""

    def __init__(self, events, limits, select, way, skip=0, *, original=False):
        self.builder = ChunkBuilder(limits)
        self.builder.fast_path.original = original
        start = Position("f", 4, rows_into_transaction=skip)
        self.decoder = BinlogDecoder("s", start, select, self.builder, checksum=0)
        self.chunks, self.by_grammar, self.error = [], 0, None
        try:
            if way == "packets":
                self.read_arriving(PacketBuffer(), packets_of(events), skip=1)
            elif way == "semi_sync":
                self.read_arriving(PacketBuffer(semi_sync=True), semi_sync_packets_of(events), skip=1)
            elif way == "file":
                self.read_arriving(FileBuffer(), b"".join(events), skip=0)
            else:
                for event in events:
                    self.feed(event, fast_path=way == "fast_path")
            self.close()
        except DataError as error:
            self.error = str(error)

    def feed(self, event, *, fast_path):
        if not fast_path:
            self.builder.fast_path.is_open = False
        taken = self.builder.fast_path.take(event)
        if not taken:
            self.decoder.feed(event)
        self.by_grammar += not taken
        while self.decoder.go_on():
            pass
        if self.builder.full:
            self.close()

    def read_arriving(self, buffer, data, *, skip):
        """Read bytes that come piece by piece; `skip` of them stand before an event."""
        for at in range(0, len(data), 100):
            buffer.make_room()
            piece = data[at : at + 100]
            memoryview(buffer)[: len(piece)] = piece
            buffer.received(len(piece))
            while True:
                self.decoder.run(buffer)
                taken = buffer.take()
                if taken is None:
                    break
                self.feed(taken[skip:], fast_path=True)

    def close(self):
        chunk = self.builder.close(self.decoder.offset)
        if chunk is not None:
            tables = [(table.name, table.rows) for table in chunk.tables]
            self.chunks.append((chunk.headers.tolist(), chunk.names, tables, chunk.statements))

    @property
    def result(self):
        return self.chunks, self.decoder.offset, self.error, self.builder.losses, self.decoder.in_transaction


WAYS = ("grammar", "fast_path", "packets", "semi_sync", "file")


@settings(max_examples=cases(400), deadline=None)
@given(
    STEPS,
    KINDS,
    st.booleans(),
    st.integers(1, 12),
    st.sampled_from([60, 150, 1 << 20]),
    st.sampled_from([2, 5, 1000]),
    st.integers(0, 9),
    st.data(),
)
def test_both_ways_make_the_same_chunks(steps, kind, checksum, rows_max, bytes_max, headers_max, skip, data):
    """Also with a damaged event, a table that is left out, small chunks, and rows handed over before."""
    events = file_of(steps, checksum, kind)
    if data.draw(st.booleans()):
        index = data.draw(st.integers(1, len(events))) - 1
        broken = bytearray(events[index])
        broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        if data.draw(st.booleans()):
            broken[-4:] = zlib.crc32(bytes(broken[:-4])).to_bytes(4, "little")
        events[index] = bytes(broken)
    one, original = data.draw(st.booleans()), data.draw(st.booleans())
    limits = chunk_limits(bytes_max=bytes_max, rows_max=rows_max, headers_max=headers_max)

    def select(schema, table):
        return TableName(schema, table) if one or table != "t2" else None

    # In a file nothing but its own size says where an event ends.
    whole = all(len(event) == int.from_bytes(event[9:13], "little") for event in events)
    ways = WAYS if whole else WAYS[:-1]
    grammar, *others = (Reading(events, limits, select, way, skip, original=original).result for way in ways)
    assert others == [grammar] * len(others)


@pytest.mark.parametrize("rows_max", [1, 7, 100, 16_384])
@pytest.mark.parametrize("original", [False, True])
@pytest.mark.parametrize("server", ["mysql-9.7.4", "mariadb-10.11"])
def test_both_ways_read_the_fixtures_alike(rows_max, original, server):
    for path in sorted((rows_corpus.FIXTURES.parent / server).glob("*.binlog")):
        events, limits = events_of(path.read_bytes()), chunk_limits(rows_max=rows_max)
        grammar, *others = (Reading(events, limits, TableName, way, original=original).result for way in WAYS)
        assert others == [grammar] * len(others)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("way", ["fast_path", "packets", "semi_sync", "file"])
def test_runs_go_through_the_fast_path(checksum, way):
    """Rows and repeated table maps do; the file's beginning, the first of each, and another table do not."""
    events = file_of([("run", 1, 5, 2), ("run", 2, 1, 1), ("end",)], checksum)
    # description, BEGIN, and of each table its table map and rows
    assert Reading(events, chunk_limits(), TableName, way).by_grammar == 2 + 4
    assert Reading(events, chunk_limits(), TableName, "grammar").by_grammar == len(events)


@pytest.mark.parametrize("mark", [b"\xee\0", b"\0\1", b"\xef\2"])
def test_an_event_without_the_semi_sync_bytes_is_not_read(mark):
    """Nor by the fast path, which has taken the events before it."""
    events = file_of([("run", 1, 9, 1), ("end",)], checksum=True)
    reading = Reading([], chunk_limits(), TableName, "grammar")
    with pytest.raises(LookupError, match=(b"\0" + mark).hex()):
        reading.read_arriving(
            PacketBuffer(semi_sync=True), semi_sync_packets_of(events, (len(events) - 3, mark)), skip=1
        )
    assert reading.decoder.run_counts()


@pytest.mark.parametrize("kind", ["none", "mysql", "anonymous", "tagged", "mariadb"])
def test_usual_transactions_go_through_the_fast_path(kind):
    """All but the first of each GTID source: tags make sources too, and some GTIDs of MariaDB are unusual."""
    small = Reading(
        file_of([("small", 1, 60, 0)], checksum=True, kind=kind), chunk_limits(), TableName, "packets"
    )
    assert len(small.chunks[0][0]) == 60
    assert small.by_grammar <= {"tagged": 9, "mariadb": 5 + 60 // 4 + 4 * 60 // 14}.get(kind, 5)
    left_out = Reading(
        file_of([("small", 1, 60, 0)], checksum=True, kind=kind), chunk_limits(), lambda *_: None, "packets"
    )
    assert left_out.by_grammar == small.by_grammar
    assert [header[3] for header in left_out.chunks[0][0]] == [0] * 60


def test_tagged_gtids_that_end_too_soon_are_left_to_the_grammar():
    """A whole copy teaches the fast path the source; each cut one is an error of the grammar's."""
    kind, body = gtid("tagged", 0, 1)
    first = file_of([("small", 1, 1, 0)], checksum=False, kind="tagged")
    for size in range(len(body) - 1):
        file = File("9.7.4", bytes(SIZES), checksum=False)
        file.data += b"".join(first[1:])
        file.add(kind, body[:size])
        events = events_of(file.data)
        grammar, *others = (Reading(events, chunk_limits(), TableName, way).result for way in WAYS)
        assert others == [grammar] * len(others)
        assert grammar[2]


def test_each_chunk_names_sources_anew():
    """The second chunk begins with the source that came second in the first."""
    steps = [("small", 1, 3, 0), ("small", 1, 5, 1), ("small", 1, 3, 0)]
    events, limits = file_of(steps, checksum=True, kind="mysql"), chunk_limits(headers_max=4)
    grammar, *others = (Reading(events, limits, TableName, way).result for way in WAYS)
    assert others == [grammar] * len(others)
    assert len(grammar[0]) == 3


def test_a_table_map_that_differs_is_not_for_the_fast_path():
    events = file_of([("run", 1, 2, 1), ("map", 1, 2), ("rows", 1, EventType.WRITE_ROWS, 1)], checksum=True)
    chunks = Reading(events, chunk_limits(), TableName, "fast_path").chunks
    assert [rows.num_rows for _, rows in chunks[0][2]] == [2, 1]
    assert [rows.schema.field("after").type[1].name for _, rows in chunks[0][2]] == ["v1", "v2"]


def test_tables_with_colliding_numbers_do_not_mix():
    """The fast path has a slot for a number's low ten bits."""
    file = File("9.7.4", bytes(SIZES), checksum=True).query("BEGIN")
    for _ in range(3):
        for number in (5, 5 + 1024, 5 + 2048):
            file.table_map(COLUMNS, number, table=f"t{number}", tail=names(1))
            file.add(EventType.WRITE_ROWS, body_of(number, EventType.WRITE_ROWS, 2))
    events = events_of(file.xid().data)
    grammar, *others = (Reading(events, chunk_limits(), TableName, way).result for way in WAYS)
    assert others == [grammar] * len(others)
    assert [(name.table, rows.num_rows) for name, rows in grammar[0][0][2]] == [
        ("t5", 6),
        ("t1029", 6),
        ("t2053", 6),
    ]


@pytest.mark.parametrize("begin", [4, (1 << 32) - 200, (1 << 40) + 9, (1 << 62) - 300])
def test_offsets_go_on_beyond_what_an_event_says(begin):
    """log_pos has 32 bits and wraps; a damaged ROTATE may name any offset."""
    events = file_of([("run", 1, 5, 2), ("end",)], checksum=False)
    ends = [begin]
    for at, event in enumerate(events[1:], start=1):
        ends.append(ends[-1] + len(event))
        events[at] = event[:13] + (ends[-1] % (1 << 32) or 1).to_bytes(4, "little") + event[17:]
    builder = ChunkBuilder(chunk_limits())
    decoder = BinlogDecoder("s", Position("f", 4), TableName, builder, checksum=0)
    decoder.feed(events[0])
    decoder.offset = begin
    for event, end in zip(events[1:], ends[1:], strict=True):
        decoder.feed(event)
        assert decoder.offset == end


def test_a_shut_fast_path_takes_nothing():
    fast_path = FastPath(Accumulator(1, 1, 1))
    assert fast_path.take(bytes(100)) == 0
    fast_path.is_open = True
    assert fast_path.take(bytes(100)) == 0
    assert fast_path.take(b"") == 0


def test_a_header_is_what_the_control_plane_reads():
    accumulator = Accumulator(1 << 20, 100, 100)
    accumulator.begin(file=3, begin_offset=4, commit_us=5, source=6, number=7, skip=8)
    accumulator.add(10, 2, 900)
    accumulator.mark_ddl()
    accumulator.end_header(11, last=True)
    assert HEADER.itemsize == HEADER_BYTES
    (header,) = np.frombuffer(accumulator.take(), HEADER)
    flags = Flag.END | Flag.DDL  # rows were skipped: another header had BEGIN
    assert header.tolist() == (0, 0, int(flags), 2, 8, 10, 900, 5, 0, 3, 4, 11, 6, 7, 0, 0)


@settings(max_examples=cases(500), deadline=None)
@given(st.binary(max_size=2000))
def test_the_checksum_is_zlibs(data):
    assert checksum_of(data) == zlib.crc32(data)
