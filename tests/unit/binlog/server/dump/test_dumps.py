"""Where the packets of a stream come from, and what a dump says."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.defaults import address_of

from canal_group.binlog.server.dump.dumps import Archives, DumpServer, OwnDumps, dumps_of
from canal_group.binlog.server.dump.own_dump import OwnDump
from canal_group.binlog.server.dump_server.shared_dump import SharedDump
from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.semi_sync.modes import SemiSync
from canal_group.binlog.server.starts.stream_start import AfterGtids, FromOffset, LookingBack
from canal_group.merge.errors import PositionRefused, SourceUnavailable
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import Position

ADDRESS = address_of("s1", "db0", dump_window_bytes_max=1 << 20)
LOG = SimpleNamespace(facts=SimpleNamespace(identity="1"))
AT = Position("bin.000003", 700, parse_gtid_set("0-1-5"), server="1")


class Access:
    """A dump server that covers every position that it is asked for."""

    def __init__(self):
        self.attached = False
        self.asked = []

    def keep(self, position, server):
        pass

    def begin(self, position, server):
        self.asked.append((position, server))
        self.attached = True
        return SimpleNamespace(packets=SimpleNamespace(buffer=None), position=position)

    def another(self, position, server):
        self.asked.append((position, server))
        return SimpleNamespace(packets=SimpleNamespace(buffer=None), position=position)

    def move(self, position, server):
        self.asked.append((position, server))
        return True

    def lost(self, why):
        self.attached = False
        self.asked.append(why)


@pytest.fixture
def served(monkeypatch):
    dumps = DumpServer(ADDRESS, SemiSync(), threading.Event(), None)
    dumps._access = Access()
    monkeypatch.setattr(OwnDumps, "open", lambda _, start, log: ("own", start, log.facts.identity))
    return dumps


def better(dumps, start, *, caught_up=False, prepared=0):
    return dumps.better(start, LOG, caught_up=caught_up, prepared=prepared)


def test_a_dump_server_is_asked_only_if_there_may_be_one():
    for changes, kind in (
        ({}, DumpServer),
        ({"dump_window_bytes_max": 0}, Archives),
        ({"semi_sync": "ring"}, OwnDumps),
    ):
        assert type(dumps_of(replace(ADDRESS, **changes), SemiSync(), threading.Event(), None)) is kind


def test_a_dump_server_sends_what_follows_an_offset(served):
    packets, start, _ = served.open(FromOffset(AT), LOG)
    assert isinstance(packets, SharedDump)
    assert (packets.start, packets.file_offset, start.file_offset) == (
        AT,
        ("bin.000003", 700),
        ("bin.000003", 700),
    )
    assert served.shared
    assert served._access.asked == [(AT, "1")]
    ahead = packets.ahead([])
    assert (ahead.start, ahead.file_offset) == (AT, ("bin.000003", 700)), "it is searched from there, too"
    assert served._access.asked == [(AT, "1"), (AT, "1")]


@pytest.mark.parametrize(
    "start",
    [
        AfterGtids(AT),
        LookingBack(AT, "bin.000002", FromOffset),
        FromOffset(replace(AT, server="2")),
        FromOffset(replace(AT, rows_into_transaction=1)),
    ],
)
def test_what_it_does_not_know_the_source_sends(served, start):
    assert served.open(start, LOG) == ("own", start, "1")
    assert not served.shared
    assert not served._access.asked


def test_by_gtid_it_serves_what_follows_the_end_that_a_stream_has_met(served):
    start = AfterGtids(AT)
    assert not better(served, start)
    assert better(served, start, caught_up=True)
    assert better(served, start)
    assert not better(served, start, prepared=1), "their rows are before"
    packets, start, _ = served.open(start, LOG)
    assert isinstance(packets, SharedDump)
    assert isinstance(start.then(AT), AfterGtids)
    assert not better(served, start), "it serves already"


def test_what_a_dump_server_says_is_said_of_itself(served):
    assert not served.lost(SourceUnavailable("It broke."))
    served.open(FromOffset(AT), LOG)
    assert served.lost(SourceUnavailable("It broke."))
    assert not served.lost(SourceUnavailable("It broke."))
    assert served._access.asked[1:] == ["It broke."]


@pytest.fixture
def dump():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield OwnDump(ADDRESS, FromOffset(AT), PacketReader(ours, 0.1)), theirs


def sent(dump, payload):
    own, theirs = dump
    theirs.sendall(len(payload).to_bytes(3, "little") + b"\1" + payload)
    own.fill()
    return own.take()


def test_a_dump_holds_events(dump):
    assert dump[0].take() is None
    assert sent(dump, b"\0event") == b"event"
    assert dump[0].read_bytes == 10


@pytest.mark.parametrize(
    ("payload", "error", "text"),
    [
        (b"", SourceUnavailable, "sent an empty packet. .shard s1"),
        (b"\0", SourceUnavailable, "sent an empty packet. .shard s1"),
        (b"\xfe", SourceUnavailable, "ended the stream. .shard s1"),
        (b"\xff\xd4\x04#HY000Slave has more", PositionRefused, "The position is bin.000003:700"),
        (
            b"\xff\x1d\x04#08S01Server shutdown",
            SourceUnavailable,
            "is not available: the server shuts down .1053",
        ),
    ],
)
def test_what_is_not_an_event_ends_it(dump, payload, error, text):
    with pytest.raises(error, match=text):
        sent(dump, payload)
