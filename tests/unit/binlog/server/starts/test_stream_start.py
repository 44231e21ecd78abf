"""Where a stream begins, and where the next one does when its source refuses that."""

from __future__ import annotations

import contextlib
import struct
from types import SimpleNamespace

import pytest
from support.defaults import address_of

from canal_group.binlog.formats.event_types import EventType
from canal_group.binlog.server.dump.dump_request import OFFSET_MAX
from canal_group.binlog.server.source import ServerFacts
from canal_group.binlog.server.starts.stream_start import AfterGtids, FromOffset, LookingBack, Replaying
from canal_group.merge.errors import DataError, PositionPurged, PositionRefused, SourceUnavailable
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import Position

ADDRESS = address_of("s1", "db0")
AT = Position("bin.000003", 700, parse_gtid_set("0-1-5"), server="1")
LACKS_XA = PositionPurged("XA COMMIT of what?", xid="x", file="bin.000009", begin_offset=400)
PURGED = PositionPurged("No longer there.")


def log(server="1", files=("bin.000001", "bin.000002", "bin.000003")):
    """Return the log of a MariaDB server that answers no query."""
    facts = ServerFacts("10.11.6-MariaDB", int(server), server, {})
    return SimpleNamespace(
        address=ADDRESS,
        connection=None,
        facts=facts,
        sizes=lambda: dict.fromkeys(files, 1000),
        read=lambda *_: contextlib.nullcontext(SimpleNamespace(created=lambda: 20)),
    )


def heartbeat(log_pos):
    return struct.pack("<IBIIIH", 0, EventType.HEARTBEAT, 1, 19, log_pos, 0)


def recovered(start, error, at=AT, of=None):
    return start.recovered(error, at, of or log(), {"bin.000009": 33})


def purge_is_not_called():
    pytest.fail("nothing was purged")


def test_a_dump_from_an_offset_begins_there():
    start = FromOffset(AT)
    assert (start.file_offset, start.decoded, start.by_gtid) == (("bin.000003", 700), AT, False)
    assert start.request(7).payload == struct.pack("<IHI", 700, 0, 7) + b"bin.000003"
    assert start.then(AT).file_offset == start.file_offset


def test_an_offset_that_cannot_be_requested_is_read_up_to():
    far = Position("bin.000003", OFFSET_MAX + 1)
    assert FromOffset(far).file_offset == ("bin.000003", 4)
    assert FromOffset(far).decoded is far
    assert FromOffset(Position("bin.000003", OFFSET_MAX)).file_offset == ("bin.000003", OFFSET_MAX)


def test_by_gtid_the_server_says_where_the_position_is():
    start = AfterGtids(Position("bin.000003", 700, AT.gtid_set, rows_into_transaction=3, server="2"))
    assert (start.file_offset, start.by_gtid) == (("", 4), True)
    assert (start.decoded.file, start.decoded.rows_into_transaction) == ("", 3)
    assert "@slave_connect_state = '0-1-5'" in start.request(7).session
    assert not start.knows(None)
    assert start.knows(("bin.000001", 4))
    assert FromOffset(AT).knows(None)


def test_a_heartbeat_by_gtid_moves_over_what_was_left_out():
    reached = SimpleNamespace(offset=100, in_transaction=False)
    assert not AfterGtids(AT).at_rest(reached, heartbeat(500))
    assert reached.offset == 500
    assert AfterGtids(AT).at_rest(reached, heartbeat(500))
    reached.in_transaction = True
    assert AfterGtids(AT).at_rest(reached, heartbeat(900))
    assert FromOffset(AT).at_rest(reached, heartbeat(900))
    assert reached.offset == 500


def test_rows_of_an_xa_transaction_are_looked_for_ever_further_back():
    first = recovered(FromOffset(AT), LACKS_XA)
    second = recovered(first, LACKS_XA)
    third = recovered(second, LACKS_XA)
    assert [each.file_offset for each in (first, second, third)] == [
        ("bin.000003", 4),
        ("bin.000002", 4),
        ("bin.000001", 4),
    ]
    assert third.position is AT
    with pytest.raises(PositionPurged, match="XA COMMIT"):
        recovered(third, LACKS_XA)
    with pytest.raises(PositionPurged, match="No longer"):
        recovered(second, PURGED)
    assert isinstance(third.then(AT), FromOffset)


def test_by_gtid_they_are_looked_for_on_the_server_that_has_the_commit():
    """On the position's server from its file on, and streams stay by GTID; else from the COMMIT's file."""
    own = recovered(AfterGtids(AT), LACKS_XA)
    assert (own.file_offset, own.position, own.stays_by_gtid) == (("bin.000003", 4), AT, True)
    assert isinstance(own.then(AT), AfterGtids)
    elsewhere = recovered(AfterGtids(AT), LACKS_XA, of=log("2"))
    assert elsewhere.file_offset == ("bin.000009", 4)
    assert elsewhere.position == Position("bin.000009", 400, AT.gtid_set, server="2", created_s=33)
    assert isinstance(elsewhere.then(AT), FromOffset)
    assert not elsewhere.stays_by_gtid


def test_what_a_ring_holds_is_replayed_unless_it_was_purged():
    purged = []
    start = FromOffset(AT).replayed(("bin.000001", 90), lambda: purged.append(1))
    assert isinstance(start, Replaying)
    assert (start.file_offset, start.position) == (("bin.000001", 90), AT)
    again = recovered(start, PURGED)
    assert (again.file_offset, purged) == (("bin.000003", 700), [1])
    for other in (AfterGtids(AT), LookingBack(AT, "bin.000002", FromOffset)):
        assert other.replayed(("bin.000001", 90), purge_is_not_called) is other


def test_a_dump_server_begins_at_offsets_only():
    assert FromOffset(AT).served().file_offset == ("bin.000003", 700)
    served = AfterGtids(AT).served()
    assert served.stays_by_gtid
    assert (served.file_offset, served.by_gtid) == (("bin.000003", 700), False)
    assert isinstance(served.then(AT), AfterGtids)
    assert LookingBack(AT, "bin.000002", FromOffset).served() is None


@pytest.mark.parametrize("start", [FromOffset(AT), AfterGtids(AT), LookingBack(AT, "bin.000002", FromOffset)])
def test_a_lost_connection_is_raised_to_its_caller(start):
    with pytest.raises(SourceUnavailable, match="broke"):
        recovered(start, SourceUnavailable("It broke."))


def test_a_refusal_says_what_was_requested():
    refused = FromOffset(AT).explained(ADDRESS, DataError("No.", hint="Try."))
    assert isinstance(refused, PositionRefused)
    assert (str(refused), refused.details["offset"]) == ("No. The position is bin.000003:700. Try.", 700)
    by_gtid = AfterGtids(AT).explained(ADDRESS, DataError("No."))
    assert (type(by_gtid), by_gtid.details["gtid_set"]) == (DataError, "0-1-5")
