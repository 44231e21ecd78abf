"""What a dump server takes from a keeper, which says each second, or more often, what it needs."""

from __future__ import annotations

import socket

from support.binlog.archived import options_of
from support.deadline import await_true
from support.defaults import address_of, ring_of

from canal_group.actors.store.ring import RingStore
from canal_group.binlog.dump_server.served_reader import Kept, ServedReader
from canal_group.binlog.server.dump_server.access import DumpServerAccess
from canal_group.binlog.server.dump_server.wire import REQUEST_BYTES_MAX, keeps, packets_of, socket_name
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KEPT_MAX, RINGS, KeptPosition, kept_files

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_the_last_of_many_positions_is_taken() -> None:
    """A dump server that is busy leaves a keeper's positions unread, more bytes than one request may have."""
    positions = [(KeptPosition("c", Position("mysql-bin.000001", 4 + number)),) for number in range(1_000)]
    said = [keeps("a/s", each) for each in positions]
    dump_server, keeper = socket.socketpair()
    with dump_server, keeper:
        served, kept = ServedReader(dump_server), None
        requests = b"".join(map(packets_of, said))
        assert len(requests) > 2 * REQUEST_BYTES_MAX
        keeper.sendall(requests)
        while kept != Kept("a/s", positions[-1]):
            kept = served.receive() or kept
            assert kept is not None
        assert served.receive() is None


def test_a_keeper_with_a_large_gtid_set_names_the_file_that_it_needs() -> None:
    address = address_of("s1", "db0", destination="shop", archive=options_of("/archive"))
    gtids = parse_gtid_set(f"{UUID}:" + ":".join(str(number) for number in range(1, 20_000, 2)))
    access = DumpServerAccess(address, RingStore(ring_of("items", 16)))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(socket_name(address, UUID))
        listener.listen()
        access.keep(Position("mysql-bin.000007", 120, gtids), UUID)
        try:
            connection, _ = listener.accept()
            with connection:
                served = ServedReader(connection)
                await_true(served.receive, "it says what it needs")
        finally:
            access.close()
    assert served.kept == Kept(
        "shop/s1", (KeptPosition(RINGS, Position("mysql-bin.000007", 4, server=UUID)),)
    )


def test_as_many_clients_as_may_be_named_fit_a_request() -> None:
    position = Position("m" * 64 + ".000007", 4, server=UUID, created_s=1_795_193_265)
    told = [("c" * 125 + str(number), position) for number in range(KEPT_MAX + 1)]
    said = keeps("shop/s1", kept_files(told))
    assert len(kept_files(told)) == KEPT_MAX
    assert len(said) <= REQUEST_BYTES_MAX
