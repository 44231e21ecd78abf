"""Files on a disk: folders, file ends, relay logs, and the errors of files that are not binlogs."""

from __future__ import annotations

import gzip
import struct

import pytest
from support.binlog.binlog_bytes import SIZES_5_1, File, events_of
from support.binlog.decoding import BIG, FIXTURES, with_checksum
from support.binlog.fixture_changes import J, changes_of, id_only, inserts
from support.binlog.number_files import IN_USE, INT, RELAY, read, rows_of
from support.defaults import chunk_limits

from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.binlog.formats.event_types import EventType
from canal_group.merge.errors import CorruptEvent, PositionPurged, UnsupportedEvent, UsageError
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position


def rotate(file, name):
    return file.add(EventType.ROTATE, struct.pack("<Q", 4) + name.encode())


def test_a_folder_is_read_in_the_order_of_its_numbers(tmp_path):
    for number in (2, 10, 1):
        rows_of(File("5.5.62"), number).write(tmp_path / f"mysql-bin.{number}")
    (tmp_path / "mysql-bin.index").write_text("./mysql-bin.000001")
    files = files_in(tmp_path)
    assert [file.name for file in files] == ["mysql-bin.1", "mysql-bin.2", "mysql-bin.10"]
    assert read(files) == ([1, 2, 10], None)


def test_a_folder_of_two_logs_or_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"holds no binlogs\."):
        files_in(tmp_path)
    for name in ("mysql-bin.000001", "relay-bin.000001"):
        rows_of(File("5.5.62"), 1).write(tmp_path / name)
    with pytest.raises(UsageError, match="mysql-bin, relay-bin"):
        files_in(tmp_path)


def test_positions_name_the_file_that_a_transaction_is_in(tmp_path):
    one = rotate(rows_of(File("5.5.62"), 1), "other.000009").write(tmp_path / "mysql-bin.000001")
    two = rows_of(File("5.5.62"), 2).write(tmp_path / "mysql-bin.000002")
    (chunk,) = BinlogFiles([one, two], TableName)
    files = [chunk.names[int(header["file"])] for header in chunk.headers]
    assert files == ["mysql-bin.000001", "mysql-bin.000002"]
    assert {int(header["begin_offset"]) for header in chunk.headers} == {4 + 19 + 57 + 26}


def test_an_incomplete_end_after_a_crash_is_skipped(tmp_path):
    """1. The first file is marked in use and ends inside an event. 2. Inside a transaction. 3. Both go on."""
    begun = rows_of(File("5.5.62", flags=IN_USE), 1)
    begun.query("BEGIN").table_map(INT).insert(INT, [struct.pack("<i", 99)])
    two = rows_of(File("5.5.62"), 2).write(tmp_path / "mysql-bin.000002")
    for data in (begun.data[:-3], begun.data, begun.data[:-100]):
        one = tmp_path / "mysql-bin.000001"
        one.write_bytes(data)
        assert read([one]) == ([1], None)
        assert read([one, two]) == ([1, 2], None)


@pytest.mark.parametrize("cut", [1, 10, 19, 26, 30, 60])
def test_a_file_that_was_cut_off_gives_what_is_before_and_then_an_error(tmp_path, cut):
    data = rows_of(rows_of(File("5.5.62"), 1), 2).data
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(data[:-cut])
    ids, error = read([path, path])
    assert ids == [1]
    assert isinstance(error, CorruptEvent)
    assert (error.details["file"], "cut off" in str(error)) == (path.name, True)


def test_every_length_of_a_file_is_an_end_or_an_error(tmp_path):
    """Cut anywhere: the transactions before are there, no error but ours, and none only between two."""
    data = (FIXTURES / "txn_compression.binlog").read_bytes()
    path = tmp_path / "mysql-bin.000001"
    whole = [
        int(h["end_offset"])
        for c in BinlogFiles([FIXTURES / "txn_compression.binlog"], TableName)
        for h in c.headers
    ]
    starts, at = {4}, 4
    for event in events_of(data):
        at += len(event)
        starts.add(at)
    for length in [*range(130), *range(130, len(data), 7), *starts]:
        path.write_bytes(data[:length])
        headers, error = [], None
        try:
            for chunk in BinlogFiles([path], TableName):
                headers += list(chunk.headers)
        except CorruptEvent as caught:
            error = caught
        assert error is None or error.details["file"] == path.name
        assert [int(h["end_offset"]) for h in headers] == [end for end in whole if end <= length]
        quiet = length in starts and (length <= whole[0] - 229 or length in whole or length > whole[-1])
        assert (error is None) == quiet, length


def test_a_huge_transaction_is_cut_into_chunks(tmp_path):
    files = BinlogFiles([FIXTURES / "big_transaction.binlog"], TableName, chunk_limits(rows_max=100))
    chunks = [chunk for chunk in files if chunk.tables]
    assert len(chunks) > 5
    assert sum(table.rows.num_rows for chunk in chunks for table in chunk.tables) == BIG


def test_a_compressed_transaction_is_cut_into_chunks():
    files = BinlogFiles([FIXTURES / "txn_compression.binlog"], TableName, chunk_limits(rows_max=1))
    chunks = list(files)
    flags = [int(chunk.headers[-1]["flags"]) for chunk in chunks]
    assert flags.count(Flag.BEGIN) >= 1
    rows = [row["_row"] for chunk in chunks for table in chunk.tables for row in table.rows.to_pylist()]
    assert rows == [0, 1, 0, 1, 0, 1, 0]
    assert files.events[EventType.TRANSACTION_PAYLOAD] == 3


def test_a_start_inside_the_file(tmp_path):
    file = rows_of(File("5.5.62"), 1)
    at = len(file.data)
    path = rows_of(file, 2).write(tmp_path / "mysql-bin.000001")
    assert read([path], start=Position(path.name, at)) == ([2], None)


def test_a_commit_without_its_prepare(tmp_path):
    data = (FIXTURES / "xa.binlog").read_bytes()
    path = tmp_path / "mysql-bin.000002"
    events = events_of(data)
    moved, at = [events[0]], 4 + len(events[0])
    for event in events[10:]:
        at += len(event)
        moved.append(with_checksum(event[:13] + struct.pack("<I", at) + event[17:]))
    path.write_bytes(data[:4] + b"".join(moved))
    with pytest.raises(PositionPurged, match="commits here"):
        changes_of(path)


def test_relay_logs_have_offsets_of_their_own(tmp_path):
    """1. The replica's own description. 2. Its source's rotation and description. 3. The source's events.

    4. The transaction goes on in the next file.
    """
    one = File("5.5.62", flags=RELAY)
    one.add(EventType.ROTATE, struct.pack("<Q", 4) + b"mysql-bin.000077", log_pos=0, flags=0x20)
    source = events_of(File("5.5.62").data)[0]
    one.add(EventType.FORMAT_DESCRIPTION, source[19:], log_pos=0)
    begin = len(one.data)
    one.query("BEGIN", log_pos=5000).table_map(INT)
    rotate(one, "relay-bin.000002")
    two = File("5.5.62", flags=RELAY)
    two.table_map(INT).insert(INT, [struct.pack("<i", 5)]).xid()
    files = [one.write(tmp_path / "relay-bin.000001"), two.write(tmp_path / "relay-bin.000002")]
    assert read(files) == ([5], None)
    (chunk,) = BinlogFiles(files, TableName)
    assert chunk.names[int(chunk.headers[0]["file"])] == "relay-bin.000001"
    assert int(chunk.headers[0]["begin_offset"]) == begin
    ids, error = read(files[:1])
    assert ids == []
    assert isinstance(error, CorruptEvent)


def relay_log(version, sizes, *, first):
    """Return the beginning of a relay log of MySQL 5.0 or 5.1, which do not mark it as one.

    The first one of a connection holds the ROTATE that its source sends and the source's description as it is
    in the binlog; any later one the description alone, without an offset.
    """
    file = File(version, sizes)
    source = events_of(file.data)[0]
    if first:
        file.add(EventType.ROTATE, struct.pack("<Q", 4) + b"mysql-bin.000077", log_pos=0)
    return file.add(EventType.FORMAT_DESCRIPTION, source[19:], log_pos=4 + len(source) if first else 0)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("version", ["5.1.73-log", "5.2.14-MariaDB"])
def test_relay_logs_of_old_servers_are_not_marked_as_such(tmp_path, version, first):
    """The events have the source's offsets; a transaction goes on in the next file."""
    one = relay_log(version, SIZES_5_1, first=first)
    begin = len(one.data)
    one.query("BEGIN", log_pos=5000)
    one.add(EventType.ROTATE, struct.pack("<Q", 4) + b"relay-bin.000008")
    two = relay_log(version, SIZES_5_1, first=False)
    two.data += File(version).table_map(INT).insert(INT, [struct.pack("<i", 5)]).xid().data[4 + 102 :]
    rows_of(two, 6, 7)
    files = [one.write(tmp_path / "relay-bin.000007"), two.write(tmp_path / "relay-bin.000008")]
    assert read(files) == ([5, 6, 7], None)
    (chunk,) = BinlogFiles(files, TableName)
    assert int(chunk.headers[0]["begin_offset"]) == begin
    assert int(chunk.headers[1]["end_offset"]) == len(two.data)
    start = Position("relay-bin.000008", int(chunk.headers[0]["end_offset"]))
    assert read(files[1:], start=start) == ([6, 7], None)


def test_relay_logs_of_5_0_hold_statements(tmp_path):
    file = relay_log("5.0.96-log", SIZES_5_1[:18], first=True)
    file.query("BEGIN", log_pos=700).query("INSERT INTO t VALUES (1)", log_pos=800)
    file.add(EventType.XID, bytes(8), log_pos=827)
    file.query("CREATE TABLE u (id INT)", log_pos=900)
    path = file.write(tmp_path / "relay-bin.000002")
    (chunk,) = BinlogFiles([path], TableName, verbatim=True)
    assert [each["op"] for each in chunk.statements.to_pylist()] == ["INSERT", "CREATE"]
    assert int(chunk.headers[-1]["end_offset"]) == len(file.data)


def test_a_wrong_position_is_damage_except_in_a_relay_log(tmp_path):
    file = rows_of(File("5.1.73-log"), 1).query("BEGIN", log_pos=5000)
    _, error = read([file.write(tmp_path / "relay-bin.000002")])
    assert isinstance(error, CorruptEvent)
    assert "ends at 5000" in error.message


@pytest.mark.parametrize("data", [b"", b"\xfe", b"text, not a binlog", bytes(100)])
def test_a_file_that_is_not_a_binlog_is_reported(tmp_path, data):
    path = tmp_path / "notes.txt"
    path.write_bytes(data)
    with pytest.raises(CorruptEvent, match="not a binlog"):
        changes_of(path)


def test_encrypted_files_are_refused(tmp_path):
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(b"\xfdbin" + bytes(500))
    with pytest.raises(UnsupportedEvent, match="encrypted") as caught:
        changes_of(path)
    assert "decrypted" in caught.value.hint
    mariadb = File("10.6.16-MariaDB", checksum=True)
    mariadb.add(EventType.MARIADB_START_ENCRYPTION, bytes(17)).write(path)
    with pytest.raises(UnsupportedEvent, match="encrypted from this event on"):
        changes_of(path)


def test_files_compressed_with_gzip_are_named_so(tmp_path):
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(gzip.compress(rows_of(File("5.5.62"), 1).data))
    with pytest.raises(UnsupportedEvent, match=r"gzip.*mysql-bin\.000001:4") as caught:
        changes_of(path)
    assert "gunzip" in caught.value.hint


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot be opened"):
        changes_of(tmp_path / "mysql-bin.000001")


def test_skipped_events_are_passed_over(tmp_path):
    file = File("8.0.36", bytes(100), checksum=True)
    for kind in (100, EventType.VIEW_CHANGE, EventType.IGNORABLE, EventType.TRANSACTION_CONTEXT):
        file.add(kind, bytes(40))
    assert changes_of(file.write(tmp_path / "mysql-bin.000001")) == []
    file.add(EventType.INCIDENT, b"\1\0\0").write(tmp_path / "mysql-bin.000001")
    with pytest.raises(UnsupportedEvent, match="INCIDENT"):
        changes_of(tmp_path / "mysql-bin.000001")


def test_statements_and_rows_of_the_fixture_again(tmp_path):
    """The same bytes under any name."""
    path = tmp_path / "copy"
    path.write_bytes((FIXTURES / "gtid_tagged.binlog").read_bytes())
    assert changes_of(path) == [J, *inserts("fx.j", *id_only(50, 51))]


def test_a_file_between_others_that_ends_inside_a_transaction(tmp_path):
    """Cut off after a whole event: its rows are not there, and the next file is not read."""
    one = rows_of(File("5.5.62"), 1)
    one.query("BEGIN").table_map(INT).insert(INT, [struct.pack("<i", 99)])
    two = rows_of(File("5.5.62"), 2).write(tmp_path / "mysql-bin.000002")
    ids, error = read([one.write(tmp_path / "mysql-bin.000001"), two])
    assert ids == [1]
    assert isinstance(error, CorruptEvent)
    assert error.details["file"] == "mysql-bin.000001"


def test_a_file_is_read_in_blocks_and_events_may_be_larger(tmp_path):
    """Statements of up to 3 MiB stand between small transactions; what the lane read counts as well."""
    file = rows_of(File("5.6.51", checksum=True), 0)
    sizes = [1 << 20, (1 << 20) - 7, 3 << 20, 50_000]
    for number, size in enumerate(sizes, start=1):
        file.query(f"CREATE TABLE t{number} (id INT) COMMENT '{'x' * size}'")
        for _ in range(200):
            rows_of(file, number)
    files = BinlogFiles([file.write(tmp_path / "mysql-bin.000001")], TableName, chunk_limits(rows_max=50))
    rows = [row for chunk in files for table in chunk.tables for row in table.rows.to_pylist()]
    assert [row["after"]["@1"] for row in rows] == [0] + [n for n in range(1, 5) for _ in range(200)]
    assert files.events == {15: 1, EventType.QUERY: 805, 19: 801, EventType.WRITE_ROWS_V1: 801, 16: 801}


@pytest.mark.parametrize("size", [0, 18, (1 << 30) + 1])
def test_an_event_of_an_impossible_size(tmp_path, size):
    file = rows_of(File("5.6.51", checksum=True), 1)
    end = len(file.data)
    file.data += struct.pack("<IBIIIH", 0, EventType.XID, 1, size, 0, 0)
    ids, error = read([file.write(tmp_path / "mysql-bin.000001")])
    assert ids == [1]
    assert isinstance(error, CorruptEvent)
    assert f"there cannot be an event of {size} bytes" in error.message
    assert error.details["offset"] == end
