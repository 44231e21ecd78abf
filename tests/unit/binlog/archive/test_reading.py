"""Starts in an archive, and the stream from there: what the server's own files give."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path

import pytest
from support.binlog.archived import KEYS, SERVER, boundaries, content, dump, recorded, refuse, written
from support.binlog.binlog_bytes import File, events_of
from support.defaults import chunk_limits

from canal_group.actors.shard.wiring import shard_source
from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.file_scan import POINT_BYTES
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.archive.points import parse_points
from canal_group.binlog.archive.reading.archive_packets import ArchivePackets
from canal_group.binlog.archive.reading.archived_file import archived_files
from canal_group.binlog.archive.reading.lookup import after_gtids, at_position, at_time
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.binlog.files.files_reader import listed
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.server.binlog_stream import BinlogStream
from canal_group.binlog.server.clock import SourceClock
from canal_group.binlog.server.low_watermarks import LowWatermarks
from canal_group.conf.load import build_instance
from canal_group.merge.errors import PositionPurged, PositionRefused, SourceUnavailable, UsageError
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position

SHARDS = ("shop-0", "shop-1")
RECORDED = Path(__file__).parents[4] / "programs" / "demo" / "recorded"


def headers_of(chunks):
    """Return begin, end, commit time and file of whole transactions."""
    return [
        (
            chunk.names[int(each["file"])],
            int(each["begin_offset"]),
            int(each["end_offset"]),
            int(each["commit_us"]),
        )
        for chunk in chunks
        for each in chunk.headers
        if each["flags"] & Flag.END
    ]


def rows_of(chunks):
    """Return the rows of each table in their order: where chunks end may differ."""
    rows = defaultdict(list)
    for chunk in chunks:
        for table in chunk.tables:
            rows[table.name] += [row["after"] for row in table.rows.to_pylist()]
    return rows


def transactions(shard):
    return headers_of(BinlogFiles(files_in(RECORDED / shard), TableName))


def stream_of(history, position):
    packets = ArchivePackets(history, position)
    low_watermarks = LowWatermarks(lambda: SourceClock(0, 0, lambda: 0), margin_us=0)
    return BinlogStream("s1", packets, Decoding(TableName, chunk_limits()), low_watermarks)


def read(history, position):
    """Return the chunks of a stream from a position to the archive's end."""
    stream, chunks = stream_of(history, position), []
    stream.begin()
    try:
        for item in stream:
            chunks.append(item)  # noqa: PERF402 - those before the error
    except SourceUnavailable:
        stream.close()
        return chunks
    raise AssertionError("it ends")


@pytest.fixture(scope="module", params=[(shard, keys) for shard in SHARDS for keys in (None, KEYS)])
def archive(request, tmp_path_factory):
    shard, keys = request.param
    options = {} if keys is None else {"keys": keys}
    made = written(tmp_path_factory.mktemp("archive"), recorded(shard), **options)
    made.shard = shard
    return made


def test_a_stream_of_an_archive_gives_what_the_files_give(archive):
    (history,) = archive.histories(SERVER)
    first = history.manifest.files[0].name
    chunks = read(history, Position(first, 4))
    expected = list(BinlogFiles(files_in(RECORDED / archive.shard), TableName))
    assert headers_of(chunks) == headers_of(expected)
    assert rows_of(chunks) == rows_of(expected)


def test_a_reader_begins_at_any_transaction(archive):
    histories = archive.histories(SERVER)
    whole = transactions(archive.shard)
    for index in range(0, len(whole), 9):
        file, begin, _, _ = whole[index]
        history, position = at_position(histories, Position(file, begin, server=SERVER))
        assert headers_of(read(history, position)) == whole[index:]


def test_a_position_inside_an_event_is_refused(archive):
    histories = archive.histories(SERVER)
    file, begin, _, _ = transactions(archive.shard)[5]
    with pytest.raises(PositionRefused, match=f"inside the event at {begin:,}"):
        at_position(histories, Position(file, begin + 7))
    with pytest.raises(PositionRefused):
        at_position(histories, Position(file, 1 << 30))
    with pytest.raises(PositionPurged, match="does not hold"):
        at_position(histories, Position("mysql-bin.000001", 4))
    with pytest.raises(PositionPurged):
        at_position(histories, Position(file, begin, created_s=4711))


def test_a_gtid_set_leads_to_the_first_transaction_that_is_not_in_it(archive):
    histories = archive.histories(SERVER)
    whole = transactions(archive.shard)
    for index in range(1, len(whole), 11):
        file, begin, _, _ = whole[index]
        history, at = at_position(histories, Position(file, begin))
        assert after_gtids(histories, at.gtid_set)[1] == at
        assert headers_of(read(history, at)) == whole[index:]
    last = histories[0].scan(histories[0].manifest.files[-1])
    _, end = after_gtids(histories, last.gtids())
    assert (end.file, end.offset) == (last.file, last.offset)
    with pytest.raises(PositionPurged):
        after_gtids(histories, parse_gtid_set("77-1-1" if archive.shard == "shop-0" else ""))


def test_a_set_with_holes_is_refused(tmp_path):
    archive = written(tmp_path, recorded("shop-1"))
    source = "1c355853-e502-11f1-8838-02fc00000001"
    with pytest.raises(PositionRefused, match="has later ones"):
        after_gtids(archive.histories(SERVER), parse_gtid_set(f"{source}:1-20:30"))


def test_a_time_leads_to_the_first_transaction_committed_since(archive):
    histories = archive.histories(SERVER)
    whole = transactions(archive.shard)
    times = [commit_us for *_, commit_us in whole]
    for time_us in sorted({*times[::7], times[-1]}):
        index = next(i for i, each in enumerate(times) if each >= time_us)
        _, position = at_time(histories, time_us)
        assert (position.file, position.offset) == whole[index][:2]
    _, position = at_time(histories, times[-1] + 10_000_000)
    assert position.offset == len(recorded(archive.shard)[whole[-1][0]])
    with pytest.raises(PositionPurged, match="was committed at"):
        at_time(histories, 1_000_000)


def test_an_index_is_made_again(tmp_path):
    archive = written(tmp_path, recorded())
    (history,) = archive.histories()
    entry = history.manifest.files[0]
    points = history.points(entry)
    index = history.index_path(entry)
    stored = index.read_bytes()
    for broken in (None, stored[:-5], stored.replace(b"1", b"2"), b""):
        index.unlink() if broken is None else index.write_bytes(broken)
        assert history.points(entry) == points


def test_files_shards_read_an_archive(archive, tmp_path):
    key_file = tmp_path / "archive.key"
    key_file.write_text("6b" * 32)
    key_file.chmod(0o600)
    shard = {"name": "s1", "files": str(archive.folder), "key_file": str(key_file)}
    settings = build_instance({"preset": "memory", "destination": "shop", "shards": [shard]}, folder=tmp_path)
    source = shard_source(settings, settings.shards[0])
    files = listed(source.files, source.key_file)
    assert [file.name for file in files] == list(recorded(archive.shard))
    assert headers_of(BinlogFiles(files, TableName)) == transactions(archive.shard)
    (history,) = archive.histories()
    assert [f.name for f in archived_files(history.folder, key_file)] == [f.name for f in files]


def test_an_open_file_ends_at_its_last_transaction(tmp_path):
    """A file that is written is read up to there, though more of it is on the disk."""
    files = recorded()
    first = next(iter(files))
    events = dump({first: files[first]})
    whole = sorted(boundaries(files[first]))
    cut = next(n for n in range(40, 60) if 4 + len(b"".join(events[1:n])) not in whole)
    writer = ArchiveWriter(Archive(Disk(), tmp_path), SERVER, sync_s=0, say=refuse)
    writer.append(b"".join(events[:cut]), 0.0)
    end = 4 + len(b"".join(events[1:cut]))
    (file,) = listed(str(tmp_path))
    assert file.open("rb", 0).read() == files[first][: whole[bisect_left(whole, end) - 1]]


def test_two_histories_are_not_one_source(tmp_path):
    written(tmp_path, recorded("shop-0"))
    written(tmp_path, recorded("shop-1"), server="102")
    with pytest.raises(UsageError, match="2 histories"):
        listed(str(tmp_path))


def test_a_reader_follows_what_is_written(tmp_path):
    """It goes from the open file to the next one, while the first is compressed."""
    files = recorded()
    writer = ArchiveWriter(Archive(Disk(), tmp_path), SERVER, sync_s=0, say=refuse)
    events = dump(files)
    writer.append(b"".join(events[:3]), 0.0)
    packets = ArchivePackets(
        Archive(Disk(), tmp_path).histories()[0],
        Position(next(iter(files)), 4),
        follow=lambda _at_rest, _waited_s: True,
    )
    found = []

    def collect():
        while True:
            event = packets.take()
            if event is not None:
                found.append(event)
                continue
            try:
                packets.fill()
            except SourceUnavailable:
                return

    thread = threading.Thread(target=collect)
    thread.start()
    for some in itertools.batched(events[3:], 20) if hasattr(itertools, "batched") else [events[3:]]:
        writer.append(b"".join(some), 0.0)
        writer.upkeep.pack(1)
    expected = [event for data in files.values() for event in events_of(data)]
    for _ in range(600):
        if len(found) >= len(expected) + 2:
            break
        thread.join(0.05)
    packets.interrupt()
    thread.join(20)
    packets.close()
    assert [event for event in found if not event[17] & 0x20] == expected


@pytest.fixture(scope="module")
def large():
    file = File("8.0.36", checksum=True)
    while len(file.data) < 5 * POINT_BYTES:
        file.query("BEGIN").query("INSERT INTO t VALUES ('" + "x" * 60_000 + "')").xid()
    return file.data


def test_a_start_in_a_large_file_reads_one_frame(large, tmp_path):
    files = {"mysql-bin.000001": large, "mysql-bin.000002": File("8.0.36", checksum=True).data}
    archive = written(tmp_path, files)
    (history,) = archive.histories()
    assert len(history.points(history.manifest.files[0])) == 5
    begin = sorted(boundaries(large))[60]
    found, position = at_position(archive.histories(), Position("mysql-bin.000001", begin))
    source = found.open("mysql-bin.000001")
    assert source.read_at(position.offset, 100) == large[begin : begin + 100]
    assert source.unpacked == 1
    assert content(history, "mysql-bin.000001") == large


def test_an_open_file_has_an_index_of_what_is_durable(large, tmp_path):
    archive = written(tmp_path, {"mysql-bin.000001": large})
    (history,) = archive.histories()
    (entry,) = history.manifest.files
    assert (entry.state, entry.size) == (State.OPEN, len(large))
    stored = parse_points((history.index_path(entry)).read_bytes(), entry.size)
    assert stored == history.points(entry) == history.scan(entry).points
    assert len(stored) == 5
    (file,) = listed(str(tmp_path))
    assert file.open("rb", 0).read() == large
    begin = sorted(boundaries(large))[60]
    assert at_position([history], Position(entry.name, begin))[1].offset == begin
