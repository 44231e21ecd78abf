"""MariaDB's rows events in fragments: handmade, read from files and from a stream, and damaged."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.binlog.binlog_bytes import SIZES_5_1, File, events_of
from support.defaults import chunk_limits

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.row_fragments import RowFragments
from canal_group.binlog.grammar.binlog_decoder import BinlogDecoder
from canal_group.binlog.grammar.chunk_builder import ChunkBuilder
from canal_group.binlog.native.packets import PacketBuffer
from canal_group.merge.errors import CorruptEvent, DataError, UnsupportedEvent
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import Position
from canal_group.merge.values.types.table import ColumnType

NAME = "mysql-bin.000001"
COLUMNS = [(ColumnType.LONG, b"")]
VALUES = [1, 2, 70000]


def rows_event(checksum):
    """Return an insert of three rows as an event of its own, with or without a checksum."""
    file = File("12.3.1-MariaDB", checksum=checksum)
    file.insert(COLUMNS, [value.to_bytes(4, "little") for value in VALUES])
    return events_of(file.data)[-1]


def fragments(event, sizes):
    """Return the bodies of fragments with parts of these sizes; the last one takes the rest."""
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    cuts = [0, *(end for end in ends if end < len(event)), len(event)]
    parts = [event[begin:end] for begin, end in pairwise(cuts)]
    return [
        struct.pack("<IIB", len(parts), number, number == 1)
        + (struct.pack("<Q", len(event)) if number == 1 else b"")
        + part
        for number, part in enumerate(parts, start=1)
    ]


def file_of(bodies, *, checksum=True):
    sizes = SIZES_5_1 + bytes(172 - len(SIZES_5_1))
    file = begin(begin(File("12.3.1-MariaDB", sizes, checksum=checksum), 1).xid(), 2)
    for body in bodies:
        file.add(EventType.MARIADB_PARTIAL_ROW_DATA, body)
    file.xid()
    return begin(file, 3).insert(COLUMNS, [(9).to_bytes(4, "little")]).xid()


def begin(file, number):
    """Begin a transaction as MariaDB does, whose events the fast path takes."""
    return file.add(EventType.MARIADB_GTID, struct.pack("<QIB", number, 0, 2) + bytes(6)).table_map(COLUMNS)


def values_of(chunk):
    return [row["after"]["@1"] for table in chunk.tables for row in table.rows.to_pylist()]


def from_file(file, tmp_path):
    chunks = BinlogFiles([file.write(tmp_path / NAME)], TableName)
    return [value for chunk in chunks for value in values_of(chunk)]


def from_stream(file, _):
    packets = b"".join(
        (len(event) + 1).to_bytes(3, "little") + bytes((number % 256, 0)) + event
        for number, event in enumerate(events_of(file.data), start=1)
    )
    builder, buffer = ChunkBuilder(chunk_limits()), PacketBuffer()
    decoder = BinlogDecoder(
        "s1", Position(NAME, 4), TableName, builder, checksum=int(file.checksum), names_needed=False
    )
    while packets:
        buffer.make_room()
        room = memoryview(buffer)[: len(packets)]
        room[:] = packets[: len(room)]
        packets = packets[len(room) :]
        buffer.received(len(room))
        while True:
            decoder.run(buffer)
            packet = buffer.take()
            if packet is None:
                break
            decoder.feed(packet[1:])
    return values_of(decoder.close_chunk())


both = pytest.mark.parametrize("read", [from_file, from_stream])


@both
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("inner_checksum", [False, True])
@pytest.mark.parametrize("sizes", [[1000], [10], [19, 8], [1] * 60])
def test_fragments_are_joined(read, checksum, inner_checksum, sizes, tmp_path):
    file = file_of(fragments(rows_event(inner_checksum), sizes), checksum=checksum)
    assert read(file, tmp_path) == [*VALUES, 9]


WHOLE = fragments(rows_event(checksum=False), [10, 12])
WRONG = {
    "the first is missing": (WHOLE[1:], "Fragment 2 of a rows event comes where 1 was expected"),
    "the middle is missing": ([WHOLE[0], WHOLE[2]], "Fragment 3 of a rows event comes where 2 was expected"),
    "the last is missing": (WHOLE[:2], "Another event comes after fragment 2 of 3"),
    "one is doubled": ([WHOLE[0], WHOLE[0], *WHOLE[1:]], "Fragment 1 of a rows event comes where 2"),
    "two are exchanged": ([WHOLE[0], WHOLE[2], WHOLE[1]], "Fragment 3 of a rows event comes where 2"),
    "another count": ([WHOLE[0], b"\4" + WHOLE[1][1:]], "says that it is one of 4, the first one 3"),
    "too many bytes": ([WHOLE[0], WHOLE[1] + bytes(99)], "has 111 bytes, after which there are 121"),
    "too few bytes": ([*WHOLE[:2], WHOLE[2][:-1]], "bytes together, not"),
    "no bytes": ([WHOLE[0], WHOLE[1][:9]], "has 0 bytes"),
    "a size in the second": ([WHOLE[0], WHOLE[1][:8] + b"\1" + WHOLE[1][9:]], "impossible flags: 0x01"),
    "cut off in its head": ([WHOLE[0][:7]], "The event is too short"),
    "no rows event": (fragments(File("12.3.1-MariaDB", checksum=False).xid().data[-27:], [9]), "are a XID"),
}


@both
@pytest.mark.parametrize("case", WRONG)
def test_groups_that_are_not_whole_are_refused(read, case, tmp_path):
    bodies, message = WRONG[case]
    with pytest.raises(CorruptEvent, match=message) as caught:
        read(file_of(bodies), tmp_path)
    assert caught.value.details["file"] == NAME
    assert caught.value.details["offset"] > 4
    # The fast path must not end the transaction, so that the event after the group is named.
    missing = case == "the last is missing"
    assert str(caught.value.details["event"]).startswith("XID" if missing else "MARIADB_PARTIAL_ROW_DATA")


@both
def test_an_event_that_is_too_large_is_refused(read, tmp_path):
    body = struct.pack("<IIBQ", 2000, 1, 1, (1 << 30) + 1) + b"x"
    with pytest.raises(UnsupportedEvent, match="1073741825 bytes; at most 1073741824") as caught:
        read(file_of([body]), tmp_path)
    assert "start after this transaction" in caught.value.hint


def test_the_bound_is_the_largest_event_that_is_joined():
    event = rows_event(checksum=False)
    assert RowFragments(len(event)).add(fragments(event, [1000])[0]) is not None
    with pytest.raises(UnsupportedEvent):
        RowFragments(len(event) - 1).add(fragments(event, [1000])[0])


def test_a_crash_between_fragments_does_not_fail_the_next_file(tmp_path):
    """The server rolled the transaction back: what was read of it is dropped."""
    first = File("12.3.1-MariaDB", checksum=True, flags=1).query("BEGIN").table_map(COLUMNS)
    first.add(EventType.MARIADB_PARTIAL_ROW_DATA, WHOLE[0])
    second = file_of(WHOLE)
    files = [first.write(tmp_path / NAME), second.write(tmp_path / "mysql-bin.000002")]
    chunks = BinlogFiles(files, TableName)
    assert [value for chunk in chunks for value in values_of(chunk)] == [*VALUES, 9]


@given(st.lists(st.integers(1, 40), max_size=20), st.booleans())
def test_every_cut_joins_to_the_same_event(sizes, checksum):
    event, joiner = rows_event(checksum), RowFragments()
    joined = [joiner.add(body) for body in fragments(event, sizes)]
    assert joined[:-1] == [None] * (len(joined) - 1)
    header, body = joined[-1]
    assert header.event_type == EventType.WRITE_ROWS_V1
    assert body == rows_event(checksum=False)[19:]
    assert not joiner.open


@given(st.data())
def test_damaged_fragments_are_refused_or_joined(data):
    bodies = fragments(rows_event(checksum=True), data.draw(st.lists(st.integers(1, 40), max_size=6)))
    at = data.draw(st.integers(0, len(bodies) - 1))
    body = bytearray(bodies[at])
    for offset in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3)):
        body[offset] = data.draw(st.integers(0, 255))
    bodies[at] = bytes(body[: data.draw(st.integers(0, len(body)))])
    joiner = RowFragments(1 << 16)
    try:
        for each in bodies:
            joiner.add(each)
        joiner.require_ended()
    except (DataError, struct.error):
        pass


def test_transactions_without_offsets_are_refused():
    file = File("12.3.1-MariaDB", checksum=True)
    file.add(EventType.MARIADB_GTID, struct.pack("<QIB", 5, 0, 0) + bytes(6), log_pos=0)
    with pytest.raises(UnsupportedEvent, match="stored in a storage engine") as caught:
        from_stream(file, None)
    assert "binlog_storage_engine" in caught.value.hint
