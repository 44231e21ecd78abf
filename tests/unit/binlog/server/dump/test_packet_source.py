"""A stream over a source of packets that no module of ours has: a file, as an archive of binlogs may be."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from support.defaults import chunk_limits

from canal_group.binlog.files.binlog_files import BinlogFiles
from canal_group.binlog.formats.events import CHECKSUM_NONE, MAGIC
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.native.file_events import FileBuffer
from canal_group.binlog.server import binlog_stream
from canal_group.binlog.server.binlog_stream import BinlogStream
from canal_group.binlog.server.clock import SourceClock
from canal_group.binlog.server.low_watermarks import CaughtUp, LowWatermarks
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.chunk import Chunk, TableName
from canal_group.merge.values.position import Position

FIXTURE = Path(__file__).parents[4] / "fixtures" / "mysql-9.7.4" / "all_types.binlog"
NOW_US = 1_800_000_000_000_000


class Archive:
    """The events of one file; at its end it says that its source has no more, and then that it has ended."""

    checksum = CHECKSUM_NONE

    def __init__(self, path):
        self.start = Position(path.name, len(MAGIC))
        self.file_offset = path.name, len(MAGIC)
        self.buffer = FileBuffer()
        self.read_bytes = 0
        self.file = path.open("rb", buffering=0)
        self.file.read(len(MAGIC))
        self.ended = False

    def take(self):
        event = self.buffer.take()
        return b"" if event is None and self.ended else event

    def readable(self, _wait_s):
        return True

    def let_arrive(self, _wait_s):
        raise NotImplementedError

    def fill(self):
        self.buffer.make_room()
        size = self.file.readinto(self.buffer)
        self.buffer.received(size)
        self.read_bytes += size
        self.ended = not size

    def note_empty(self):
        raise NotImplementedError

    def idle_us(self, event, _reached):
        return None if event else NOW_US

    def interrupt(self):
        raise SourceUnavailable("It has ended.")

    def close(self):
        self.file.close()


class Dripping(Archive):
    """Always has more, and little of it at a time."""

    def fill(self):
        self.buffer.make_room()
        part = self.file.read(64)
        with memoryview(self.buffer) as view:
            view[: len(part)] = part
        self.buffer.received(len(part))
        self.ended = not part


@pytest.mark.parametrize("busy", [True, False])
def test_a_source_that_never_pauses_is_handed_on_after_a_while(busy, monkeypatch):
    monkeypatch.setattr(binlog_stream, "BUSY_CHUNK_S", 0.0 if busy else 3_600.0)
    low_watermarks = LowWatermarks(lambda: SourceClock(0, 0, lambda: NOW_US), margin_us=0)
    decoding = Decoding(TableName, chunk_limits())
    stream = BinlogStream("s1", Dripping(FIXTURE), decoding, low_watermarks, linger_s=0.0)
    items = iter(stream)
    chunks = list(itertools.takewhile(lambda item: isinstance(item, Chunk), items))
    stream.close()
    (expected,) = BinlogFiles([FIXTURE], TableName)
    assert sum(len(chunk.headers) for chunk in chunks) == len(expected.headers)
    assert (len(chunks) > 1) == busy


def test_a_stream_reads_any_source_of_packets():
    archive = Archive(FIXTURE)
    decoding = Decoding(TableName, chunk_limits())
    low_watermarks = LowWatermarks(lambda: SourceClock(0, 0, lambda: NOW_US), margin_us=0)
    stream = BinlogStream("s1", archive, decoding, low_watermarks)
    stream.begin()
    items = iter(stream)
    chunk, end = next(items), next(items)
    stream.close()
    (expected,) = BinlogFiles([FIXTURE], TableName)
    assert chunk.headers.tolist() == expected.headers.tolist()
    assert [each.rows for each in chunk.tables] == [each.rows for each in expected.tables]
    assert end == CaughtUp(NOW_US)
    assert stream.file_offset == ("mysql-bin.000003", 4), "its last event says which file follows"
    assert stream.counts.read_bytes == FIXTURE.stat().st_size - len(MAGIC)
