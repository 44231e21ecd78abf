"""The end of a file that its server marks as in use: an unfinished event, or a damaged length."""

from __future__ import annotations

from itertools import accumulate

import pytest
from support.binlog.binlog_bytes import File, events_of
from support.binlog.decoding import FIXTURES
from support.binlog.number_files import IN_USE, RELAY, read, rows_of

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.merge.errors import CorruptEvent, DataError
from canal_group.merge.values.chunk import TableName

#: where an event's header says its length, and how many bytes that has
LENGTH_AT, LENGTH_BYTES = 9, 4


def in_use(data):
    """Return a file's bytes with the flag of a file that its server writes."""
    return data[:21] + bytes([data[21] | IN_USE]) + data[22:]


def three_rows(version, checksum):
    file = File(version, checksum=checksum, flags=IN_USE)
    for number in range(3):
        rows_of(file, number)
    return file.data


@pytest.mark.parametrize(
    "data",
    [
        three_rows("5.5.62", None),
        three_rows("10.6.16-MariaDB", True),
        in_use((FIXTURES / "row_image_minimal.binlog").read_bytes()),
    ],
    ids=["no checksum", "mariadb", "mysql"],
)
def test_no_bit_of_a_length_can_drop_rows_without_an_error(tmp_path, data):
    """Every bit of every event's length, one at a time: an error with file and offset, never fewer rows."""
    path = tmp_path / "mysql-bin.000001"
    begin = 4
    for event in events_of(data):
        for bit in range(8 * LENGTH_BYTES):
            at = begin + LENGTH_AT + bit // 8
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit % 8]) + data[at + 1 :])
            with pytest.raises(DataError) as caught:
                list(BinlogFiles([path], TableName))
            assert caught.value.details["file"] == path.name
            assert caught.value.details["offset"] == begin or begin == 4
        begin += len(event)


def test_a_length_that_contradicts_log_pos_ends_the_file_after_its_rows(tmp_path):
    data = bytearray(three_rows("5.5.62", None))
    events = events_of(data)
    begins = list(accumulate(map(len, events), initial=4))
    data[begins[-2] + LENGTH_AT + 1] ^= 32
    path = tmp_path / "mysql-bin.000009"
    path.write_bytes(data)
    ids, error = read([path, path])
    assert ids == [0, 1]
    assert isinstance(error, CorruptEvent)
    assert f"The event's length of {len(events[-1]) + 8192} bytes" in error.message
    assert f"at mysql-bin.000009:{begins[-2]}" in error.message
    assert "damaged" in error.hint


def test_a_tail_says_where_it_begins_and_what_of_it_is_there(tmp_path):
    data = three_rows("5.5.62", None)
    begin = len(data) - len(events_of(data)[-1])
    path = tmp_path / "mysql-bin.000001"
    for cut, says in (
        (1, f"ends at {len(data) - 1} inside an event: 26 of the 27 bytes of XID (16) at {begin}"),
        (20, f"ends at {begin + 7} inside an event's header: 7 bytes at {begin}"),
        (27, f"ends at {begin} inside a transaction"),
    ):
        path.write_bytes(data[:-cut])
        files = BinlogFiles([path], TableName)
        assert sum(int(chunk.headers["rows"].sum()) for chunk in files) == 2
        (tail,) = files.tails
        assert (tail.file, tail.offset, tail.size) == (path.name, begin, 27 - cut)
        assert f"{path.name} is marked in use and {says}." in str(tail)
        assert tail.in_transaction


def test_a_file_in_use_that_ends_between_transactions_has_no_tail(tmp_path):
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(three_rows("5.5.62", None))
    files = BinlogFiles([path], TableName)
    assert sum(int(chunk.headers["rows"].sum()) for chunk in files) == 3
    assert not files.tails


def test_positions_in_a_relay_log_are_not_contradictions(tmp_path):
    file = File("5.5.62", flags=IN_USE | RELAY).query("CREATE TABLE t (id INT)", log_pos=99_000)
    path = tmp_path / "relay-bin.000001"
    path.write_bytes(file.data[:-3])
    files = BinlogFiles([path], TableName)
    assert list(files) == []
    assert "inside an event: " in str(files.tails[0])
