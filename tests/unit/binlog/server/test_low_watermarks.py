"""When a stream may promise: over a real pair of sockets, with heartbeats sent at chosen moments."""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import struct
import threading
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.defaults import address_of, chunk_limits

from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.events import CHECKSUM_CRC32
from canal_group.binlog.grammar.decoding import Decoding
from canal_group.binlog.server.binlog_stream import LINGER_S, BinlogStream
from canal_group.binlog.server.clock import AGE_MAX_US, STALE_US, SourceClock
from canal_group.binlog.server.dump.own_dump import OwnDump
from canal_group.binlog.server.dump_server.shared_dump import SharedDump
from canal_group.binlog.server.dump_server.wire import notice
from canal_group.binlog.server.low_watermarks import CaughtUp, LowWatermarks
from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.starts.stream_start import AfterGtids, FromOffset
from canal_group.merge.errors import SourceUnavailable
from canal_group.merge.values.chunk import Chunk, TableName
from canal_group.merge.values.position import Position

FIXTURE = Path(__file__).parents[3] / "fixtures" / "mysql-9.7.4" / "all_types.binlog"
FILE = "mysql-bin.000003"
ADDRESS = address_of("s1", "db0")
MARGIN_US, UNCERTAINTY_US, SKEW_US = 50_000, 300, 7_000_000
NOON_US = 1_800_000_000_000_000


def fixture_events():
    data, at = FIXTURE.read_bytes(), 4
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 9)
        yield data[at : at + size]
        at += size


def heartbeat(log_pos=0):
    size = 19 + len(FILE) + 4
    event = struct.pack("<IBIIIH", 0, EventType.HEARTBEAT, 1, size, log_pos, 0) + FILE.encode()
    return event + struct.pack("<I", zlib.crc32(event))


class Packets(PacketReader):
    """Lingers for no time; what happens meanwhile, the source says."""

    def __init__(self, source):
        super().__init__(source.ours, 0.3, numbered=source.numbered)
        self.source = source

    def readable(self, wait_s=0.0):
        self.let_arrive(wait_s)
        return super().readable()

    def let_arrive(self, wait_s):
        if wait_s and self.source.when_lingering:
            self.source.when_lingering.pop(0)()


class Source:
    """The other end of the connection; `when_empty[n]` runs when the socket is found empty, in turn.

    Likewise `when_lingering[n]`, when more is waited for before a chunk goes out.
    """

    def __init__(self, sock):
        self.sock = sock
        self.number = 0
        self.numbered = True
        self.now_us = NOON_US
        self.measured = 0
        self.when_empty = []
        self.when_lingering = []
        self.timers = []

    def send(self, *events):
        data = b""
        for event in events:
            self.number += self.numbered
            data += (len(event) + 1).to_bytes(3, "little") + bytes([self.number % 256]) + b"\0" + event
        self.sock.sendall(data)

    def send_soon(self, *events):
        self.timers.append(threading.Timer(0.05, self.send, events))
        self.timers[-1].start()

    def moment_us(self):
        """Be the steady clock when the socket was found empty."""
        self.now_us += 1_000_000
        asked_us = self.now_us
        if self.when_empty:
            self.when_empty.pop(0)()
        return asked_us

    def clock(self):
        """Measure this source's clock, which is SKEW_US ahead of the steady one."""
        self.measured += 1
        return SourceClock(SKEW_US, UNCERTAINTY_US, lambda: self.now_us)


@pytest.fixture
def source():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        source = Source(theirs)
        source.ours = ours
        yield source
        for timer in source.timers:
            timer.join()


def items_of(source, *, by_gtid=False, withheld_us=0, shares_dump=False, linger_s=LINGER_S):
    """Return the items of a stream over the source, or over a dump server, until the source falls silent."""
    position = Position(FILE, 4)
    if shares_dump:
        attachment = SimpleNamespace(packets=Packets(source), position=position)
        dump = SharedDump("s1", attachment, clock_us=lambda: source.now_us)
        dump.checksum = CHECKSUM_CRC32
    else:
        start = AfterGtids(position) if by_gtid else FromOffset(position)
        dump = OwnDump(ADDRESS, start, Packets(source), checksum=CHECKSUM_CRC32, clock_us=source.moment_us)
    low_watermarks = LowWatermarks(source.clock, MARGIN_US, lambda: withheld_us)
    decoding = Decoding(TableName, chunk_limits())
    source.stream = stream = BinlogStream("s1", dump, decoding, low_watermarks, linger_s=linger_s)
    stream._flushed_s = -math.inf  # whatever the clock says: it counts from when the machine was started
    items = []
    with contextlib.suppress(SourceUnavailable):
        items.extend(iter(stream))
    return items


def frontier(seconds_after_noon):
    return NOON_US + seconds_after_noon * 1_000_000 + SKEW_US - MARGIN_US - UNCERTAINTY_US


FDE, PREVIOUS, *REST = fixture_events()


def test_only_the_dump_server_knows_when_its_source_was_idle(source):
    """1. nothing comes for long; 2. the dump server says when its socket was empty; 3. it is alive."""
    source.numbered = False
    source.send(FDE, PREVIOUS)
    said = notice(None) + notice(NOON_US - 9_000_000) + notice(NOON_US) + notice(None)
    source.timers.append(threading.Timer(0.05, source.sock.sendall, [said]))
    source.timers[-1].start()
    assert items_of(source, shares_dump=True) == [CaughtUp(frontier(0))]


def test_heartbeats_in_a_backlog_prove_nothing(source):
    source.send(FDE, PREVIOUS, heartbeat(), heartbeat())
    assert items_of(source) == []


def test_a_heartbeat_awaited_proves_the_moment_the_socket_was_empty(source):
    source.send(FDE, PREVIOUS)
    source.when_empty = [lambda: source.send_soon(heartbeat())]
    assert items_of(source) == [CaughtUp(frontier(1))]


def test_a_heartbeat_that_came_before_the_wait_proves_nothing(source):
    """The socket was found empty, but before the wait began something had come."""
    source.send(FDE, PREVIOUS)
    source.when_empty = [lambda: source.send(heartbeat()), lambda: source.send_soon(heartbeat())]
    assert items_of(source) == [CaughtUp(frontier(2))]


def test_low_watermarks_follow_a_clock_that_is_set_back(source):
    """The clock is set back by two seconds after the first promise: the next one is of its new time."""

    def set_back():
        source.now_us -= 2_000_000
        source.send_soon(heartbeat())

    source.send(FDE, PREVIOUS)
    source.when_empty = [set_back, lambda: source.send_soon(heartbeat())]
    first, second = items_of(source)
    assert first == CaughtUp(frontier(1))
    assert second.frontier_us < first.frontier_us


def test_a_clock_that_was_measured_long_ago_low_watermarks_nothing():
    """Whatever made it old: a sleep of the process, or a clock that jumps, in either direction."""
    moment_us = [NOON_US]
    clock = SourceClock(SKEW_US, UNCERTAINTY_US, lambda: moment_us[0])
    for away_us, made in ((AGE_MAX_US, True), (AGE_MAX_US + 1, False), (3600 * 1_000_000, False)):
        for sign in (1, -1):
            moment_us[0] = NOON_US + sign * away_us
            assert clock.stale
            made_of = LowWatermarks(lambda: clock, MARGIN_US).make(clock.now_us(), whole_seconds=False)
            assert (made_of is not None) is made


def test_a_clock_is_measured_again_long_before_it_expires():
    """A source's clock may be set at any time, and what it promises until that is noticed is false."""
    moment_us = [NOON_US]
    clock = SourceClock(SKEW_US, UNCERTAINTY_US, lambda: moment_us[0])
    for away_us, stale in ((0, False), (STALE_US, False), (STALE_US + 1, True)):
        for sign in (1, -1):
            moment_us[0] = NOON_US + sign * away_us
            assert clock.stale is stale


def test_a_step_of_the_time_of_day_changes_no_low_watermark(monkeypatch):
    clock = SourceClock(SKEW_US, UNCERTAINTY_US)
    before_us = clock.source_now_us()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    made = LowWatermarks(lambda: clock, MARGIN_US).make(clock.now_us(), whole_seconds=False)
    assert before_us <= made.frontier_us + MARGIN_US + UNCERTAINTY_US <= clock.source_now_us()


def test_an_old_clock_is_measured_before_a_low_watermark_is_made(source):
    """1. The socket is empty; 2. the process sleeps for an hour, and finds a heartbeat; 3. it measures, and
    what was found empty an hour ago proves nothing; 4. the next one does, by the new measurement.
    """

    def sleep():
        source.now_us += 3600 * 1_000_000
        source.send_soon(heartbeat())

    source.send(FDE, PREVIOUS)
    source.when_empty = [sleep, lambda: source.send_soon(heartbeat())]
    assert items_of(source) == [CaughtUp(frontier(3602))]
    assert source.measured == 2


def test_whole_seconds_are_promised_from_their_start(source):
    def stamp_seconds():
        source.stream._decoder.whole_seconds = True
        source.send_soon(heartbeat())

    source.send(FDE, PREVIOUS)
    source.when_empty = [stamp_seconds]
    assert frontier(1) % 1_000_000
    assert items_of(source) == [CaughtUp(frontier(1) // 1_000_000 * 1_000_000)]


@pytest.mark.parametrize("withheld_us", [1, 10_300_000, 3_600_000_000])
def test_what_replication_may_hide_is_withheld_to_the_start_of_a_second(source, withheld_us):
    """A commit at the origin just then may be stamped with the second."""
    source.send(FDE, PREVIOUS)
    source.when_empty = [lambda: source.send_soon(heartbeat())]
    earliest_us = frontier(1) - withheld_us
    assert items_of(source, withheld_us=withheld_us) == [CaughtUp(earliest_us - earliest_us % 1_000_000)]


def test_no_low_watermark_inside_a_transaction_and_rows_go_first(source):
    """1. Half a transaction and a heartbeat: no promise. 2. Its end: the chunk. 3. Then the promise."""
    create, rows = REST[:2], REST[2:]
    end = next(i for i, event in enumerate(rows) if event[4] == EventType.XID)
    source.send(FDE, PREVIOUS)
    source.when_empty = [
        lambda: source.send_soon(*create, *rows[:2], heartbeat(), *rows[2 : end + 1], heartbeat()),
    ]
    chunk, low_watermark = items_of(source)
    assert isinstance(chunk, Chunk)
    assert len(chunk.headers) == 2
    assert low_watermark == CaughtUp(frontier(1))


def test_by_gtid_a_heartbeat_after_what_was_passed_over_proves_nothing(source):
    """1. The source passes over 400 bytes, then more, and says so. 2. It says the same offset again: at rest.

    What came next after such a heartbeat could have been committed long before the socket was empty.
    """
    begin = 4 + len(FDE) + len(PREVIOUS)
    source.send(FDE, PREVIOUS)
    offsets = [begin + 400, begin + 900, begin + 900, begin + 900]
    source.when_empty = [lambda offset=offset: source.send_soon(heartbeat(offset)) for offset in offsets]
    assert items_of(source, by_gtid=True) == [CaughtUp(frontier(3)), CaughtUp(frontier(4))]
    assert source.stream._decoder.offset == begin + 900


def transactions():
    """Return the fixture's transactions, each as its events."""
    begins = [at for at, event in enumerate(REST) if event[4] in {EventType.GTID, EventType.ANONYMOUS_GTID}]
    return [REST[begin:end] for begin, end in itertools.pairwise([*begins, len(REST)])]


def test_what_follows_a_chunk_waits_a_moment_for_more(source):
    """The first transaction goes out at once; the second lingers, and takes along what comes meanwhile."""
    first, second, third, *_ = transactions()
    source.send(FDE, PREVIOUS, *first)
    source.when_empty = [lambda: source.send(*second)]
    source.when_lingering = [lambda: source.send(*third)]
    chunks = [item for item in items_of(source, linger_s=1.0) if isinstance(item, Chunk)]
    assert [len(chunk.headers) for chunk in chunks] == [1, 2]


def test_what_follows_a_chunk_goes_out_at_once_after_a_pause(source):
    first, second, *_ = transactions()
    source.send(FDE, PREVIOUS, *first)
    source.when_empty = [lambda: source.send(*second)]
    source.when_lingering = [lambda: pytest.fail("it lingered")]
    chunks = [item for item in items_of(source, linger_s=0.0) if isinstance(item, Chunk)]
    assert [len(chunk.headers) for chunk in chunks] == [1, 1]
