"""Streams from the window, the archive and the source in turn give what one file after the other gives."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from types import SimpleNamespace

import pytest
from support.binlog.archived import SERVER, boundaries, dump, options_of, recorded, refuse, written
from support.binlog.binlog_bytes import MAGIC, events_of
from support.defaults import address_of, chunk_limits

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.reading.archive_packets import ArchivePackets
from canal_group.binlog.archive.reading.lookup import at_position
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.binlog.files.binlog_files import BinlogFiles, files_in
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.server.binlog_stream import BinlogStream, resume_after
from canal_group.binlog.server.clock import SourceClock
from canal_group.binlog.server.dump import archive_first
from canal_group.binlog.server.dump.archive_first import search_packets
from canal_group.binlog.server.dump.own_dump import OwnDump
from canal_group.binlog.server.dump_server.shared_dump import SharedDump
from canal_group.binlog.server.dump_server.wire import packets_of
from canal_group.binlog.server.low_watermarks import LowWatermarks
from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.starts import stream_start
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.errors import DataError, SourceUnavailable
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.header import Flag
from canal_group.merge.values.position import Position

SHARDS = ("shop-0", "shop-1")
ROWS_MAX = 40
#: a server that has sent all it has is waited for so long, seconds
WAIT_S = 0.2


def keys_of(chunks):
    """Return file, begin, end, and first and last row of the headers; parts of a transaction are one."""
    found = []
    for chunk in chunks:
        for each in chunk.headers:
            file, begin, end = (
                chunk.names[int(each["file"])],
                int(each["begin_offset"]),
                int(each["end_offset"]),
            )
            whole = bool(each["flags"] & Flag.END)
            if found and found[-1][:2] == (file, begin):
                assert not found[-1][3], "no transaction comes twice"
                assert found[-1][4] == int(each["row_begin"]), "no row comes twice, or is missing"
                found.pop()
            found.append((file, begin, end if whole else 0, whole, int(each["row_end"])))
    return found


class Served:
    """Sends a dump of files from a position on, as the source or a dump server does."""

    def __init__(self, files, position, *, numbered=True):
        self.ours, self.theirs = socket.socketpair()
        self.thread = threading.Thread(target=self.send, args=(self.theirs, dump(files, position), numbered))
        self.thread.start()

    @staticmethod
    def send(sock, events, numbered):
        number = 1
        with contextlib.suppress(OSError):
            for event in events:
                packet = bytearray(packets_of(b"\0" + event))
                packet[3] = number if numbered else 0
                sock.sendall(packet)
                number = (number + 1) % 256

    def close(self):
        self.ours.close()
        self.thread.join(10)
        self.theirs.close()


def stream_of(packets, rows_max=ROWS_MAX):
    low_watermarks = LowWatermarks(lambda: SourceClock(0, 0, lambda: 0), margin_us=0)
    limits = chunk_limits(rows_max=rows_max)
    return BinlogStream("s1", packets, Decoding(TableName, limits), low_watermarks, linger_s=0.0)


def chunks_of(stream, count=None):
    """Return the next chunks of a stream, up to its end."""
    chunks = []
    try:
        stream.begin()
        for item in stream:
            chunks.append(item)
            if len(chunks) == count:
                break
    except SourceUnavailable:
        pass
    stream.close()
    return chunks


@pytest.fixture(scope="module", params=SHARDS)
def shard(request):
    return request.param


@pytest.fixture(scope="module")
def whole(shard):
    from support.binlog.archived import RECORDED

    return keys_of(BinlogFiles(files_in(RECORDED / shard), TableName))


@pytest.fixture(scope="module")
def archive(shard, tmp_path_factory):
    return written(tmp_path_factory.mktemp("archive"), recorded(shard))


@pytest.mark.parametrize("seed", range(6))
def test_streams_in_turn_are_one_stream(shard, whole, archive, seed):
    """The next stream begins at the position after the chunks that were taken, wherever it comes from."""
    chance, files, histories = random.Random(seed), recorded(shard), archive.histories(SERVER)
    position, chunks = Position(next(iter(files)), 4), []
    while (position.file, position.offset) != (whole[-1][0], whole[-1][2]):
        kind = chance.choice(["window", "archive", "source"])
        served = None
        if kind == "archive":
            history, begin = FromOffset(position).archived(histories)
            packets = ArchivePackets(history, begin, start=position)
        else:
            served = Served(files, position, numbered=kind == "source")
            reader = PacketReader(served.ours, WAIT_S, numbered=kind == "source")
            attachment = SimpleNamespace(packets=reader, position=position, close=served.ours.close)
            packets = (
                SharedDump("s1", attachment)
                if kind == "window"
                else OwnDump(address_of("s1", "db0"), FromOffset(position), reader)
            )
        taken = chunks_of(stream_of(packets), chance.randint(1, 5))
        if served is not None:
            served.close()
        if taken:
            chunks += taken
            position = resume_after(taken[-1])
    assert keys_of(chunks) == whole


class Cut:
    """An archive that ends somewhere, perhaps inside an event, and a source that has all."""

    def __init__(self, shard, folder, seed, monkeypatch, *, cut=None):
        self.chance, self.files, self.folder = random.Random(seed), recorded(shard), folder
        events = dump(self.files)
        cut = cut or self.chance.randrange(10, len(events) - 5)
        writer = ArchiveWriter(Archive(Disk(), folder), SERVER, sync_s=0, say=refuse)
        writer.append(b"".join(events[:cut]), 0.0)
        self.end = writer.position
        (self.history,) = Archive(Disk(), folder).histories()
        if seed % 2:
            with self.history.path(self.history.manifest.last).open("ab") as file:
                file.write(events[cut][:25])
        self.asked, self.servers = [], []
        monkeypatch.setattr(archive_first, "open_dump", self.open_dump)

    def open_dump(self, address, start, _server):
        self.asked.append((start.position.file, start.position.offset))
        self.servers.append(Served(self.files, Position(*start.file_offset)))
        return OwnDump(address, start, PacketReader(self.servers[-1].ours, WAIT_S))

    def packets(self, file, begin, until=None):
        created_s = self.history.manifest.entry(file).created_s
        start = FromOffset(Position(file, begin, created_s=created_s))
        return search_packets(address_of("s1", "db0", archive=options_of(self.folder)), start, SERVER, until)

    def search(self, file, begin):
        """Return the headers of a search from an offset to the source's end."""
        try:
            return keys_of(chunks_of(stream_of(self.packets(file, begin))))
        finally:
            for each in self.servers:
                each.close()


@pytest.mark.parametrize(("seed", "offset_max"), [(0, 1 << 32), (1, 1 << 32), (2, 4), (3, 4)])
def test_a_search_goes_on_at_the_source_at_any_end_of_an_archive(
    shard, whole, tmp_path, seed, offset_max, monkeypatch
):
    """Between two events, whether or not a transaction is open there, or inside of one.

    What is beyond the offsets that can be requested is sent from the beginning of the file on.
    """
    monkeypatch.setattr(stream_start, "OFFSET_MAX", offset_max)
    cut = Cut(shard, tmp_path, seed, monkeypatch)
    end = cut.end.file, cut.end.offset
    file, begin = cut.chance.choice([each for each in whole if each[:2] <= end][:-1])[:2]
    assert cut.search(file, begin) == [each for each in whole if each[:2] >= (file, begin)]
    assert cut.asked == [end]


def test_a_search_ends_where_the_archive_has_all_of_it(shard, whole, tmp_path, monkeypatch):
    """Then the source is as good as idle: it is not asked."""
    cut = Cut(shard, tmp_path, 1, monkeypatch)
    end = cut.end.file, cut.end.offset
    packets = cut.packets(*whole[0][:2], until=end)
    while (event := packets.take()) != b"":
        if event is None:
            packets.fill()
    assert (packets.idle_us(b"", None) or 0) > 0
    assert (packets._archive.read_to, cut.asked) == (end, [])
    packets.close()


@pytest.mark.parametrize("made", [False, True])
def test_a_search_goes_on_where_the_next_file_has_just_been_begun(shard, whole, tmp_path, made, monkeypatch):
    """The manifest names it, and it is not on the disk yet, or without its description."""
    first, data = next(iter(recorded(shard).items()))
    cut = Cut(shard, tmp_path, 0, monkeypatch, cut=len(events_of(data)) + 3)
    path = cut.history.path(cut.history.manifest.last)
    path.unlink()
    if made:
        path.write_bytes(MAGIC)
    assert cut.search(*whole[0][:2]) == whole
    assert cut.asked == [(first, len(data))]


def test_a_search_does_not_go_on_in_another_binlog(shard, whole, tmp_path, monkeypatch):
    """The source was reset: it has another file of this name."""
    cut = Cut(shard, tmp_path, 0, monkeypatch)
    monkeypatch.setattr(ArchivePackets, "created_s", property(lambda _: 4711, lambda *_: None), raising=False)
    with pytest.raises(DataError, match="was created at"):
        cut.search(*whole[0][:2])


def test_every_transaction_of_an_archive_is_a_start(shard, whole, archive):
    histories = archive.histories(SERVER)
    for index in range(0, len(whole), 17):
        position = Position(*whole[index][:2])
        history, begin = at_position(histories, position)
        assert keys_of(chunks_of(stream_of(ArchivePackets(history, begin)))) == whole[index:]
    assert boundaries(recorded(shard)[whole[0][0]])
