"""Replies to a source, over a real pair of sockets."""

from __future__ import annotations

import socket
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.defaults import address_of

from canal_group.binlog.server.packets import PacketReader
from canal_group.binlog.server.semi_sync.modes import semi_sync_of
from canal_group.binlog.server.semi_sync.replies import Replies, unfreed
from canal_group.binlog.server.semi_sync.source_side import found_at
from canal_group.binlog.server.semi_sync.wake import Wake
from canal_group.binlog.server.starts.stream_start import FromOffset
from canal_group.merge.errors import PositionPurged, SourceUnavailable
from canal_group.merge.values.position import Position


class Ring:
    """Cursors of a ring store."""

    def __init__(self, freed=-1, stored=-1):
        self.freed, self.stored, self.first = freed, stored, None

    @property
    def cursors(self):
        return self.freed, self.stored, self.stored

    def first_position(self):
        return self.first

    def on_free(self, call):
        self.call = call


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        yield PacketReader(ours, 0.05, semi_sync=True), theirs


def received(theirs):
    """Return the offsets of the replies that have arrived."""
    try:
        data = theirs.recv(1 << 16)
    except BlockingIOError:
        return []
    found = []
    while data:
        size = int.from_bytes(data[:3], "little")
        assert data[3:5] == b"\0\xef", "each reply is number 0, and marked"
        found.append((data[13 : 4 + size].decode(), int.from_bytes(data[5:13], "little")))
        data = data[4 + size :]
    return found


def ask(packets):
    packets.buffer.reply_awaited = True


def test_a_source_that_does_not_wait_gets_no_reply(ends):
    packets, theirs = ends
    Replies(packets, None).handed_over("bin.1", 100, all_read=True)
    assert not received(theirs)


def test_a_reply_follows_what_was_handed_over(ends):
    packets, theirs = ends
    replies = Replies(packets, None)
    ask(packets)
    replies.handed_over("bin.1", 100, all_read=True)
    assert received(theirs) == [("bin.1", 100)]
    assert not replies.asked
    replies.handed_over("bin.1", 200, all_read=True)
    assert not received(theirs)


def test_inside_a_transaction_the_source_is_still_owed_a_reply(ends):
    packets, theirs = ends
    replies = Replies(packets, None)
    ask(packets)
    replies.handed_over("bin.1", 100, all_read=False)
    replies.handed_over("bin.1", 100, all_read=False)
    assert received(theirs) == [("bin.1", 100)], "one offset is replied with once"
    replies.handed_over("bin.1", 300, all_read=True)
    assert received(theirs) == [("bin.1", 300)]


def test_with_a_ring_a_reply_waits_until_that_is_freed(ends):
    packets, theirs = ends
    ring = Ring()
    replies = Replies(packets, ring)
    for stored in range(3):
        ask(packets)
        ring.stored = stored
        replies.handed_over("bin.1", 100 * (stored + 1), all_read=True)
    assert not received(theirs)
    ring.freed = 1
    replies.freed()
    assert received(theirs) == [("bin.1", 200)], "one reply answers everything before it"
    ring.freed = 2
    replies.freed()
    replies.freed()
    assert received(theirs) == [("bin.1", 300)]


def test_what_brings_no_header_waits_for_the_headers_before(ends):
    packets, theirs = ends
    ring = Ring(stored=0)
    replies = Replies(packets, ring)
    for offset in (100, 200):
        ask(packets)
        replies.handed_over("bin.1", offset, all_read=True)
    assert not received(theirs)
    ring.freed = 0
    replies.freed()
    assert received(theirs) == [("bin.1", 200)]
    ask(packets)
    replies.handed_over("bin.2", 4, all_read=True)
    assert received(theirs) == [("bin.2", 4)]


def test_a_new_connection_replies_to_what_the_ring_held(ends):
    packets, theirs = ends
    ring = Ring(stored=5)
    replies = Replies(packets, ring)
    replies.owe("bin.1", 100)
    replies.freed()
    assert not received(theirs)
    ring.freed = 5
    replies.freed()
    assert received(theirs) == [("bin.1", 100)]


def test_a_dump_begins_at_what_the_ring_has_not_freed():
    opened = Position("bin.1", 100)
    assert unfreed(Ring(), opened) is None
    ring = Ring(stored=3)
    assert unfreed(ring, opened) == ("bin.1", 100)
    ring.freed, ring.first = 2, Position("bin.2", 50)
    assert unfreed(ring, opened) == ("bin.2", 50)
    ring.freed = 3
    assert unfreed(ring, opened) is None


def mode(semi_sync, ring=None):
    return semi_sync_of(address_of("s1", "db0", semi_sync=semi_sync), ring)


@pytest.mark.parametrize(
    ("semi_sync", "server", "replied"),
    [("off", "1", []), ("ring", "1", [("bin.1", 100)]), ("ring", "2", []), ("cursor", "1", [("bin.1", 100)])],
)
def test_a_connection_begins_with_a_reply_if_its_source_waits(ends, semi_sync, server, replied):
    packets, theirs = ends
    dump = SimpleNamespace(packets=packets, server="1")
    replies = mode(semi_sync, Ring()).replies(dump, Position("bin.1", 100, server=server))
    replies.freed()
    assert received(theirs) == replied


def test_only_what_waits_for_a_ring_is_woken_by_it():
    ring = Ring()
    assert mode("off", ring).wake() is None
    assert mode("ring", ring).wake() is None
    wake = mode("cursor", ring).wake()
    ring.call()
    wake.clear()
    wake.close()


def test_a_stream_replays_the_ring_of_its_server_unless_purged():
    ring = Ring(stored=3)
    opened, start = Position("bin.1", 100, server="1"), FromOffset(Position("bin.2", 50, server="1"))
    for semi_sync in ("off", "ring"):
        assert mode(semi_sync, ring).replayed(start, opened) is start
    replaying = mode("cursor", ring)
    again = replaying.replayed(start, opened)
    assert (again.file_offset, again.position) == (("bin.1", 100), start.position)
    assert replaying.replayed(start, replace(opened, server="2")) is start
    after = again.recovered(PositionPurged("Gone."), start.position, None, {})
    assert replaying.replayed(after, opened) is after
    assert replaying.replayed(after, opened).file_offset == ("bin.1", 100), "the next one may be there again"
    ring.freed = 3
    assert replaying.replayed(start, opened) is start


def test_a_reply_that_cannot_be_sent_is_a_lost_connection(ends):
    packets, theirs = ends
    theirs.close()
    with pytest.raises(SourceUnavailable, match="A reply could not be sent"):
        packets.reply(b"x")


def test_an_unread_reply_is_a_lost_connection(ends):
    packets, _ = ends
    with pytest.raises(SourceUnavailable, match="A reply could not be sent"):
        packets.reply(bytes(1 << 22))


def test_a_wait_for_bytes_is_ended():
    ours, theirs = socket.socketpair()
    wake = Wake()
    with ours, theirs:
        packets = PacketReader(ours, 0.05, semi_sync=True, wake=wake)
        wake.set()
        packets.fill()
        assert packets.empty
        with pytest.raises(SourceUnavailable, match="not even a heartbeat"):
            packets.fill()
        theirs.sendall(b"\1\0\0\1\xfe")
        packets.fill()
        assert packets.take() == b"\xfe"
    wake.close()
    wake.set()
    assert wake.fileno() == -1


def test_no_source_waits_for_a_scan():
    """It reads what may not be in the ring yet, and keeps nothing."""
    address = address_of("s1", "127.0.0.1", semi_sync="ring")
    assert address.scanner("position").semi_sync == "off"


def test_without_a_ring_a_new_connection_replies_to_what_was_handed_over(ends):
    packets, theirs = ends
    replies = Replies(packets, None)
    replies.owe("bin.1", 100)
    assert not received(theirs)
    replies.freed()
    assert received(theirs) == [("bin.1", 100)]


@pytest.mark.parametrize(
    ("variables", "ok", "found"),
    [
        ({}, False, "its plugin is not installed"),
        ({"rpl_semi_sync_master_enabled": "OFF"}, False, "rpl_semi_sync_master_enabled = OFF"),
        ({"rpl_semi_sync_source_enabled": "OFF"}, False, "rpl_semi_sync_source_enabled = OFF"),
        (
            {"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_timeout": "10000"},
            True,
            "at most 10000 ms",
        ),
        (
            {"rpl_semi_sync_source_enabled": "1", "rpl_semi_sync_source_timeout": "5"},
            True,
            "at most 5 ms",
        ),
    ],
)
def test_what_a_source_has_on(variables, ok, found):
    what = found_at(variables)
    assert what[0] is ok
    assert found in what[1]
    assert bool(what[2]) is not ok
