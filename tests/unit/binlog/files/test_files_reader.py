"""Files as a shard's source: their order, their end, what is missing, and what comes later."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import shutil
import threading
import time

import pytest
from support.binlog.binlog_bytes import events_of
from support.defaults import chunk_limits, files_source

from canal_group.binlog.files.files_reader import FilesReader
from canal_group.binlog.server.listener import position_after
from canal_group.merge.errors import CanalGroupError, CorruptEvent, PositionPurged, SourceUnfit
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.commit_time import END_OF_TIME_US
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position
from canal_group.programs.demo.recorded_shards import recorded_shards

DEADLINE_S = 20.0
#: low byte of a format description's flags while its server writes the file
IN_USE = b"\x01"
#: a time after everything that was recorded
RECORDED_BEFORE_NS = 2_000_000_000 * 10**9
SHARDS = {each.record.gtid_source[-1]: each for each in recorded_shards()[:2]}


@pytest.fixture(params=sorted(SHARDS), ids=lambda end: {"-": "mariadb", ":": "mysql"}[end])
def shard(request, tmp_path):
    """A recorded shard, its two files copied into a folder of the test's own."""
    recorded = SHARDS[request.param]
    for file in recorded.folder.glob("mysql-bin.*"):
        shutil.copy(file, tmp_path)
    return recorded


class RecordingListener:
    """A listener that records its calls."""

    def __init__(self):
        self.opened_at, self.chunks, self.low_watermarks, self.waits = [], [], [], []

    def opened(self, position):
        self.opened_at.append(position)

    def chunk_read(self, chunk):
        self.chunks.append(chunk)

    def reached(self, position):
        raise AssertionError(f"files are not watched: {position}")

    def caught_up(self, frontier_us):
        self.low_watermarks.append(frontier_us)

    def connected(self, skew_us, server_version):
        assert (skew_us, server_version) == (0, "files")

    def disconnected(self, error, retry_after_s):
        assert retry_after_s > 0
        self.waits.append(error)

    @property
    def rows(self):
        return sum(int(chunk.headers["rows"].sum()) for chunk in self.chunks)

    @property
    def transactions(self):
        return [
            int(n)
            for chunk in self.chunks
            for n in chunk.headers["gtid_number"][chunk.headers["flags"] & Flag.END > 0]
        ]


@contextlib.contextmanager
def reading(files, start=None, limits=None, begin="earliest", **options):
    """Read files on a thread; leaving stops it and raises its error."""
    listener, errors = RecordingListener(), []
    source = files_source("s0", str(files), **options)
    reader = FilesReader(source, TableName, limits or chunk_limits(), listener, begin=begin)

    def run():
        try:
            reader.run(start)
        except CanalGroupError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    listener.wait_for = lambda condition: _wait(lambda: errors or condition())
    thread.start()
    try:
        yield listener
    finally:
        listener.position, listener.created = reader.position, reader.created
        reader.stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the reader stops"
    if errors:
        raise errors[0]


def _wait(condition):
    deadline_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while not condition():
        assert time.monotonic() < deadline_s
        pause.wait(0.01)


def read_all(files, start=None, **options):
    with reading(files, start, **options) as record:
        record.wait_for(lambda: record.low_watermarks)
    return record


@pytest.mark.parametrize("pattern", ["", "mysql-bin.*", "mysql-bin.00000?"])
def test_a_folder_or_a_pattern_is_read_to_its_end_and_says_so(shard, tmp_path, pattern):
    record = read_all(tmp_path / pattern)
    assert record.low_watermarks == [END_OF_TIME_US]
    assert record.rows == shard.record.rows
    first = shard.record.first
    assert record.transactions == list(range(first, first + len(shard.record.transactions)))
    (opened,) = record.opened_at
    assert (opened.file, opened.offset) == ("mysql-bin.000002", 4)
    source = shard.record.gtid_source
    before = f"1-{first - 1}" if source.endswith(":") else str(first - 1)
    assert str(opened.gtid_set) == f"{source}{before}"
    assert str(record.position.gtid_set).endswith(str(record.transactions[-1]))


def test_one_file_is_a_source_of_its_own(shard, tmp_path):
    both = [read_all(tmp_path / f"mysql-bin.00000{number}") for number in (2, 3)]
    assert sum(record.rows for record in both) == shard.record.rows


def test_a_reader_goes_on_from_any_chunk(shard, tmp_path):
    """Each chunk's end, also inside the large transaction, is a position from which the rest comes."""
    limits = chunk_limits(rows_max=20)
    whole = read_all(tmp_path, limits=limits)
    read = 0
    position = whole.opened_at[0]
    for chunk in whole.chunks:
        position = position_after(position, chunk, "", whole.created)
        read += int(chunk.headers["rows"].sum())
        assert read_all(tmp_path, position, limits=limits).rows == whole.rows - read
    assert position == whole.position


def test_it_begins_at_a_time(shard, tmp_path, monkeypatch):
    """A time must not be in the future, and this machine's clock may be before the recording."""
    monkeypatch.setattr(time, "time_ns", lambda: RECORDED_BEFORE_NS)
    whole = read_all(tmp_path)
    commits = [int(each) for chunk in whole.chunks for each in chunk.headers["commit_us"]]
    time_s = commits[-1] // 1_000_000
    record = read_all(tmp_path, begin=dt.datetime.fromtimestamp(time_s, dt.UTC).isoformat())
    late = sum(each >= time_s * 1_000_000 for each in commits)
    assert 0 < late < len(whole.transactions)
    assert record.transactions == whole.transactions[-late:]
    assert record.position == whole.position


def test_following_waits_for_the_next_file_and_for_the_last_to_grow(shard, tmp_path):
    """1. half of the first file; 2. the other half; 3. the next file but one; 4. the next one."""
    first, second = (tmp_path / f"mysql-bin.00000{number}" for number in (2, 3))
    whole, half = first.read_bytes(), first.stat().st_size // 2
    parts = {number: read_all(path).rows for number, path in ((2, first), (3, second))}
    later = tmp_path / "mysql-bin.000004"
    second.rename(later)
    # In use, as it is while a server writes it: a half that ends inside an event is not damage.
    first.write_bytes(whole[:21] + IN_USE + whole[22:half])
    with reading(tmp_path, follow=True) as record:
        record.wait_for(lambda: record.rows)
        assert record.rows < parts[2]
        first.write_bytes(whole)
        record.wait_for(lambda: record.rows == parts[2])
        later.rename(second)
        record.wait_for(lambda: record.rows == shard.record.rows)
    assert not record.low_watermarks
    assert record.rows == shard.record.rows


def test_following_it_waits_for_the_first_file(shard, tmp_path):
    folder = tmp_path / "later"
    folder.mkdir()
    with reading(folder, follow=True) as record:
        record.wait_for(lambda: record.waits)
        for number in (2, 3):
            (tmp_path / f"mysql-bin.00000{number}").rename(folder / f"mysql-bin.00000{number}")
        record.wait_for(lambda: record.rows == shard.record.rows)
    assert record.rows == shard.record.rows


def test_what_cannot_be_a_source_is_refused_with_a_sentence(shard, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for files in (empty, tmp_path / "nothing.*"):
        with pytest.raises(SourceUnfit, match="cannot be used"):
            read_all(files)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(tmp_path / "mysql-bin.000002", tmp_path / name)
    with pytest.raises(SourceUnfit, match="binlogs of 2 folders"):
        read_all(tmp_path / "*" / "mysql-bin.*")
    with pytest.raises(PositionPurged, match=r"does not hold mysql-bin\.000001") as caught:
        read_all(tmp_path, Position("mysql-bin.000001", 4))
    assert caught.value.details["oldest_file"] == "mysql-bin.000002"
    positions = {name: json.loads(caught.value.details[name]) for name in ("earliest", "latest")}
    assert (positions["earliest"]["file"], positions["earliest"]["offset"]) == ("mysql-bin.000002", 4)
    assert positions["latest"]["file"] == "mysql-bin.000003"
    with pytest.raises(PositionPurged) as missing:
        read_all(tmp_path, Position("mysql-bin.000009", 4))
    assert "earliest" not in missing.value.details, "it was never there: that is not a purge"
    (tmp_path / "mysql-bin.000003").rename(tmp_path / "mysql-bin.000004")
    with pytest.raises(SourceUnfit, match=r"between mysql-bin\.000002 and mysql-bin\.000004"):
        read_all(tmp_path)


def test_files_that_end_inside_a_transaction_that_was_handed_over_in_part(tmp_path):
    shutil.copy(SHARDS["-"].folder / "mysql-bin.000003", tmp_path / "mysql-bin.000003")
    path = tmp_path / "mysql-bin.000003"
    whole = path.read_bytes()
    with reading(path, limits=chunk_limits(rows_max=20)) as record:
        record.wait_for(lambda: record.low_watermarks)
    (fragment, *_) = (h for chunk in record.chunks for h in chunk.headers if not int(h["flags"]) & Flag.END)
    path.write_bytes(whole[:21] + IN_USE + whole[22 : int(fragment["end_offset"]) + 5])
    with pytest.raises(CorruptEvent, match="end inside the transaction"):
        read_all(path, limits=chunk_limits(rows_max=20))


def test_a_tail_that_is_left_out_is_logged(shard, tmp_path, caplog):
    path = tmp_path / "mysql-bin.000003"
    whole = path.read_bytes()
    path.write_bytes(whole[:21] + IN_USE + whole[22:-5])
    assert read_all(tmp_path).low_watermarks == [END_OF_TIME_US]
    (logged,) = caplog.records
    begin = f"mysql-bin.000003 is marked in use and ends at {len(whole) - 5} inside"
    assert logged.getMessage().startswith(begin)
    assert logged.shard == "s0"


@pytest.mark.parametrize("follow", [False, True])
def test_a_damaged_length_in_an_open_file_is_not_an_unfinished_tail(shard, tmp_path, follow):
    """The event seems to reach beyond the file's end: the shard stops there, after the rows before."""
    path = tmp_path / "mysql-bin.000002"
    whole = bytearray(path.read_bytes())
    last = len(whole) - sum(map(len, events_of(bytes(whole))[-3:]))
    whole[21] |= IN_USE[0]
    whole[last + 10] ^= 32
    path.write_bytes(whole)
    (tmp_path / "mysql-bin.000003").unlink()
    with (
        pytest.raises(CorruptEvent, match=rf"\(.* at mysql-bin\.000002:{last}\)") as caught,
        reading(path, follow=follow) as record,
    ):
        record.wait_for(lambda: record.low_watermarks)
    assert (caught.value.details["file"], caught.value.details["offset"]) == (path.name, last)
    assert record.rows
    assert not record.low_watermarks
