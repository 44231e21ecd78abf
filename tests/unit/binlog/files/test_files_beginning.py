"""A start of a shard that reads files: a time means the same as on a server."""

from __future__ import annotations

import datetime as dt
import shutil

import numpy as np
import pytest

from canal_group.binlog.files.beginning import beginning
from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.merge.errors import CorruptEvent, PositionPurged, SourceUnfit
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.header import Flag
from canal_group.merge.values.start import After, At, InFile, parse_shard_start
from canal_group.programs.demo.recorded_shards import recorded_shards

SHARDS = {each.record.gtid_source[-1]: each for each in recorded_shards()[:2]}
SECOND_US = 1_000_000


@pytest.fixture(params=sorted(SHARDS), ids=lambda end: {"-": "mariadb", ":": "mysql"}[end])
def files(request, tmp_path):
    """The two files of a recorded shard, in a folder of the test's own."""
    for file in SHARDS[request.param].folder.glob("mysql-bin.*"):
        shutil.copy(file, tmp_path)
    return files_in(tmp_path)


def at(files, time_us, stopped=lambda: False):
    return beginning(At(time_us), "s0", "log", files, stopped)


def read(files, start=None):
    """Return commit times (in the time's own unit), and numbers, of the transactions from a position on."""
    rest = [path for path in files if start is None or path.name >= start.file]
    reader = BinlogFiles(rest, TableName, start=start)
    headers = [chunk.headers[chunk.headers["flags"] & Flag.END > 0] for chunk in reader]
    ends = (
        np.concatenate(headers)
        if headers
        else np.empty(0, dtype=[("commit_us", "i8"), ("gtid_number", "i8")])
    )
    return ends["commit_us"].tolist(), ends["gtid_number"].tolist(), reader.whole_seconds


def last_number(gtid_set):
    """Return the number of the last transaction in the set of a recorded shard: "0-101-7" or "uuid:1-7"."""
    return int(str(gtid_set).rpartition("-")[2])


def test_a_time_begins_at_the_first_transaction_committed_at_or_after_it(files):
    commits, numbers, whole_seconds = read(files)
    for time_us in sorted({each + more for each in {*commits[::9], commits[-1]} for more in (-1, 0, 1)}):
        if time_us < commits[0]:
            continue
        least_us = time_us - time_us % SECOND_US if whole_seconds else time_us
        first = next((index for index, each in enumerate(commits) if each >= least_us), len(commits))
        position = at(files, time_us)
        assert read(files, position)[1] == numbers[first:], "all from there on, and nothing before"
        assert last_number(position.gtid_set) == numbers[0] - 1 + first, "the GTIDs of all before it"
        # What is before the scanned file was not read.
        assert position.commit_us in ({0, commits[first - 1]} if first else {0})
        assert position.created_s == read_created(files, position.file)


def read_created(files, name):
    reader = BinlogFiles([path for path in files if path.name == name], TableName)
    list(reader)
    return reader.created[name]


def test_after_all_of_them_it_begins_at_the_end(files):
    commits, numbers, _ = read(files)
    position = at(files, commits[-1] + 10 * SECOND_US)
    assert read(files, position)[1] == []
    assert (position.file, position.commit_us) == (files[-1].name, commits[-1])
    assert last_number(position.gtid_set) == numbers[-1]


def test_only_the_files_from_the_time_on_are_read(files):
    """The first file is damaged, which only a start within it reports."""
    commits, numbers, _ = read(files)
    second_s = read_created(files, files[1].name)
    files[0].write_bytes(b"no binlog")
    position = at(files, (second_s + 1) * SECOND_US)
    assert read(files, position)[1] == [
        number for number, each in zip(numbers, commits, strict=True) if each >= (second_s + 1) * SECOND_US
    ]
    with pytest.raises(CorruptEvent):
        at(files, second_s * SECOND_US)


def test_a_file_that_does_not_say_when_it_was_created_is_passed_over(files):
    """Nobody knows whether it was created before the time: the scan begins in an earlier one."""
    time_us = read_created(files, files[1].name) * SECOND_US
    commits, numbers, _ = read(files)
    unknown = bytearray(files[1].read_bytes())
    unknown[4:8] = bytes(4)
    files[1].write_bytes(unknown)
    position = at(files, time_us)
    before = sum(each < time_us for each in commits)
    assert (position.file, last_number(position.gtid_set)) == (files[0].name, numbers[0] - 1 + before)


def test_a_time_before_the_oldest_file_needs_the_servers_first_file(files):
    created_s = read_created(files, files[0].name)
    shown = f"{dt.datetime.fromtimestamp(created_s, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    with pytest.raises(
        PositionPurged, match=f"the oldest, {files[0].name}, was created at {shown}"
    ) as caught:
        at(files, (created_s - 1) * SECOND_US)
    assert caught.value.details["oldest_file"] == files[0].name
    first = files[0].with_name("mysql-bin.000001")
    files[0].rename(first)
    assert at([first], (created_s - 1) * SECOND_US).offset > 4
    assert read([first], at([first], (created_s - 1) * SECOND_US))[1] == read([first])[1]


def test_a_scan_can_be_given_up(files):
    assert at(files, read(files)[0][-1], stopped=lambda: True) is None


@pytest.mark.parametrize("text", ["latest", "0-1-42"])
def test_what_only_a_server_finds_is_refused(files, text):
    start = parse_shard_start(text, 0)
    assert start == "latest" or isinstance(start, After)
    with pytest.raises(SourceUnfit, match="Shard s0 reads files") as caught:
        beginning(start, "s0", "log", files, lambda: False)
    assert "a time" in caught.value.hint


def test_a_file_that_is_not_there_is_named(files):
    with pytest.raises(PositionPurged, match=r"log does not hold mysql-bin\.000001"):
        beginning(InFile("mysql-bin.000001", 4), "s0", "log", files, lambda: False)
