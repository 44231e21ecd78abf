"""XA transactions: rows are handed over by the transaction that commits them, and held within bounds."""

from __future__ import annotations

import struct
import sys

import pytest
from support.binlog.decoding import FILE, Reading, events_of, read, with_checksum

from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.formats.gtid_events import Alter, parse_mariadb_gtid
from canal_group.binlog.grammar.xa import (
    XA_EVENT_BYTES,
    RowsEvent,
    XaTransactions,
    Xid,
    parse_xa_prepare,
    parse_xa_statement,
)
from canal_group.merge.errors import CorruptEvent, PositionPurged, UnsupportedEvent
from canal_group.merge.values.header import WHOLE
from canal_group.merge.values.position import Position

#: the file that the fixture's rotate event names
NEXT = "mysql-bin.000019"
XID = Xid(b"x1", b"", 1)
#: where the fixture's transactions begin: CREATE, prepare x1, commit x1, x2 in one phase, prepare x3, roll
#: back x3
BEGINS = [127 + 71, 427, 837, 1005, 1415, 1825]


def test_rows_come_with_the_commit_and_not_with_the_prepare_or_a_rollback():
    reading = read("xa")
    assert [int(h["begin_offset"]) for h in reading.headers] == BEGINS
    assert [int(h["rows"]) for h in reading.headers] == [1, 0, 1, 1, 0, 0]
    assert [int(h["flags"]) & WHOLE for h in reading.headers] == [WHOLE] * 6
    assert [(row["_header"], row["_row"], row["after"]["id"]) for row in reading.rows] == [
        (2, 0, 20),
        (3, 0, 21),
    ]
    numbers = [int(h["gtid_number"]) for h in reading.headers]
    assert numbers == list(range(numbers[0], numbers[0] + 6))
    assert [int(h["end_offset"]) for h in reading.headers] == [*BEGINS[1:], 1995]


def test_a_stream_that_begins_after_the_prepare_asks_for_it():
    """1. Behind PREPARE the commit's rows are missing: an error with the xid. 2. A lead-in has them."""
    events = events_of("xa")
    later = [e for e in events[1:] if int.from_bytes(e[13:17], "little") > 837]
    short = Reading(start=Position(FILE, 837))
    with pytest.raises(PositionPurged, match="commits here") as caught:
        short.feed([events[0], *later])
    assert caught.value.details["xid"] == "X'7831',X'',1"
    assert caught.value.details["offset"] == 914
    long = Reading(start=Position(FILE, 837))
    long.decoder.offset = 4
    long.feed(events).close()
    assert [row["after"]["id"] for row in long.rows] == [20, 21]
    assert [int(h["begin_offset"]) for h in long.headers] == BEGINS[2:]


def test_a_lead_in_may_begin_in_an_earlier_file():
    events = events_of("xa")
    at = next(i for i, e in enumerate(events) if int.from_bytes(e[13:17], "little") > 837)
    reading = Reading(start=Position(NEXT, 837))
    reading.decoder.file, reading.decoder.offset = FILE, 4
    reading.feed([*events[:at], events[-1]], spliced=True)
    assert reading.decoder.file == NEXT
    reading.decoder.offset = 837
    reading.feed([events[0]]).feed(events[at:-1], spliced=True).close()
    assert [row["after"]["id"] for row in reading.rows] == [20, 21]


def test_a_start_after_a_rollback_needs_nothing():
    events = events_of("xa")
    last = [e for e in events[1:] if int.from_bytes(e[13:17], "little") > 1825]
    reading = Reading(start=Position(FILE, 1825)).feed([events[0], *last]).close()
    assert [int(h["rows"]) for h in reading.headers] == [0]


def test_resumed_inside_a_commit_hands_over_the_rest_only():
    reading = Reading(start=Position(FILE, 837, rows_into_transaction=1))
    reading.decoder.offset = 4
    reading.feed(events_of("xa")).close()
    assert [row["after"]["id"] for row in reading.rows] == [21]
    assert int(reading.headers[0]["row_begin"]) == 1


def test_a_file_that_ends_inside_an_xa_transaction_rolled_it_back():
    events = events_of("xa")
    end = next(i for i, e in enumerate(events) if e[4] == EventType.XA_PREPARE)
    reading = Reading().feed([*events[:end], events[-1]], spliced=True).close()
    assert reading.rows == []
    assert len(reading.headers) == 1


def test_prepare_without_start_is_noticed():
    events = events_of("xa")
    prepare = next(e for e in events if e[4] == EventType.XA_PREPARE)
    with pytest.raises(CorruptEvent, match="XA PREPARE"):
        Reading().feed([*events[:4], prepare], spliced=True)


def rows_of(size):
    return RowsEvent(None, b"", EventType.WRITE_ROWS, bytes(size), 10)


def test_what_is_held_is_bounded_and_a_refused_row_changes_nothing():
    xa = XaTransactions(xids_max=2, bytes_max=10 + 2 * XA_EVENT_BYTES)
    xa.begin()
    xa.hold(rows_of(6))
    with pytest.raises(UnsupportedEvent, match="more than 522 bytes") as caught:
        xa.hold(rows_of(5))
    assert "XA RECOVER" in caught.value.hint
    xa.hold(rows_of(4))
    assert xa.events == 2
    xa.prepare(XID)
    xa.begin()
    with pytest.raises(UnsupportedEvent):
        xa.hold(rows_of(1))
    assert len(xa.decide(XID)) == 2
    xa.hold(rows_of(10 + XA_EVENT_BYTES))
    assert xa.decide(XID) is None


def test_xids_are_bounded_and_a_name_may_come_again():
    xa = XaTransactions(xids_max=2)
    for name in (b"a", b"b"):
        xa.begin()
        xa.prepare(Xid(name, b"", 1))
    xa.begin()
    with pytest.raises(UnsupportedEvent, match="More than 2"):
        xa.prepare(Xid(b"c", b"", 1))
    xa.prepare(Xid(b"a", b"", 1))
    xa.begin()
    with pytest.raises(UnsupportedEvent, match="More than 2"):
        xa.prepare(Xid(b"a", b"other", 1))


def test_statements_and_events():
    assert parse_xa_statement("XA COMMIT X'7831',X'',1 ONE PHASE") == ("COMMIT", XID, True)
    assert parse_xa_statement("xa begin x'7831',x'ff',-1".replace("-", "")) == (
        "START",
        Xid(b"x1", b"\xff", 1),
        False,
    )
    for sql in ("XA RECOVER", "XA START 'a'", "XA START X'7',X'',1"):
        with pytest.raises(UnsupportedEvent):
            parse_xa_statement(sql)
    body = b"\0\1\0\0\0\2\0\0\0\0\0\0\0x1"
    assert parse_xa_prepare(body) == (False, XID)
    for broken in (body[:-1], body[:5] + b"\xff\xff\xff\xff" + body[9:]):
        with pytest.raises(CorruptEvent):
            parse_xa_prepare(broken)


def test_a_start_at_a_files_end_wants_everything_of_the_next_file():
    """The source was killed, so no event ends the file: an artificial ROTATE leads into the next one."""
    events = events_of("savepoint")
    rotate = struct.pack("<IBIIIH", 0, EventType.ROTATE, 1, 19 + 8 + len(NEXT) + 4, 0, 0x20)
    rotate = with_checksum(rotate + struct.pack("<Q", 4) + NEXT.encode() + bytes(4))
    reading = Reading(start=Position(FILE, 2042))
    reading.decoder.offset = 4
    reading.feed(events_of("xa")[:-1]).feed([rotate, *events]).close()
    assert [row["after"]["id"] for row in reading.rows] == [30, 32]


def test_what_holding_an_event_costs_beside_its_bytes_is_counted():
    """Millions of small ones are hundreds of megabytes, which their own bytes do not say."""
    assert sys.getsizeof(rows_of(0)) + sys.getsizeof(bytes(0)) + 8 <= XA_EVENT_BYTES
    xa = XaTransactions(bytes_max=1_000 * XA_EVENT_BYTES)
    xa.begin()
    for _ in range(996):
        xa.hold(rows_of(1))
    with pytest.raises(UnsupportedEvent, match="Undecided XA transactions"):
        xa.hold(rows_of(1))


def test_what_is_dropped_is_not_held():
    xa = XaTransactions(bytes_max=10 + XA_EVENT_BYTES)
    for _ in range(3):
        xa.begin()
        xa.hold(rows_of(10))
        xa.drop()
    xa.begin()
    xa.hold(rows_of(10))
    assert len(xa.take()) == 1


def test_a_mariadb_gtid_with_everything_it_can_have():
    """Group commit id, xid, and after them the flags of an ALTER."""
    head = struct.pack("<QIB", 9, 3, 0x02 | 0x80) + bytes(8) + struct.pack("<IBB", 1, 2, 1) + b"\xff\xff\xff"
    start = parse_mariadb_gtid(head + b"\x04" + bytes(8), 7)
    assert (start.source, start.number, start.implied_begin) == ("3-7", 9, True)
    assert (start.prepares_xa, start.alter) == (False, Alter.COMMIT)
    assert parse_mariadb_gtid(
        struct.pack("<QIB", 9, 3, 0x40) + struct.pack("<IBB", 1, 1, 0) + b"\x02", 7
    ) == (
        "3-7",
        9,
        0,
        True,
        True,
        None,
    )
